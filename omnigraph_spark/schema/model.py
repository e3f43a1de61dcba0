"""What a schema says, as values: types, properties, constraints. No text, no storage.

A `GraphSchema` is always *compiled*: interfaces are applied, everything has the canonical order of
the format (names, columns and enum values sorted by bytes). Two texts that mean the same are equal
models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from omnigraph_spark.names import TypeKey, TypeKind


class Scalar(StrEnum):
    """The scalar types of the language; an enum is a `STRING` with `enum_values`."""

    STRING = "String"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    VECTOR = "Vector"
    BLOB = "Blob"


@dataclass(frozen=True)
class PropertyType:
    """The type of a property: scalar, list of scalars, enum or vector, nullable or not."""

    scalar: Scalar
    nullable: bool = False
    list: bool = False
    enum_values: tuple[str, ...] | None = None
    dimension: int | None = None

    def __str__(self) -> str:
        text: str
        if self.enum_values is not None:
            text = f"enum({', '.join(self.enum_values)})"
        elif self.scalar is Scalar.VECTOR:
            text = f"Vector({self.dimension})"
        else:
            text = str(self.scalar)
        return (f"[{text}]" if self.list else text) + ("?" if self.nullable else "")


@dataclass(frozen=True)
class Annotation:
    """``@name``, ``@name(value)`` or ``@name(value, key="text")``; values are kept as text."""

    name: str
    value: str | None = None
    kwargs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Property:
    """One property of a type or interface."""

    name: str
    type: PropertyType
    annotations: tuple[Annotation, ...] = ()

    @property
    def description(self) -> str | None:
        """The text of ``@description``, if any."""
        return _value_of(self.annotations, "description")

    @property
    def embed_source(self) -> str | None:
        """The property a vector is computed from (``@embed``), if any."""
        return _value_of(self.annotations, "embed")


@dataclass(frozen=True)
class KeyConstraint:
    """The key of a node type; its first column forms the id."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class UniqueConstraint:
    """No two rows share these values; rows with a null among them are exempt."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class IndexConstraint:
    """An index is wanted on these columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RangeConstraint:
    """A numeric property lies between two bounds, both included; None is open.

    Bounds `1` and `1.0` are different schemas to the engine, so they are not equal here either.
    """

    property: str
    min: int | float | None
    max: int | float | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeConstraint) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, str, str]:
        return self.property, repr(self.min), repr(self.max)


@dataclass(frozen=True)
class CheckConstraint:
    """A text property matches a regular expression somewhere (the match is not anchored)."""

    property: str
    pattern: str


ColumnsConstraint = KeyConstraint | UniqueConstraint | IndexConstraint
Constraint = ColumnsConstraint | RangeConstraint | CheckConstraint

#: The constraints that name columns and nothing else, by the word that declares them.
COLUMNS_CONSTRAINTS: Mapping[str, type[ColumnsConstraint]] = {
    "key": KeyConstraint,
    "unique": UniqueConstraint,
    "index": IndexConstraint,
}
#: Words that are constraints where a parenthesis follows, and annotations where none does.
CONSTRAINT_WORDS = frozenset({*COLUMNS_CONSTRAINTS, "range", "check"})


@dataclass(frozen=True)
class Interface:
    """Properties that several node types share."""

    name: str
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True)
class _EntityType:
    """What node and edge types have in common."""

    name: str
    annotations: tuple[Annotation, ...] = ()
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    @property
    def description(self) -> str | None:
        """The text of ``@description``, if any."""
        return _value_of(self.annotations, "description")

    def property(self, name: str) -> Property | None:
        """Return the property of that exact name, if the type has one."""
        return next((p for p in self.properties if p.name == name), None)


@dataclass(frozen=True)
class NodeType(_EntityType):
    """A node type."""

    implements: tuple[str, ...] = ()

    @property
    def type_key(self) -> TypeKey:
        """``node:Name``."""
        return TypeKey(TypeKind.NODE, self.name)

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns; empty when ids are given or generated."""
        return next((c.columns for c in self.constraints if isinstance(c, KeyConstraint)), ())


@dataclass(frozen=True)
class Cardinality:
    """How many edges one source node may have; ``max=None`` is unbounded."""

    min: int = 0
    max: int | None = None


@dataclass(frozen=True)
class EdgeType(_EntityType):
    """An edge type between two node types."""

    from_type: str = ""
    to_type: str = ""
    cardinality: Cardinality = Cardinality()

    @property
    def type_key(self) -> TypeKey:
        """``edge:Name``."""
        return TypeKey(TypeKind.EDGE, self.name)


EntityType = NodeType | EdgeType


@dataclass(frozen=True, repr=False)
class GraphSchema:
    """A whole compiled schema.

    >>> from omnigraph_spark.schema.parser import parse_schema
    >>> schema = parse_schema("node Person { name: String @key }")
    >>> schema.node_types["Person"].key
    ('name',)
    """

    interfaces: tuple[Interface, ...] = ()
    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()

    @cached_property
    def node_types(self) -> Mapping[str, NodeType]:
        """Node types by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def edge_types(self) -> Mapping[str, EdgeType]:
        """Edge types by name."""
        return {edge.name: edge for edge in self.edges}

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """Key columns of the node types that have a key."""
        return {node.name: node.key for node in self.nodes if node.key}

    def types(self) -> Iterator[EntityType]:
        """Yield node types, then edge types, each by name."""
        yield from self.nodes
        yield from self.edges

    def get(self, key: TypeKey) -> EntityType | None:
        """Return the declared type, or None when the schema does not have it (any more)."""
        types: Mapping[str, EntityType] = (
            self.node_types if key.kind is TypeKind.NODE else self.edge_types
        )
        return types.get(key.name)

    def to_pg(self) -> str:
        """Write the schema in its own language, in canonical order."""
        from omnigraph_spark.schema.printer import print_schema

        return print_schema(self)

    def __repr__(self) -> str:
        from omnigraph_spark.schema.display import schema_text

        return schema_text(self)

    def _repr_html_(self) -> str:
        from omnigraph_spark.schema.display import schema_html

        return schema_html(self)


def _value_of(annotations: tuple[Annotation, ...], name: str) -> str | None:
    return next((a.value for a in annotations if a.name == name), None)
