"""Declarations to `GraphSchema`: every rule checked, then everything in the canonical order.

The order decides the hash of the schema, so it is the engine's, by bytes. Code points sort like
their UTF-8 bytes, so plain `sorted` does. What compares equal keeps the order of the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from omnigraph_spark.schema.annotation_rules import check_annotations
from omnigraph_spark.schema.constraint_rules import check_constraints
from omnigraph_spark.schema.declarations import (
    Declarations,
    DeclaredAnnotation,
    DeclaredConstraint,
    DeclaredEdge,
    DeclaredNode,
    DeclaredProperty,
)
from omnigraph_spark.schema.inheritance import apply_interfaces
from omnigraph_spark.schema.model import (
    Annotation,
    CheckConstraint,
    Constraint,
    EdgeType,
    GraphSchema,
    IndexConstraint,
    Interface,
    KeyConstraint,
    NodeType,
    Property,
    RangeConstraint,
    UniqueConstraint,
)
from omnigraph_spark.schema.name_rules import check_names
from omnigraph_spark.schema.rust_text import debug_float

_Named = TypeVar("_Named", Interface, NodeType, EdgeType, Property)


def compile_schema(declared: Declarations) -> GraphSchema:
    """Check every rule of the language and return the schema."""
    check_names(declared)
    complete = apply_interfaces(declared)
    # Again, because inherited properties can collide with declared ones.
    check_names(complete)
    check_annotations(complete)
    check_constraints(complete)
    return GraphSchema(
        _by_name(
            Interface(interface.name, _properties(interface.properties))
            for interface in complete.interfaces
        ),
        _by_name(map(_node, complete.nodes)),
        _by_name(map(_edge, complete.edges)),
    )


def _node(node: DeclaredNode) -> NodeType:
    return NodeType(
        node.name,
        _annotations(node.annotations),
        _properties(node.properties),
        _constraints(node.constraints),
        implements=tuple(sorted({reference.name for reference in node.implements})),
    )


def _edge(edge: DeclaredEdge) -> EdgeType:
    return EdgeType(
        edge.name,
        _annotations(edge.annotations),
        _properties(edge.properties),
        _constraints(edge.constraints),
        from_type=edge.source.name,
        to_type=edge.target.name,
        cardinality=edge.cardinality,
    )


def _properties(declared: Iterable[DeclaredProperty]) -> tuple[Property, ...]:
    return _by_name(Property(p.name, p.type, _annotations(p.annotations)) for p in declared)


def _by_name(items: Iterable[_Named]) -> tuple[_Named, ...]:
    return tuple(sorted(items, key=lambda item: item.name))


def _annotations(declared: Iterable[DeclaredAnnotation]) -> tuple[Annotation, ...]:
    # Keyword arguments take no part in the order; a missing value comes first.
    return tuple(
        sorted(
            (given.annotation for given in declared),
            key=lambda a: (a.name, a.value is not None, a.value or ""),
        )
    )


def _constraints(declared: Iterable[DeclaredConstraint]) -> tuple[Constraint, ...]:
    return tuple(sorted((_sorted_columns(given.constraint) for given in declared), key=_sort_text))


def _sorted_columns(constraint: Constraint) -> Constraint:
    if isinstance(constraint, KeyConstraint | UniqueConstraint | IndexConstraint):
        return type(constraint)(tuple(sorted(constraint.columns)))
    return constraint


def _sort_text(constraint: Constraint) -> str:
    match constraint:
        case CheckConstraint(column, pattern):
            return f"check:{column}:{pattern}"
        case IndexConstraint(columns):
            return f"index:{','.join(columns)}"
        case KeyConstraint(columns):
            return f"key:{','.join(columns)}"
        case RangeConstraint(column, low, high):
            return f"range:{column}:{_debug(low)}:{_debug(high)}"
        case UniqueConstraint(columns):
            return f"unique:{','.join(columns)}"


def _debug(bound: int | float | None) -> str:
    if bound is None:
        return "None"
    return (
        f"Some(Float({debug_float(bound)}))"
        if isinstance(bound, float)
        else f"Some(Integer({bound}))"
    )
