"""Tables about a graph: commits, branches, entries, schema, fragments, indexes, upkeep.

Each is declared once, with its columns; the data source, the Python API and the README read this.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_spark.branches import read_branches
from omnigraph_spark.errors import InvalidOptionError, nearest
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import (
    Cardinality,
    CheckConstraint,
    EdgeType,
    EntityType,
    IndexConstraint,
    KeyConstraint,
    NodeType,
    RangeConstraint,
    Scalar,
    UniqueConstraint,
)
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.parts import Index
from omnigraph_spark.table_shape import (
    FLAG,
    LONG,
    TEXT,
    TEXTS,
    TIMESTAMP,
    MetadataTable,
    Row,
    declare_table,
)
from omnigraph_spark.upkeep_tables import UPKEEP_TABLES


def metadata_table(name: str) -> MetadataTable:
    """Return the table of that name, or say which there are."""
    if name.lower() in METADATA_TABLES:
        return METADATA_TABLES[name.lower()]
    close = nearest(name, METADATA_TABLES)
    expected = f"one of {', '.join(METADATA_TABLES)}"
    raise InvalidOptionError("table", name, f"{close!r}, or {expected}" if close else expected)


def _commits(state: SnapshotState) -> Iterator[Row]:
    for commit in GraphReader.open(state.root, state.settings).commits(state):
        yield (
            commit.id,
            commit.branch,
            commit.manifest_version,
            commit.parent_id,
            commit.merged_parent_id,
            commit.actor,
            commit.created_at_us,
        )


def _branches(state: SnapshotState) -> Iterator[Row]:
    for branch in read_branches(Manifest(state.root, state.settings)):
        yield (
            branch.name,
            branch.head.id,
            branch.manifest_version,
            branch.parent,
            list(branch.forked_types),
            branch.created_at_us,
        )


def _entries(state: SnapshotState) -> Iterator[Row]:
    for key, entry in state.entries.items():
        fragments = ScanSource.of(state, key).open().fragments()
        yield (
            key,
            entry.path,
            entry.dataset_branch,
            entry.dataset_version,
            entry.rows,
            sum(fragment.size_bytes for fragment in fragments),
            len(fragments),
        )


def _types(state: SnapshotState) -> Iterator[Row]:
    for key, entry in state.entries.items():
        declared = state.schema.get(entry.type_key)
        edge = declared if isinstance(declared, EdgeType) else None
        node = declared if isinstance(declared, NodeType) else None
        yield (
            key,
            str(entry.type_key.kind),
            entry.type_key.name,
            edge.from_type if edge else None,
            edge.to_type if edge else None,
            list(node.key) if node else [],
            edge.cardinality.min if edge else None,
            edge.cardinality.max if edge else None,
            list(node.implements) if node else [],
            entry.rows,
            declared.description if declared else None,
        )


def _properties(state: SnapshotState) -> Iterator[Row]:
    for key in state.entries:
        for position, column in enumerate(ScanSource.of(state, key).columns()):
            yield _property(key, position, column)


def _property(key: str, position: int, column: Column) -> Row:
    return (
        key,
        column.name,
        position,
        str(column.type),
        spark_type_name(column),
        column.type.nullable,
        column.key,
        list(column.type.enum_values or ()),
        column.type.dimension if column.type.scalar is Scalar.VECTOR else None,
        column.embed_source,
        column.description,
    )


#: Names of Spark's types, as its SQL writes them; `session.types` has the types themselves.
_SPARK_NAMES: dict[Scalar, str] = {
    Scalar.STRING: "string",
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.I64: "bigint",
    Scalar.U32: "bigint",
    Scalar.U64: "decimal(20,0)",
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.DATE: "date",
    Scalar.DATETIME: "timestamp",
    Scalar.VECTOR: "array<float>",
    Scalar.BLOB: "struct<kind:string,size:bigint,uri:string>",
}


def spark_type_name(column: Column) -> str:
    """Return the name of the Spark type a column is read as.

    >>> from omnigraph_spark.schema.model import PropertyType
    >>> spark_type_name(Column("tags", PropertyType(Scalar.U64, list=True)))
    'array<decimal(20,0)>'
    """
    name = _SPARK_NAMES[column.type.scalar]
    return f"array<{name}>" if column.type.list else name


def _constraints(state: SnapshotState) -> Iterator[Row]:
    for key, entry in state.entries.items():
        declared = state.schema.get(entry.type_key)
        if declared is not None:
            for row in _constraints_of(declared):
                yield (key, *row)


def _constraints_of(declared: EntityType) -> Iterator[Row]:
    """Yield kind, properties, min, max (as text: bounds are integers or decimals) and pattern."""
    for constraint in declared.constraints:
        match constraint:
            case KeyConstraint(columns):
                yield "key", list(columns), None, None, None
            case UniqueConstraint(columns):
                yield "unique", list(columns), None, None, None
            case IndexConstraint(columns):
                yield "index", list(columns), None, None, None
            case RangeConstraint(name, low, high):
                yield "range", [name], _bound(low), _bound(high), None
            case CheckConstraint(name, pattern):
                yield "check", [name], None, None, pattern
    if isinstance(declared, EdgeType) and declared.cardinality != Cardinality():
        low, high = declared.cardinality.min, declared.cardinality.max
        yield "card", ["src"], _bound(low), _bound(high), None


def _bound(value: int | float | None) -> str | None:
    return None if value is None else str(value)


def _fragments(state: SnapshotState) -> Iterator[Row]:
    for key in state.entries:
        for f in ScanSource.of(state, key).open().fragments():
            yield key, f.id, f.rows, f.deleted_rows, f.size_bytes, f.files


def _indexes(state: SnapshotState) -> Iterator[Row]:
    for key in state.entries:
        dataset = ScanSource.of(state, key).open()
        rows = {fragment.id: fragment.rows for fragment in dataset.fragments()}
        by_name: dict[str, list[Index]] = {}
        for index in dataset.indexes():
            by_name.setdefault(index.name, []).append(index)
        for name, segments in sorted(by_name.items()):
            covered = frozenset().union(*(segment.fragment_ids for segment in segments)) & set(rows)
            yield (
                key,
                name,
                list(segments[0].columns),
                segments[0].kind,
                len(covered),
                len(rows),
                sum(count for id_, count in rows.items() if id_ not in covered),
            )


METADATA_TABLES: dict[str, MetadataTable] = {
    table.name: table
    for table in (
        declare_table(
            "commits",
            "graph commit visible on the branch, newest first",
            _commits,
            {
                "id": TEXT,
                "branch": TEXT,
                "manifest_version": LONG,
                "parent_id": TEXT,
                "merged_parent_id": TEXT,
                "actor": TEXT,
                "created_at": TIMESTAMP,
            },
        ),
        declare_table(
            "branches",
            "branch of the graph",
            _branches,
            {
                "name": TEXT,
                "head": TEXT,
                "manifest_version": LONG,
                "parent": TEXT,
                "forked_types": TEXTS,
                "created_at": TIMESTAMP,
            },
        ),
        declare_table(
            "entries",
            "type in the snapshot",
            _entries,
            {
                "type_key": TEXT,
                "path": TEXT,
                "dataset_branch": TEXT,
                "dataset_version": LONG,
                "rows": LONG,
                "bytes": LONG,
                "fragments": LONG,
            },
        ),
        declare_table(
            "types",
            "type in the snapshot, with what the schema says of it",
            _types,
            {
                "type_key": TEXT,
                "kind": TEXT,
                "name": TEXT,
                "from_type": TEXT,
                "to_type": TEXT,
                "key": TEXTS,
                "card_min": LONG,
                "card_max": LONG,
                "implements": TEXTS,
                "row_count": LONG,
                "description": TEXT,
            },
        ),
        declare_table(
            "properties",
            "column of a type",
            _properties,
            {
                "type_key": TEXT,
                "property": TEXT,
                "position": LONG,
                "declared_type": TEXT,
                "spark_type": TEXT,
                "nullable": FLAG,
                "key": FLAG,
                "enum_values": TEXTS,
                "vector_dimension": LONG,
                "embed_source": TEXT,
                "description": TEXT,
            },
        ),
        declare_table(
            "constraints",
            "constraint of a type",
            _constraints,
            {
                "type_key": TEXT,
                "kind": TEXT,
                "properties": TEXTS,
                "min": TEXT,
                "max": TEXT,
                "pattern": TEXT,
            },
        ),
        declare_table(
            "fragments",
            "Lance fragment of a type",
            _fragments,
            {
                "type_key": TEXT,
                "fragment_id": LONG,
                "rows": LONG,
                "deleted_rows": LONG,
                "size_bytes": LONG,
                "files": LONG,
            },
        ),
        declare_table(
            "indexes",
            "index of a type, with how much of it is covered",
            _indexes,
            {
                "type_key": TEXT,
                "name": TEXT,
                "columns": TEXTS,
                "kind": TEXT,
                "fragments_covered": LONG,
                "fragments_total": LONG,
                "rows_not_covered": LONG,
            },
        ),
        *UPKEEP_TABLES,
    )
}


def tables_table() -> str:
    """Print the README table of the tables about a graph."""
    lines = ["| table | one row per | columns |", "|---|---|---|"]
    for table in METADATA_TABLES.values():
        columns = ", ".join(f"`{name}`" for name in table.schema.names)
        lines.append(f"| `{table.name}` | {table.row} | {columns} |")
    return "\n".join(lines)
