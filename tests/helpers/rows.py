"""Rows of tests as Arrow tables of format 4: column order, types, blobs, ids."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraph_spark.schema.model import EdgeType, EntityType, NodeType, PropertyType, Scalar

#: Rows as objects, or as a table that already has every column (`id` too).
Rows = Sequence[Mapping[str, Any]] | pa.Table

_ARROW: dict[Scalar, pa.DataType] = {
    Scalar.STRING: pa.utf8(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.date64(),
    # Two children, by hand: pylance's own blob field has four.
    Scalar.BLOB: pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.utf8())]),
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def table_schema(entity: EntityType) -> pa.Schema:
    """The Arrow schema of a type's dataset."""
    fixed = ["id", "src", "dst"] if isinstance(entity, EdgeType) else ["id"]
    fields: list[pa.Field[Any]] = [pa.field(name, pa.utf8(), nullable=False) for name in fixed]
    for prop in sorted(entity.properties, key=lambda prop: prop.name.encode()):
        blob = {"ARROW:extension:name": "lance.blob.v2"} if _is_blob(prop.type) else None
        fields.append(pa.field(prop.name, _arrow_type(prop.type), prop.type.nullable, blob))
    return pa.schema(fields)


def table_of(entity: EntityType, rows: Rows) -> pa.Table:
    """Rows as a table of a type's dataset; an absent id is the key's value, or new."""
    schema = table_schema(entity)
    if isinstance(rows, pa.Table):
        return rows.select(schema.names).cast(schema)
    types = {prop.name: prop.type for prop in entity.properties}
    columns = []
    for column in schema:
        values: list[Any] = [row.get(column.name) for row in rows]
        if column.name == "id":
            values = [_id_of(entity, row) for row in rows]
        columns.append(_array(values, column.type, types.get(column.name)))
    return pa.Table.from_arrays(columns, schema=schema)


def new_ulid() -> str:
    """A new ULID: 48 bits of time in ms, 80 random bits, in Crockford's base 32."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    return "".join(digits[value >> shift & 31] for shift in range(125, -1, -5))


def _id_of(entity: EntityType, row: Mapping[str, Any]) -> str:
    if "id" in row:
        return str(row["id"])
    if isinstance(entity, NodeType) and entity.key:
        return str(row[entity.key[0]])
    return new_ulid()


def _arrow_type(type_: PropertyType) -> pa.DataType:
    if type_.scalar is Scalar.VECTOR:
        return pa.list_(pa.field("item", pa.float32()), type_.dimension or 0)
    scalar = _ARROW[type_.scalar]
    return pa.list_(pa.field("item", scalar)) if type_.list else scalar


def _array(values: list[Any], arrow: pa.DataType, type_: PropertyType | None) -> pa.Array[Any]:
    if type_ is not None and _is_blob(type_):
        values = [None if value is None else {"data": value, "uri": None} for value in values]
    if type_ is not None and type_.scalar is Scalar.DATETIME:
        # Arrow cuts a datetime to its day on the way to date64; from milliseconds it does not.
        whole = pa.list_(pa.int64()) if type_.list else pa.int64()
        return pa.array([_milliseconds(value) for value in values], whole).cast(arrow)
    return pa.array(values, arrow)


def _milliseconds(value: Any) -> Any:
    if isinstance(value, list):
        return [_milliseconds(item) for item in value]
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // dt.timedelta(milliseconds=1)
    return value


def _is_blob(type_: PropertyType) -> bool:
    return type_.scalar is Scalar.BLOB
