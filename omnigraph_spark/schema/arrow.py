"""The Arrow schema of a type's dataset, as the engine creates it: id, ends, properties by name."""

from __future__ import annotations

import pyarrow as pa

from omnigraph_spark.schema.columns import BLOB_EXTENSION
from omnigraph_spark.schema.model import EdgeType, EntityType, Property, PropertyType, Scalar

_SCALARS: dict[Scalar, pa.DataType] = {
    Scalar.STRING: pa.string(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    # Milliseconds since 1970 with the time of day: the engine's choice, not a whole number of days.
    Scalar.DATETIME: pa.date64(),
    # Two children, where Lance's own helper for blob fields makes four.
    Scalar.BLOB: pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())]),
}


def arrow_schema(entity: EntityType) -> pa.Schema:
    """Return the columns of a new dataset for a node or edge type.

    >>> from omnigraph_spark.schema.parser import parse_schema
    >>> arrow_schema(parse_schema("node A { n: I32? }").nodes[0])
    id: string not null
    n: int32
    """
    ends = ["src", "dst"] if isinstance(entity, EdgeType) else []
    identity = [pa.field(name, pa.string(), nullable=False) for name in ["id", *ends]]
    return pa.schema([*identity, *map(_field, entity.properties)])


def arrow_type(kind: PropertyType) -> pa.DataType:
    """Return the Arrow type that holds a property; an enum is stored as its text."""
    if kind.dimension is not None:
        return pa.list_(pa.field("item", pa.float32()), kind.dimension)
    scalar = _SCALARS[kind.scalar]
    return pa.list_(pa.field("item", scalar)) if kind.list else scalar


def _field(prop: Property) -> pa.Field[pa.DataType]:
    blob = prop.type.scalar is Scalar.BLOB
    metadata = {"ARROW:extension:name": BLOB_EXTENSION} if blob else None
    return pa.field(
        prop.name, arrow_type(prop.type), nullable=prop.type.nullable, metadata=metadata
    )
