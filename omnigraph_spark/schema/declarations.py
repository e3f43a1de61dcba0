"""What a schema text declares, and where, before any rule is checked.

Values inside are the model's own; a declaration adds where they stand, so that a broken rule can
point there. Interfaces are not applied yet and everything is in the order of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from omnigraph_spark.errors import SchemaRuleError
from omnigraph_spark.schema.model import Annotation, Cardinality, Constraint, PropertyType


@dataclass(frozen=True)
class Place:
    """Where something stands in the text; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class DeclaredAnnotation:
    """An annotation of a type or property."""

    annotation: Annotation
    place: Place


@dataclass(frozen=True)
class DeclaredProperty:
    """A property of an interface, node or edge."""

    name: str
    type: PropertyType
    annotations: tuple[DeclaredAnnotation, ...]
    place: Place


@dataclass(frozen=True)
class DeclaredConstraint:
    """A constraint, written in the body or through a property's annotation."""

    constraint: Constraint
    place: Place


@dataclass(frozen=True)
class DeclaredInterface:
    """An interface."""

    name: str
    properties: tuple[DeclaredProperty, ...]
    place: Place

    def __str__(self) -> str:
        return f"interface {self.name}"


@dataclass(frozen=True)
class Reference:
    """The name of another type, as one declaration mentions it."""

    name: str
    place: Place


@dataclass(frozen=True)
class DeclaredNode:
    """A node type."""

    name: str
    annotations: tuple[DeclaredAnnotation, ...]
    implements: tuple[Reference, ...]
    properties: tuple[DeclaredProperty, ...]
    constraints: tuple[DeclaredConstraint, ...]
    place: Place

    def __str__(self) -> str:
        return f"node {self.name}"


@dataclass(frozen=True)
class DeclaredEdge:
    """An edge type."""

    name: str
    source: Reference
    target: Reference
    cardinality: Cardinality
    annotations: tuple[DeclaredAnnotation, ...]
    properties: tuple[DeclaredProperty, ...]
    constraints: tuple[DeclaredConstraint, ...]
    place: Place

    def __str__(self) -> str:
        return f"edge {self.name}"


DeclaredEntity = DeclaredNode | DeclaredEdge


@dataclass(frozen=True)
class Declarations:
    """A whole text."""

    interfaces: tuple[DeclaredInterface, ...] = ()
    nodes: tuple[DeclaredNode, ...] = ()
    edges: tuple[DeclaredEdge, ...] = ()

    def entities(self) -> Iterator[DeclaredEntity]:
        """Yield what gets a dataset: nodes, then edges."""
        yield from self.nodes
        yield from self.edges


def refuse(subject: object, rule: str, place: Place) -> NoReturn:
    """Say which rule a declaration breaks, and where."""
    raise SchemaRuleError(str(subject), rule, place.line, place.column)
