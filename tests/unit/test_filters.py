"""Filter text: it is taken whole by Lance or refused with the reason, and never means less."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark import Snapshot
from omnigraph_spark.errors import InvalidFilterError, OmnigraphError
from omnigraph_spark.filters import as_one_condition, check_filter_text, equals_text
from tests.helpers.builder import GraphBuilder

#: Ids that would end a quote, begin a comment or close a parenthesis if they were not quoted.
TRICKY_IDS = [
    "O'Neill",
    "''",
    "'",
    "' or '1'='1",
    "x') or ('1'='1",
    "back\\slash",
    "trailing\\",
    "\\' or 1=1 --",
    "`tick`",
    '"double"',
    "a;b",
    "-- comment",
    "/* comment */",
    "$1 ? :x",
    "%_",
    "é 名 \N{PILE OF POO}",
    "line\nbreak",
    "null\0character",
    " spaces ",
    "N'x'",
]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    root: Path = tmp_path_factory.mktemp("filters") / "g"
    graph = GraphBuilder.create(root, "node Person { name: String @key\n age: I32? }")
    people = [("ann", 10), ("bob", 20), ("cy", 30), ("dot", None)]
    people += [(tricky, -1) for tricky in TRICKY_IDS]
    graph.write({"node:Person": [{"name": name, "age": age} for name, age in people]})
    return og.open(str(root)).snapshot()


def names(snapshot: Snapshot, where: str) -> list[str]:
    return [row["name"] for row in snapshot.arrow("Person", ["name"], where).to_pylist()]


# -- what the text may contain -----------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "age > 30",
        " age > 30\n and name like 'a%' ",
        "name = 'O''Neill'",
        "name = 'a;b -- c /* d \" ` ? $1 :x ('",
        "name = ''",
        "name in ('a', 'b')",
        "name in('a')or name like'b%'",
        "`weird; name` = 1",
        "age::bigint > 3",
        "((age > 1) and (age < 3))",
        "name = 'back\\'",
    ],
)
def test_a_condition_is_returned_unchanged(text: str) -> None:
    assert check_filter_text(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (" \n\t", "it is empty"),
        ("age > 1; drop", "';' would end the condition"),
        ('"name" = 1', "double quotes would make text"),
        ("age > 1 -- and age < 3", "comments are not allowed"),
        ("age > /* x */ 1", "comments are not allowed"),
        ("name = 'O'Neill'", "a single quote is not closed"),
        ("name = '", "a single quote is not closed"),
        ("`name = 1", "a backtick is not closed"),
        ("`` = 1", "a backtick is not closed"),
        ("age > 1\0", "a null character"),
        ("(age > 1", "a parenthesis is not closed"),
        ("age > 1)", "a parenthesis is closed that was not opened"),
        ("age > 1) or (1 = 1", "a parenthesis is closed that was not opened"),
        ("name = ?", r"Lance has no \? here"),
        ("name = $1", r"Lance has no \$ here"),
        ("name = $$x$$", r"Lance has no \$ here"),
        ("name = :x", "Lance has no : here"),
        ("name = N'x'", "Lance has no N' here"),
        ("name = b'x'", "Lance has no b' here"),
        ("name = r'x'", "Lance has no r' here"),
    ],
)
def test_a_text_that_would_not_mean_what_it_seems_is_refused_with_the_reason(
    text: str, reason: str
) -> None:
    with pytest.raises(InvalidFilterError, match=reason) as refused:
        check_filter_text(text)
    assert refused.value.filter == text


def outside_of_quotes(text: str) -> str | None:
    """A text with Q for each quoted run, found letter by letter; None if one is open at the end.

    A doubled quote inside a run closes it and opens the next.
    """
    left, quote = [], ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'`":
            quote = letter
            left.append("Q")
        else:
            left.append(letter)
    return None if quote else "".join(left)


@given(st.text(st.sampled_from("a1 ='`;\"-/*()?$:\0"), max_size=14))
@example("'it''s'")
@example("a'b")
@example("(a)(")
def test_an_accepted_text_has_nothing_dangerous_outside_of_its_quotes(text: str) -> None:
    try:
        check_filter_text(text)
    except InvalidFilterError:
        return
    left = outside_of_quotes(text)
    assert left is not None
    assert not set(';"?$\0') & set(left)
    assert "--" not in left
    assert "/*" not in left
    depth = 0
    for letter in left:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        assert depth >= 0
    assert depth == 0


@given(st.text(st.sampled_from("a1 =<>()'%_.,"), max_size=20))
def test_a_text_without_anything_dangerous_is_accepted(text: str) -> None:
    quoted = text.replace("'", "").replace("(", "").replace(")", "")
    assert check_filter_text(f"name = '{quoted}'") == f"name = '{quoted}'"


# -- what Lance makes of it --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("age > 15", ["bob", "cy"]),
        ("age > 15 and name < 'c'", ["bob"]),
        ("age = 10 or age = 30", ["ann", "cy"]),
        ("age between 10 and 20", ["ann", "bob"]),
        ("`age` is null", ["dot"]),
        ("name in ('ann', 'dot')", ["ann", "dot"]),
        ("name like 'bo%'", ["bob"]),
        ("not (age < 25)", ["cy"]),
    ],
)
def test_a_condition_gives_its_rows(snapshot: Snapshot, where: str, found: list[str]) -> None:
    assert names(snapshot, where) == found


@pytest.mark.parametrize(
    "rest",
    [
        "name = 'ann'",
        "name",
        ", name = 'ann'",
        "order by age",
        "limit 1",
        "as x",
        "where 1 = 1",
        "union select 1",
        "'x'",
        "garbage",
    ],
)
def test_what_follows_a_condition_is_an_error_and_not_ignored(
    snapshot: Snapshot, rest: str
) -> None:
    with pytest.raises(InvalidFilterError):
        names(snapshot, f"age > 15 {rest}")


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("nope = 1", "No field named nope"),
        ("age >", "Expected: an expression"),
        ("name", "does not return a boolean"),
        ("age + 1", "does not return a boolean"),
        ("age = 'ten'", "could not convert"),
        ("nofunc(age) = 1", "Invalid function 'nofunc'"),
        ("id in (select id from x)", "not supported SQL"),
        ("count(*) > 1", "not implemented"),
        ("(" * 3000 + "age > 1" + ")" * 3000, "recursion limit"),
    ],
)
def test_what_lance_cannot_evaluate_is_an_error_in_one_line_that_says_why(
    snapshot: Snapshot, where: str, reason: str
) -> None:
    with pytest.raises(InvalidFilterError, match=reason) as refused:
        names(snapshot, where)
    assert "\n" not in str(refused.value)
    assert ".rs:" not in str(refused.value)


@pytest.mark.parametrize("where", ["age / 0 = 1", "cast(name as int) = 1"])
def test_a_filter_that_fails_on_a_row_is_an_error_about_the_filter(
    snapshot: Snapshot, where: str
) -> None:
    with pytest.raises(InvalidFilterError) as refused:
        names(snapshot, where)
    assert refused.value.filter == where


@pytest.mark.parametrize("tricky", TRICKY_IDS)
def test_an_id_is_found_whatever_it_contains(snapshot: Snapshot, tricky: str) -> None:
    found = snapshot.entity("Person", tricky)
    assert found is not None
    assert found["id"] == found["name"] == tricky


@settings(max_examples=40, deadline=None)
@given(value=st.text(max_size=10))
@example("x' or 'x' = 'x")
def test_looking_for_an_id_never_finds_another(snapshot: Snapshot, value: str) -> None:
    found = snapshot.entity("Person", value)
    assert found is None or found["id"] == value


def test_an_id_that_is_no_text_at_all_is_an_error_of_ours(snapshot: Snapshot) -> None:
    with pytest.raises(OmnigraphError):
        snapshot.entity("Person", "\ud800")


# -- what we write -----------------------------------------------------------------------------


@given(st.text())
def test_a_value_of_ours_is_one_quoted_run_that_passes_the_check(value: str) -> None:
    condition = equals_text("id", value)
    assert check_filter_text(condition) == condition
    assert (outside_of_quotes(condition) or "").strip("Q") == " = "
    assert condition.removeprefix("`id` = '").removesuffix("'").replace("''", "'") == value


def test_a_condition_in_parentheses_is_the_same_condition(snapshot: Snapshot) -> None:
    for where in ("age > 15 or age = 10", "age is null"):
        assert names(snapshot, as_one_condition(where)) == names(snapshot, where)
