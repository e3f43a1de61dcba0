"""Where the parts of a v4 graph lie below its root."""

from __future__ import annotations

from omnigraph_spark.names import TypeKey, TypeKind
from omnigraph_spark.schema.hashes import fnv1a_64

_FOLDERS = {TypeKind.NODE: "nodes", TypeKind.EDGE: "edges"}


def dataset_path(key: TypeKey) -> str:
    """Return the folder of a type's dataset: the hash of the bare name, so that any name fits.

    >>> dataset_path(TypeKey.parse("node:Person"))
    'nodes/40d76f1f51639ec0'
    """
    return f"{_FOLDERS[key.kind]}/{fnv1a_64(key.name.encode()):016x}"
