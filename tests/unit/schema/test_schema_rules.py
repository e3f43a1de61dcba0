"""The rules between declarations: every one is enforced, with subject and place."""

from __future__ import annotations

import pytest

from omnigraph_spark.errors import SchemaRuleError
from omnigraph_spark.schema.model import KeyConstraint, UniqueConstraint
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.schema.storable import check_storable
from tests.helpers.schema_cases import BAD_RULES, GOOD, NOT_STORABLE, UNUSABLE


@pytest.mark.parametrize("name", BAD_RULES)
def test_a_broken_rule_names_its_subject_and_place(name: str) -> None:
    text, subject, rule, line, column = BAD_RULES[name]
    with pytest.raises(SchemaRuleError) as caught:
        parse_schema(text)
    assert caught.value.subject == subject
    assert rule in caught.value.rule
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_node_gets_the_properties_it_does_not_declare() -> None:
    schema = parse_schema(
        """
        interface Named { name: String @key }
        interface Noted { note: String? @unique name: String }
        node Person implements Named, Noted { note: String? }
        """
    )
    person = schema.node_types["Person"]
    assert [prop.name for prop in person.properties] == ["name", "note"]
    assert person.implements == ("Named", "Noted")
    # `note` is declared by the node itself, without @unique.
    assert person.constraints == (KeyConstraint(("name",)),)


def test_the_first_interface_that_declares_a_property_wins() -> None:
    text = (
        "interface I {{ a: I32 @key }} interface J {{ a: I32 @unique }} node A implements {} {{}}"
    )
    (first,) = parse_schema(text.format("I, J")).nodes
    (second,) = parse_schema(text.format("J, I")).nodes
    assert first.constraints == (KeyConstraint(("a",)),)
    assert second.constraints == (UniqueConstraint(("a",)),)


@pytest.mark.parametrize("name", [*NOT_STORABLE, *UNUSABLE])
def test_what_storage_cannot_hold_is_refused_before_a_graph_is_made(name: str) -> None:
    text, subject = (NOT_STORABLE | UNUSABLE)[name]
    with pytest.raises(SchemaRuleError) as caught:
        check_storable(parse_schema(text))
    assert caught.value.subject == subject
    assert caught.value.line is None


@pytest.mark.parametrize("name", GOOD)
def test_what_the_engine_stores_is_storable(name: str) -> None:
    check_storable(parse_schema(GOOD[name]))


def test_an_interface_may_say_what_no_dataset_could_hold() -> None:
    check_storable(parse_schema("interface I { id: String _rowid: U64 }"))
