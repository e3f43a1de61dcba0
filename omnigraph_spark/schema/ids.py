"""The numbers that stand for types and properties in the compiled schema."""

from __future__ import annotations

from omnigraph_spark.schema.hashes import fnv1a_32


def type_id(kind: str, name: str) -> int:
    """Number a type; `kind` is interface, node or edge.

    >>> type_id("node", "Person")
    3227219152
    """
    return _id(f"{kind}:{name}")


def property_id(kind: str, owner: str, name: str) -> int:
    """Number a property within its type.

    >>> property_id("node", "Person", "age")
    3446138241
    """
    return _id(f"{kind}:{owner}:{name}")


def _id(text: str) -> int:
    # Zero means "no id" to the engine.
    return fnv1a_32(text.encode()) or 1
