"""The text of a schema: what is read, and how an error in it is told."""

from __future__ import annotations

import pickle

import pytest

from omnigraph_spark.errors import SchemaSyntaxError
from omnigraph_spark.schema import parser
from omnigraph_spark.schema.model import (
    Annotation,
    Cardinality,
    CheckConstraint,
    IndexConstraint,
    KeyConstraint,
    PropertyType,
    RangeConstraint,
    Scalar,
    UniqueConstraint,
)
from omnigraph_spark.schema.parser import parse_schema
from tests.helpers.schema_cases import BAD_SYNTAX, GOOD, NOT_STORABLE, UNUSABLE


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in GOOD.items()])
def test_everything_the_language_allows_is_read(text: str) -> None:
    parse_schema(text)


@pytest.mark.parametrize("name", [*NOT_STORABLE, *UNUSABLE])
def test_reading_does_not_ask_whether_storage_could_hold_it(name: str) -> None:
    text, _ = (NOT_STORABLE | UNUSABLE)[name]
    parse_schema(text)


@pytest.mark.parametrize("name", BAD_SYNTAX)
def test_a_syntax_error_names_the_place_and_what_was_expected(name: str) -> None:
    text, line, column, expected = BAD_SYNTAX[name]
    with pytest.raises(SchemaSyntaxError) as caught:
        parse_schema(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert expected in ", ".join(caught.value.expected)
    assert str(caught.value).startswith("[OMNIGRAPH_SCHEMA_SYNTAX] line ")


def test_no_name_of_the_grammar_reaches_an_error() -> None:
    grammar = parser._grammar()
    ignored = set(grammar.ignore_tokens)
    for terminal in grammar.terminals:
        if terminal.name not in ignored:
            assert terminal.name not in parser._words(terminal.name)


def test_a_syntax_error_survives_pickling() -> None:
    with pytest.raises(SchemaSyntaxError) as caught:
        parse_schema("node a {}")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("node A {", "end of the text"),
        ("node A {} /* x", "comment without a closing '*/'"),
        ('node A @x("y) {}', "text without a closing quote"),
        ("node A { a: strong }", "'strong'"),
        ("node A { a: I32 % }", "'%'"),
        ("interface I { @index(a) }", "'@index'"),
        (r'node A @x("\d") {}', r"escape \d"),
    ],
)
def test_a_syntax_error_shows_what_stands_there(text: str, found: str) -> None:
    with pytest.raises(SchemaSyntaxError) as caught:
        parse_schema(text)
    assert caught.value.found == found


def test_every_type_of_property_is_understood() -> None:
    (node,) = parse_schema(
        "node A { a: String b: I64? c: [Date] d: Vector(4)? e: enum(y, x)? f: [DateTime]? g: Blob }"
    ).nodes
    assert [prop.type for prop in node.properties] == [
        PropertyType(Scalar.STRING),
        PropertyType(Scalar.I64, nullable=True),
        PropertyType(Scalar.DATE, list=True),
        PropertyType(Scalar.VECTOR, nullable=True, dimension=4),
        PropertyType(Scalar.STRING, nullable=True, enum_values=("x", "y")),
        PropertyType(Scalar.DATETIME, nullable=True, list=True),
        PropertyType(Scalar.BLOB),
    ]


def test_annotation_values_are_text_whatever_they_look_like() -> None:
    (node,) = parse_schema('node A @b(true) @i(007) @f(1.50) @s("7") @w(word, k=1, j="x") {}').nodes
    assert node.annotations == (
        Annotation("b", "true"),
        Annotation("f", "1.50"),
        Annotation("i", "007"),
        Annotation("s", "7"),
        Annotation("w", "word", (("j", "x"), ("k", "1"))),
    )


def test_annotations_of_properties_become_constraints_and_stay_annotations() -> None:
    (node,) = parse_schema("node A { a: String @key b: I32 @unique @index @range }").nodes
    assert node.constraints == (
        IndexConstraint(("b",)),
        KeyConstraint(("a",)),
        UniqueConstraint(("b",)),
    )
    assert [a.name for a in node.properties[1].annotations] == ["index", "range", "unique"]


def test_constraints_are_read_in_their_canonical_order() -> None:
    (node,) = parse_schema(
        'node A { b: I32 a: String @unique(b, a) @range(b, 0..9) @check(a, "x") @key(b, a) }'
    ).nodes
    assert node.constraints == (
        CheckConstraint("a", "x"),
        KeyConstraint(("a", "b")),
        RangeConstraint("b", 0, 9),
        UniqueConstraint(("a", "b")),
    )
    assert node.key == ("a", "b")


def test_a_range_with_only_an_upper_bound_is_a_lower_bound_as_in_the_engine() -> None:
    (node,) = parse_schema("node A { a: I32 @range(a, ..200) }").nodes
    assert node.constraints == (RangeConstraint("a", 200, None),)


def test_a_bound_beyond_64_bits_is_a_float() -> None:
    endless = "1" + "0" * 5000
    (node,) = parse_schema(
        "node A { a: F64 @range(a, 9223372036854775807..9223372036854775808) "
        f"@range(a, {endless}..) }}"
    ).nodes
    assert node.constraints == (
        RangeConstraint("a", float("inf"), None),
        RangeConstraint("a", 9223372036854775807, 9223372036854775808.0),
    )


def test_bounds_of_another_notation_make_another_schema() -> None:
    assert parse_schema("node A { a: F64 @range(a, 1..) }") != parse_schema(
        "node A { a: F64 @range(a, 1.0..) }"
    )


def test_an_edge_knows_its_ends_and_how_many() -> None:
    schema = parse_schema(
        "node A {} node B {} edge E: A -> B @card(1..2) edge F: B -> A edge G: A -> A @card(3..)"
    )
    ends = {edge.name: (edge.from_type, edge.to_type, edge.cardinality) for edge in schema.edges}
    assert ends == {
        "E": ("A", "B", Cardinality(1, 2)),
        "F": ("B", "A", Cardinality()),
        "G": ("A", "A", Cardinality(3, None)),
    }


def test_the_order_of_the_text_does_not_matter() -> None:
    one = parse_schema("node A { a: I32 @x @b b: enum(p, q) } node B {} edge E: A -> B {}")
    other = parse_schema("edge E: A -> B node B{} node A { b: enum(q, p) a: I32 @b @x }")
    assert one == other


def test_a_long_run_of_slashes_is_refused_at_once() -> None:
    with pytest.raises(SchemaSyntaxError):
        parse_schema("node A { a: I32 @" + "//x\n" * 500 + "/" * 5000)
