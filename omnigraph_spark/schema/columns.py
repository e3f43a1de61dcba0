"""What a reader knows about the columns of one type: name, type, role, and what the schema adds.

The truth is the Arrow schema of the dataset at its pinned version. Old commits of an evolved graph
have other columns than today's schema, so the declaration only adds what storage cannot say (enum
values, key, description, embedding) and only where name and storage type still agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.names import TypeKind
from omnigraph_spark.schema.model import EntityType, NodeType, PropertyType, Scalar

#: Name of Lance's blob type, as Arrow extension type or as metadata of a plain struct field.
BLOB_EXTENSION = "lance.blob.v2"
_EXTENSION_KEY = b"ARROW:extension:name"

_SCALARS: dict[pa.DataType, Scalar] = {
    pa.string(): Scalar.STRING,
    pa.bool_(): Scalar.BOOL,
    pa.int32(): Scalar.I32,
    pa.int64(): Scalar.I64,
    pa.uint32(): Scalar.U32,
    pa.uint64(): Scalar.U64,
    pa.float32(): Scalar.F32,
    pa.float64(): Scalar.F64,
    pa.date32(): Scalar.DATE,
    pa.date64(): Scalar.DATETIME,
}


class Role(StrEnum):
    """What a column is for: the entity's id, an edge's end, or a property."""

    ID = "id"
    SRC = "src"
    DST = "dst"
    PROPERTY = "property"


_ENDS = {"src": Role.SRC, "dst": Role.DST}


@dataclass(frozen=True)
class Column:
    """One column of a type as it is stored at one version."""

    name: str
    type: PropertyType
    role: Role = Role.PROPERTY
    key: bool = False
    description: str | None = None
    embed_source: str | None = None


def columns_of(
    stored: pa.Schema, declared: EntityType | None, kind: TypeKind | None = None
) -> tuple[Column, ...]:
    """Describe the columns of a dataset, in stored order.

    `stored` is what the dataset says at its pinned version, `declared` the type in the current
    schema (None when it was renamed or dropped since). `kind` tells nodes from edges when there is
    no declaration; without it the first columns do.
    """
    if kind is None:
        kind = declared.type_key.kind if declared is not None else _kind_of(stored)
    return tuple(_with_declaration(_column(field, kind), declared) for field in stored)


def _kind_of(stored: pa.Schema) -> TypeKind:
    # Properties are stored sorted by name, `dst` before `src`: only an edge starts like this.
    return TypeKind.EDGE if stored.names[:3] == ["id", "src", "dst"] else TypeKind.NODE


def _column(field: pa.Field[pa.DataType], kind: TypeKind) -> Column:
    role = Role.ID if field.name == "id" else Role.PROPERTY
    if kind is TypeKind.EDGE:
        role = _ENDS.get(field.name, role)
    return Column(field.name, _property_type(field), role)


def _property_type(field: pa.Field[pa.DataType]) -> PropertyType:
    arrow = field.type
    if _is_blob(field):
        return PropertyType(Scalar.BLOB, nullable=field.nullable)
    if isinstance(arrow, pa.FixedSizeListType) and arrow.value_type == pa.float32():
        return PropertyType(Scalar.VECTOR, nullable=field.nullable, dimension=arrow.list_size)
    of_list = isinstance(arrow, pa.ListType)
    scalar = _SCALARS.get(arrow.value_type if isinstance(arrow, pa.ListType) else arrow)
    if scalar is None:
        raise UnsupportedError(
            f"column {field.name!r} of stored type {arrow}",
            "the schema language has no such type; read the other columns by name",
        )
    return PropertyType(scalar, nullable=field.nullable, list=of_list)


def _is_blob(field: pa.Field[pa.DataType]) -> bool:
    # Where Lance is loaded its extension type is registered; elsewhere the name is only metadata.
    if isinstance(field.type, pa.BaseExtensionType):
        return field.type.extension_name == BLOB_EXTENSION
    return (field.metadata or {}).get(_EXTENSION_KEY) == BLOB_EXTENSION.encode()


def _with_declaration(column: Column, declared: EntityType | None) -> Column:
    if declared is None or column.role is not Role.PROPERTY:
        return column
    prop = declared.property(column.name)
    if prop is None or not _same_storage(prop.type, column.type):
        return column
    return replace(
        column,
        type=replace(column.type, enum_values=prop.type.enum_values),
        key=isinstance(declared, NodeType) and column.name in declared.key,
        description=prop.description,
        embed_source=prop.embed_source,
    )


def _same_storage(declared: PropertyType, stored: PropertyType) -> bool:
    """Compare all but nullability, which is storage's own, and enum values, stored as text."""
    return (declared.scalar, declared.list, declared.dimension) == (
        stored.scalar,
        stored.list,
        stored.dimension,
    )
