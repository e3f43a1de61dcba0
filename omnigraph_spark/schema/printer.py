"""`GraphSchema` to `.pg` text, in canonical order; the text compiles to the same schema again.

Inherited properties are written out with their annotations: a node that repeats what its interface
says compiles to the same thing. Every value is quoted, because values are text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from omnigraph_spark.errors import SchemaRuleError
from omnigraph_spark.schema.inheritance import constraint_of
from omnigraph_spark.schema.model import (
    CONSTRAINT_WORDS,
    Annotation,
    Cardinality,
    CheckConstraint,
    Constraint,
    EdgeType,
    EntityType,
    GraphSchema,
    IndexConstraint,
    KeyConstraint,
    NodeType,
    Property,
    RangeConstraint,
    UniqueConstraint,
)
from omnigraph_spark.schema.rust_text import plain_float

_INDENT = "    "
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def print_schema(schema: GraphSchema) -> str:
    """Write a schema in its own language.

    >>> from omnigraph_spark.schema.parser import parse_schema
    >>> print(
    ...     print_schema(parse_schema("node A { b: I32? a: String @key } edge E: A -> A")), end=""
    ... )
    node A {
        a: String @key
        b: I32?
    }
    <BLANKLINE>
    edge E: A -> A
    """
    blocks = [
        *(
            _block(f"interface {interface.name}", map(_property, interface.properties))
            for interface in schema.interfaces
        ),
        *(_block(_node_head(node), _body(node)) for node in schema.nodes),
        *(_edge(edge) for edge in schema.edges),
    ]
    return "\n\n".join(blocks) + "\n" if blocks else ""


def _node_head(node: NodeType) -> str:
    implements = [f"implements {', '.join(node.implements)}"] if node.implements else []
    return " ".join([f"node {node.name}", *map(_annotation, node.annotations), *implements])


def _edge(edge: EdgeType) -> str:
    head = " ".join(
        [
            f"edge {edge.name}: {edge.from_type} -> {edge.to_type}",
            *_cardinality(edge.cardinality),
            *map(_annotation, edge.annotations),
        ]
    )
    body = list(_body(edge))
    return _block(head, body) if body else head


def _cardinality(cardinality: Cardinality) -> list[str]:
    if cardinality == Cardinality():
        return []
    return [f"@card({cardinality.min}..{'' if cardinality.max is None else cardinality.max})"]


def _block(head: str, lines: Iterable[str]) -> str:
    body = "".join(f"{_INDENT}{line}\n" for line in lines)
    return f"{head} {{\n{body}}}" if body else f"{head} {{}}"


def _body(entity: EntityType) -> Iterator[str]:
    yield from map(_property, entity.properties)
    # A constraint that a property's annotation stands for is written there; each annotation stands
    # for one, so of two equal constraints the second still needs its line.
    implied = Counter(
        constraint
        for prop in entity.properties
        for annotation in prop.annotations
        if (constraint := constraint_of(annotation, prop.name))
    )
    for constraint in entity.constraints:
        if implied[constraint]:
            implied[constraint] -= 1
        else:
            yield _constraint(constraint)


def _property(prop: Property) -> str:
    return " ".join([f"{prop.name}: {prop.type}", *map(_annotation, prop.annotations)])


def _annotation(annotation: Annotation) -> str:
    if annotation.value is None and not annotation.kwargs:
        return f"@{annotation.name}"
    if annotation.value is None or annotation.name in CONSTRAINT_WORDS:
        rule = "the schema language cannot write it: "
        rule += "keywords need a value first" if annotation.value is None else "it takes no value"
        raise SchemaRuleError(f"annotation @{annotation.name}", rule)
    keywords = [f"{key}={_quoted(value)}" for key, value in annotation.kwargs]
    return f"@{annotation.name}({', '.join([_quoted(annotation.value), *keywords])})"


def _constraint(constraint: Constraint) -> str:
    match constraint:
        case KeyConstraint(columns):
            return f"@key({', '.join(columns)})"
        case UniqueConstraint(columns):
            return f"@unique({', '.join(columns)})"
        case IndexConstraint(columns):
            return f"@index({', '.join(columns)})"
        case RangeConstraint(column, low, high):
            if low is None:
                rule = "the schema language has no range without a lower bound"
                raise SchemaRuleError(f"@range of {column!r}", rule)
            return f"@range({column}, {_bound(low)}..{'' if high is None else _bound(high)})"
        case CheckConstraint(column, pattern):
            return f"@check({column}, {_quoted(pattern)})"


def _bound(bound: int | float) -> str:
    if isinstance(bound, int):
        return str(bound)
    if math.isinf(bound):
        # No literal says infinity; one digit more than the largest float does.
        return f"{'-' if bound < 0 else ''}1{'0' * 309}.0"
    return plain_float(bound)


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
