"""A schema for rows that have none yet: types of the language from Arrow types, column by column.

The reverse of what reading does. Columns that came out of a graph say which type they had there
(`omnigraph.type` among their metadata), so enums, unsigned integers and vectors survive a round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraph_spark.errors import SchemaMismatchError, SchemaRuleError
from omnigraph_spark.schema.model import Scalar

#: What a column of Spark or Arrow carries when it was read from a graph.
DECLARED = b"omnigraph.type"
_PROPERTY_NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")
_NODE_COLUMNS = frozenset({"id"})
_EDGE_COLUMNS = frozenset({"id", "src", "dst", "from", "to"})
_TAKES = (
    "text, booleans, integers, floats, dates, timestamps, bytes, decimals of 20 digits without "
    "a fraction, lists of these, or fixed-size lists of floats: cast the column or leave it out"
)
Key = str | Sequence[str]


def infer_schema(
    nodes: Mapping[str, pa.Schema],
    edges: Mapping[str, tuple[pa.Schema, str, str]],
    keys: Mapping[str, Key],
) -> str:
    """Write the schema of node types, and of edge types with their ends.

    >>> person = pa.schema([("name", pa.string()), ("age", pa.int32())])
    >>> print(infer_schema({"Person": person}, {}, {"Person": "name"}))
    node Person {
        name: String @key
        age: I32?
    }
    """
    for name in keys:
        if name not in nodes:
            raise SchemaRuleError(f"key of {name}", "only node types have keys, and it is none")
    parts = [_type(f"node {name}", name, nodes[name], keys.get(name, ())) for name in nodes]
    for name, (schema, source, target) in edges.items():
        parts.append(_type(f"edge {name}: {source} -> {target}", name, schema, (), _EDGE_COLUMNS))
    return "\n".join(parts)


def _type(
    head: str,
    name: str,
    schema: pa.Schema,
    key: Key,
    own: frozenset[str] = _NODE_COLUMNS,
) -> str:
    columns = (key,) if isinstance(key, str) else tuple(key)
    for column in columns:
        if column not in schema.names:
            raise SchemaRuleError(f"key of {name}", f"there is no column {column!r}")
    lines = [
        _property(name, field, field.name in columns, columns == (field.name,))
        for field in schema
        if field.name not in own
    ]
    if len(columns) > 1:
        lines.append(f"@key({', '.join(columns)})")
    return "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}"])


def _property(owner: str, field: pa.Field[Any], required: bool, is_key: bool) -> str:
    if not _PROPERTY_NAME.fullmatch(field.name):
        rule = "a name begins with a small letter or _ and has letters, digits and _: rename it"
        raise SchemaRuleError(f"column {field.name!r} of {owner}", rule)
    declared = (field.metadata or {}).get(DECLARED)
    text = None if declared is None else declared.decode().removesuffix("?")
    text = text or _text(field.type)
    if text is None:
        raise SchemaMismatchError(owner, field.name, str(field.type), f"none of {_TAKES}")
    nullable = field.nullable and not required
    return f"{field.name}: {text}{'?' if nullable else ''}{' @key' if is_key else ''}"


def _text(kind: pa.DataType) -> str | None:
    if pa.types.is_dictionary(kind):
        return _text(kind.value_type)
    if pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type):
        return f"{Scalar.VECTOR}({kind.list_size})"
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = _scalar(kind.value_type)
        return None if item is None or item is Scalar.BLOB else f"[{item}]"
    return _scalar(kind)


def _scalar(kind: pa.DataType) -> Scalar | None:
    for accepts, scalar in _SCALARS:
        if accepts(kind):
            return scalar
    return None


_SCALARS = (
    (pa.types.is_string, Scalar.STRING),
    (pa.types.is_large_string, Scalar.STRING),
    (pa.types.is_string_view, Scalar.STRING),
    (pa.types.is_boolean, Scalar.BOOL),
    (pa.types.is_int64, Scalar.I64),
    (pa.types.is_signed_integer, Scalar.I32),
    (pa.types.is_uint64, Scalar.U64),
    (pa.types.is_unsigned_integer, Scalar.U32),
    # Spark has no unsigned integers: this is what holds a U64 there.
    (pa.decimal128(20, 0).equals, Scalar.U64),
    (pa.types.is_float64, Scalar.F64),
    (pa.types.is_floating, Scalar.F32),
    (pa.types.is_date32, Scalar.DATE),
    (pa.types.is_date64, Scalar.DATETIME),
    (pa.types.is_timestamp, Scalar.DATETIME),
    (pa.types.is_binary, Scalar.BLOB),
    (pa.types.is_large_binary, Scalar.BLOB),
)
