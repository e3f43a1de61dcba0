"""Which indexes a type is to have: the engine's rule, from the schema alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph_spark.schema.model import (
    EdgeType,
    EntityType,
    IndexConstraint,
    KeyConstraint,
    PropertyType,
    Scalar,
)


class IndexKind(StrEnum):
    """The kinds of indexes a graph has, as Lance names them."""

    BTREE = "BTree"
    TEXT = "Inverted"
    VECTOR = "IVF_FLAT"


@dataclass(frozen=True)
class DeclaredIndex:
    """An index that a schema asks for on one column."""

    column: str
    kind: IndexKind


def declared_indexes(entity: EntityType) -> tuple[DeclaredIndex, ...]:
    """Return the indexes of a type that has rows, by column.

    Ends of edges have one, and every id. Of properties only those of nodes, named alone by a key or
    an index. Lists, blobs and groups of columns have none.

    >>> from omnigraph_spark.schema.parser import parse_schema
    >>> person = next(parse_schema("node Person { name: String @key age: I32? }").types())
    >>> [(index.column, str(index.kind)) for index in declared_indexes(person)]
    [('id', 'BTree'), ('name', 'Inverted')]
    """
    if isinstance(entity, EdgeType):
        return tuple(DeclaredIndex(name, IndexKind.BTREE) for name in ("dst", "id", "src"))
    alone = {
        constraint.columns[0]
        for constraint in entity.constraints
        if isinstance(constraint, KeyConstraint | IndexConstraint) and len(constraint.columns) == 1
    }
    found = [DeclaredIndex("id", IndexKind.BTREE)]
    for declared in entity.properties:
        kind = _kind(declared.type) if declared.name in alone else None
        if kind is not None:
            found.append(DeclaredIndex(declared.name, kind))
    return tuple(found)


def _kind(declared: PropertyType) -> IndexKind | None:
    if declared.list or declared.scalar is Scalar.BLOB:
        return None
    if declared.scalar is Scalar.VECTOR:
        return IndexKind.VECTOR
    free_text = declared.scalar is Scalar.STRING and declared.enum_values is None
    return IndexKind.TEXT if free_text else IndexKind.BTREE
