"""The printer: a schema in its own language, and nothing lost."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from omnigraph_spark.errors import SchemaRuleError
from omnigraph_spark.schema.ir import ir_compact
from omnigraph_spark.schema.model import (
    Annotation,
    GraphSchema,
    NodeType,
    Property,
    PropertyType,
    RangeConstraint,
    Scalar,
)
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.schema.printer import print_schema
from tests.helpers.schema_cases import GOOD, NOT_STORABLE, UNUSABLE

TEXT = """\
interface Named {
    name: String @key
}

node Company implements Named {
    name: String @key
}

node Person @description("A \\"human\\"\\n") @x("y", a="1", b="2") implements Named {
    age: I32? @index
    kind: enum(a, b)?
    name: String @key
    tags: [String]
    @check(name, "^\\\\w+$")
    @index(age)
    @range(age, -1..150)
    @unique(kind, tags)
}

node Point {}

edge Knows: Person -> Person @card(1..3) @x {
    since: Date?
    @unique(dst, src)
}

edge Near: Point -> Point
"""


def test_a_printed_schema_is_what_a_person_would_write() -> None:
    assert print_schema(parse_schema(TEXT)) == TEXT
    assert parse_schema(TEXT).to_pg() == TEXT


@pytest.mark.parametrize(
    "text",
    [
        *(pytest.param(text, id=name) for name, text in GOOD.items()),
        *(pytest.param(text, id=name) for name, (text, _) in NOT_STORABLE.items()),
        *(pytest.param(text, id=name) for name, (text, _) in UNUSABLE.items()),
    ],
)
def test_printing_and_reading_again_changes_nothing(text: str) -> None:
    schema = parse_schema(text)
    printed = print_schema(schema)
    again = parse_schema(printed)
    assert again == schema
    assert ir_compact(again) == ir_compact(schema)
    assert print_schema(again) == printed


def test_an_empty_schema_is_an_empty_text() -> None:
    assert print_schema(GraphSchema()) == ""


def test_bounds_are_written_without_exponents() -> None:
    node = NodeType("A", properties=(Property("a", PropertyType(Scalar.F64)),))
    bounds = [(-1e-7, 1e22), (0.1, 5e-324), (-math.inf, math.inf), (-0.0, 1.7976931348623157e308)]
    for low, high in bounds:
        schema = GraphSchema(nodes=(replace(node, constraints=(RangeConstraint("a", low, high),)),))
        assert parse_schema(print_schema(schema)) == schema


@pytest.mark.parametrize(
    "node",
    [
        NodeType("A", annotations=(Annotation("key", "x"),)),
        NodeType("A", annotations=(Annotation("x", None, (("k", "v"),)),)),
        NodeType("A", constraints=(RangeConstraint("a", None, 3),)),
    ],
)
def test_what_the_language_cannot_say_is_refused_rather_than_changed(node: NodeType) -> None:
    with pytest.raises(SchemaRuleError):
        print_schema(GraphSchema(nodes=(node,)))
