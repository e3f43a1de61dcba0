"""A schema at a glance, in a prompt and in a notebook; and the examples in the documentation."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from omnigraph_spark import schema as package
from omnigraph_spark.schema.model import GraphSchema, NodeType, Property, PropertyType, Scalar
from omnigraph_spark.schema.parser import parse_schema

_MODULES = [module.name for module in pkgutil.iter_modules(package.__path__)]


def test_a_schema_shows_types_keys_and_properties() -> None:
    schema = parse_schema(
        """
        interface Named { name: String @key }
        node Person implements Named { age: I32? }
        node Place { b: String a: String @key(b, a) }
        edge LivesIn: Person -> Place { since: Date? }
        """
    )
    assert repr(schema) == str(schema)
    assert str(schema).splitlines() == [
        "GraphSchema: 2 node types, 1 edge type",
        "  node Person (Named)            key name  age: I32?, name: String",
        "  node Place                     key a, b  a: String, b: String",
        "  edge LivesIn: Person -> Place            since: Date?",
    ]


def test_a_wide_type_is_cut() -> None:
    properties = " ".join(f"property_{number:02}: String" for number in range(20))
    last = str(parse_schema(f"node A {{ {properties} }}")).splitlines()[-1]
    assert last.endswith("and 18 more")
    assert len(last) < 100


def test_an_empty_schema_says_so() -> None:
    assert str(GraphSchema()) == "GraphSchema: 0 node types, 0 edge types"


def test_html_is_escaped() -> None:
    odd = NodeType("<b>", properties=(Property("a&b", PropertyType(Scalar.I32)),))
    html = GraphSchema(nodes=(odd,))._repr_html_()
    assert "<b>" not in html
    assert "node &lt;b&gt;" in html
    assert "a&amp;b: I32" in html


@pytest.mark.parametrize("name", _MODULES)
def test_the_examples_in_the_documentation_are_true(name: str) -> None:
    module = importlib.import_module(f"{package.__name__}.{name}")
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0
