"""Statements of a script end where Spark ends them: quotes and comments hide semicolons."""

from __future__ import annotations

import re

import pytest

from omnigraph_spark.cli.statements import Statements, UnclosedError, statements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1; select 2", ["select 1", "select 2"]),
        ("select ';'\nfrom x;\n", ["select ';'\nfrom x"]),
        ('select "a;b", `c;d`;;', ['select "a;b", `c;d`']),
        ("select 'it''s; so', `a``;b`; select 2", ["select 'it''s; so', `a``;b`", "select 2"]),
        (r"select 'it\'s; so', '\\'; select 2", [r"select 'it\'s; so', '\\'", "select 2"]),
        (r'select "a\";b"; select 2', [r'select "a\";b"', "select 2"]),
        (r"select r'\'; select R';\'; 2", [r"select r'\'", r"select R';\'", "2"]),
        (r"select r 'a\';'", [r"select r 'a\';'"]),
        (r"select `\`; 2", [r"select `\`", "2"]),
        ("", []),
        (" ;\n; ", []),
    ],
)
def test_semicolons_in_quotes_end_nothing(text: str, expected: list[str]) -> None:
    assert list(statements(text.splitlines(keepends=True))) == expected
    assert list(statements([text])) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-- don't worry\ninsert into t;", ["-- don't worry\ninsert into t"]),
        ("select 1 -- a; b\n, 2;", ["select 1 -- a; b\n, 2"]),
        ("select 1; -- that's all", ["select 1"]),
        ("-- nothing\n/* at; all */", []),
        ("select 1 -- on \\\n; still\n; 2", ["select 1 -- on \\\n; still", "2"]),
        ("select 1 -- mac\r; 2", ["select 1 -- mac", "2"]),
        ("/* isn't; */ select 1; 2", ["/* isn't; */ select 1", "2"]),
        ("select /* a /* b; */ c; */ 1; 2", ["select /* a /* b; */ c; */ 1", "2"]),
        ("select /* -- */ 1; 2", ["select /* -- */ 1", "2"]),
        ("select /*+ broadcast(`a;b`) */ 1; 2", ["select /*+ broadcast(`a;b`) */ 1", "2"]),
        ("select '-- no', 1 - -1, '/* no'; 2", ["select '-- no', 1 - -1, '/* no'", "2"]),
    ],
)
def test_what_comments_hold_is_no_quote_and_no_end(text: str, expected: list[str]) -> None:
    assert list(statements(text.splitlines(keepends=True))) == expected
    assert list(statements([text])) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("select 1;\nselect 'not closed;\n2;\n", "the quote ' in line 2 has no end"),
        ('select\n\n "a', 'the quote " in line 3 has no end'),
        ("select r'a", "the quote r' in line 1 has no end"),
        ("select `a;", "the quote ` in line 1 has no end"),
        ("/* a /* b */", "the comment /* in line 1 has no end"),
    ],
)
def test_what_is_never_closed_is_told_with_its_line(text: str, told: str) -> None:
    with pytest.raises(UnclosedError, match=re.escape(told)):
        list(statements(text.splitlines(keepends=True)))


def test_a_prompt_knows_whether_a_statement_has_begun() -> None:
    scanner = Statements()
    begun = []
    for line in ("-- a comment\n", "select\n", "'a\n", "b';\n", "/* on\n", "*/\n"):
        list(scanner.take(line))
        begun.append(scanner.begun)
    assert begun == [False, True, True, False, True, False]
