"""What becomes of the columns of one write: decided from schemas alone, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph_spark.errors import ColumnNotFoundError, ConflictingOptionsError, SchemaMismatchError
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.model import EdgeType, EntityType, NodeType
from omnigraph_spark.writing.intake.columns import Source, Sources
from omnigraph_spark.writing.intake.ids import forms_id

_ENDS = ("src", "dst")


@dataclass(frozen=True)
class Plan:
    """Where every stored column comes from."""

    type_key: str
    #: The columns that are written: all of the type, or the id and some.
    schema: pa.Schema
    #: One for each of those columns but the id, in their order.
    sources: tuple[Source, ...]
    id: Source | None
    #: The column whose values form the ids.
    key: Source | None
    #: Where among the sources the key is written as well.
    place_of_key: int | None
    #: Whether a row without an id gets a new one.
    makes_ids: bool
    #: Whether rows have both ends of an edge to be named by.
    has_ends: bool


def plan_intake(
    declared: EntityType,
    given: pa.Schema,
    mode: str,
    merge_columns: Sequence[str] | None,
    external_blobs: bool,
) -> Plan:
    """Match given columns to stored ones, or raise an error that says what would work."""
    refuse_some_columns(mode, merge_columns)
    stored = arrow_schema(declared)
    sources = Sources(declared, given, external_blobs)
    some = mode == "delete" or merge_columns is not None
    names = [name for name in stored.names if name != "id"]
    if some:
        chosen = _chosen(str(declared.type_key), names, merge_columns or (), sources)
        names = [name for name in names if name in chosen]
    key = _key(declared, sources, optional=some)
    # A row that is looked for by its id cannot do without one.
    makes_ids = key is None and not some
    id_ = sources.text("id") if sources.has("id") else None
    if id_ is None and not makes_ids and (key is None or not forms_id(key.type.scalar)):
        reason = "rows are found by it" if key is None else f"a key of {key.type} has many texts"
        raise SchemaMismatchError(str(declared.type_key), "id", "nothing", f"needed here: {reason}")
    edge = isinstance(declared, EdgeType)
    return Plan(
        type_key=str(declared.type_key),
        schema=pa.schema([stored.field(name) for name in ["id", *names]]),
        sources=tuple(
            sources.text(name) if edge and name in _ENDS else sources.property(name)
            for name in names
        ),
        id=id_,
        key=key,
        place_of_key=names.index(key.name) if key is not None and key.name in names else None,
        makes_ids=makes_ids,
        has_ends=edge and set(_ENDS) <= set(names),
    )


def refuse_some_columns(mode: str, merge_columns: Sequence[str] | None) -> None:
    """Refuse columns that are to be merged by what is no merge."""
    if merge_columns is not None and mode != "merge":
        rule = f"a write of mode {str(mode)!r} writes every column"
        raise ConflictingOptionsError(("mode", "mergeColumns"), rule)


def _chosen(
    type_key: str, names: Sequence[str], merge_columns: Sequence[str], sources: Sources
) -> frozenset[str]:
    for name in merge_columns:
        if name not in names:
            raise ColumnNotFoundError(type_key, name, tuple(names))
        if not sources.has(name):
            # Null would take the place of values that were to be merged.
            raise SchemaMismatchError(type_key, name, "nothing", "one of mergeColumns")
    return frozenset(merge_columns)


def _key(declared: EntityType, sources: Sources, optional: bool) -> Source | None:
    if not isinstance(declared, NodeType) or not declared.key:
        return None
    name = declared.key[0]
    return None if optional and not sources.has(name) else sources.property(name)
