"""How the jar is told of one table: columns, snapshot, size, and what may be pushed into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_spark.arrow_rows import public_columns, row_width_bytes
from omnigraph_spark.blobs import Blobs, is_blob
from omnigraph_spark.options import ROWS_OF_TYPES, ReadOptions
from omnigraph_spark.predicates import is_filterable, is_sortable
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import (
    CheckConstraint,
    Constraint,
    EdgeType,
    EntityType,
    IndexConstraint,
    KeyConstraint,
    NodeType,
    RangeConstraint,
    UniqueConstraint,
)
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.storage.parts import looked_up_fragments
from pyspark_omnigraph.feed import FeedSubject
from pyspark_omnigraph.metadata import MetadataSubject
from pyspark_omnigraph.reader import TypeSubject

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Bytes of one cell of a table about the graph, which is small in any case.
_METADATA_WIDTH = 32
# Larger types are not broadcast by any estimate, and have many fragments to look at.
_MEASURED_ROWS = 50_000_000
#: How many rows such a table may have, to the planner: they are made when it is read.
_METADATA_ROWS = 1_000

_WORDS: dict[type[Constraint], str] = {
    KeyConstraint: "key",
    UniqueConstraint: "unique",
    IndexConstraint: "index",
}


def described_type(
    state: SnapshotState, subject: TypeSubject, pinned: bool, pushdown: bool
) -> dict[str, Any]:
    """Describe a node or edge type at a snapshot.

    `pinned` says that the query named the snapshot itself, `pushdown` that the user lets the
    planner push work into the scan.
    """
    request, source = subject.request, subject.source
    indexes = source.open().indexes()
    columns = public_columns(source.columns(), request.blobs)
    type_key = str(source.entry.type_key)
    chosen = columns if request.columns is None else _named(columns, request.columns)
    return {
        **_snapshot(state, pinned),
        "schema": subject.schema().json(),
        "source": {"type": type_key},
        "type_key": type_key,
        "rows": source.entry.rows,
        "widths": _widths(source, columns, chosen, request.blobs),
        "can": _can(subject) if pushdown else [],
        "filterable": [c.name for c in chosen if is_filterable(c)],
        "sortable": [c.name for c in chosen if is_sortable(c)],
        "indexed": [c.name for c in chosen if looked_up_fragments(indexes, [c.name])],
        "ignored": [],
        "properties": {**_properties(state, source.entry.rows), **_declared(source.declared)},
        "constraints": list(_keys(source.declared)),
    }


def described_feed(
    state: SnapshotState, subject: FeedSubject, options: ReadOptions
) -> dict[str, Any]:
    """Describe the changes of a type along commits that the options name by both ends."""
    ends = {"startingVersion": options.starting_version, "endingVersion": options.ending_version}
    given = {key: text for key, text in ends.items() if text is not None}
    return {
        **_rows_of_spark(state, subject.schema()),
        "pinned": True,
        "source": {"type": subject.type_name, "readChangeFeed": "true", **given},
        "properties": {**_properties(state, None), "omnigraph.type": subject.type_name},
    }


def described_table(state: SnapshotState, subject: MetadataSubject, pinned: bool) -> dict[str, Any]:
    """Describe a table about the graph at a snapshot."""
    return {
        **_rows_of_spark(state, subject.schema()),
        "pinned": pinned,
        "source": {"table": subject.table_name},
        "ignored": ROWS_OF_TYPES,
        "properties": {**_properties(state, None), "comment": f"One row per {subject.table.row}"},
    }


def _rows_of_spark(state: SnapshotState, schema: StructType) -> dict[str, Any]:
    """Describe rows that are made when they are read, of which nothing is known before."""
    return {
        **_snapshot(state, True),
        "schema": schema.json(),
        "type_key": None,
        "rows": _METADATA_ROWS,
        "widths": {name: str(_METADATA_WIDTH) for name in schema.names},
        "can": [],
        "filterable": [],
        "sortable": [],
        "indexed": [],
        "ignored": [],
        "constraints": [],
    }


def _widths(
    source: ScanSource, columns: Sequence[Column], chosen: Sequence[Column], blobs: Blobs
) -> dict[str, str]:
    """Estimate the bytes of a value of each chosen column, as Spark does for its own files.

    By what the files of the type take for a row, shared among the columns: where it is less than
    the values take in memory, a join that broadcasts Parquet of that size broadcasts this as well.
    """
    guessed = {column.name: row_width_bytes(column, blobs) for column in columns}
    share, rows = 1.0, source.entry.rows
    if 0 < rows <= _MEASURED_ROWS and not any(map(is_blob, columns)):
        stored = sum(fragment.size_bytes for fragment in source.open().fragments()) / rows
        # Files of unknown size say nothing.
        share = min(1.0, stored / sum(guessed.values())) or 1.0
    return {column.name: f"{guessed[column.name] * share:.3f}" for column in chosen}


def _snapshot(state: SnapshotState, pinned: bool) -> dict[str, Any]:
    return {"branch": state.branch, "version": state.manifest_version, "pinned": pinned}


def _named(columns: tuple[Column, ...], names: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(column for column in columns if column.name in names)


def _can(subject: TypeSubject) -> list[str]:
    """Say what may be pushed: a user's own limit comes first, so nothing may go below it."""
    if subject.request.limit is not None:
        return []
    counts = ["count"] if subject.request.where is None else []
    return ["filter", "limit", "topn", "aggregate", *counts]


def _properties(state: SnapshotState, rows: int | None) -> dict[str, str]:
    facts = {
        "provider": "omnigraph",
        "location": state.root,
        "omnigraph.branch": state.branch,
        "omnigraph.version": str(state.manifest_version),
        "omnigraph.commit": state.commit.id,
    }
    return facts if rows is None else {**facts, "omnigraph.rows": str(rows)}


def _declared(declared: EntityType | None) -> dict[str, str]:
    """Say what the schema declares of a type besides its columns."""
    if declared is None:
        return {}
    facts = {"omnigraph.type": str(declared.type_key)}
    if isinstance(declared, NodeType) and declared.key:
        facts["omnigraph.key"] = ", ".join(declared.key)
    if isinstance(declared, EdgeType):
        facts["omnigraph.from"], facts["omnigraph.to"] = declared.from_type, declared.to_type
    if declared.constraints:
        facts["omnigraph.constraints"] = "; ".join(map(_constraint, declared.constraints))
    if declared.description:
        facts["comment"] = declared.description
    return facts


def _keys(declared: EntityType | None) -> Iterator[dict[str, Any]]:
    """Name what is unique in a type, and which nodes the ends of an edge are."""
    yield {"name": "id", "columns": ["id"], "to": None}
    if isinstance(declared, EdgeType):
        for end, nodes in (("src", declared.from_type), ("dst", declared.to_type)):
            yield {"name": end, "columns": [end], "to": ["nodes", nodes]}
    for rule in () if declared is None else declared.constraints:
        if isinstance(rule, KeyConstraint | UniqueConstraint):
            word = f"{_WORDS[type(rule)]}_{'_'.join(rule.columns)}"
            yield {"name": word, "columns": list(rule.columns), "to": None}


def _constraint(constraint: Constraint) -> str:
    match constraint:
        case RangeConstraint(name, low, high):
            bounds = ("" if bound is None else str(bound) for bound in (low, high))
            return f"range({name}, {'..'.join(bounds)})"
        case CheckConstraint(name, pattern):
            return f"check({name}, {pattern!r})"
        case KeyConstraint(columns) | UniqueConstraint(columns) | IndexConstraint(columns):
            return f"{_WORDS[type(constraint)]}({', '.join(columns)})"
