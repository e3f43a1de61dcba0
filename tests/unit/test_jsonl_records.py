"""From text to JSON values: lines, values across lines, and where text is not JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.jsonl.records import Line, Lines, MalformedError, values_in


def read(lines: list[Line]) -> list[tuple[int, Any]]:
    return [
        pair
        for portion in values_in(Lines(lines))
        for pair in zip(portion.lines, portion.values, strict=True)
    ]


def malformed(text: str | bytes) -> tuple[int, str]:
    line_end: Any = "\n" if isinstance(text, str) else b"\n"
    with pytest.raises(MalformedError) as caught:
        read([*text.split(line_end)])
    return caught.value.line, caught.value.reason


def test_one_value_a_line_with_or_without_line_ends_as_text_or_bytes() -> None:
    assert read(['{"a":1}\n', '{"a":2}', b'{"a":3}\r\n']) == [
        (1, {"a": 1}),
        (2, {"a": 2}),
        (3, {"a": 3}),
    ]


def test_blank_lines_count_but_hold_nothing() -> None:
    assert read(["", "{}", "  \t", "\r\n", "[]", ""]) == [(2, {}), (5, [])]


def test_a_value_may_take_many_lines_and_a_line_many_values() -> None:
    lines: list[Line] = ['{"a":', "  1", "}", '{"b":2}{"c":3} {"d":', "4}", '{"e":5}']
    assert read(lines) == [
        (1, {"a": 1}),
        (4, {"b": 2}),
        (4, {"c": 3}),
        (4, {"d": 4}),
        (6, {"e": 5}),
    ]


def test_many_lines_come_in_portions_that_keep_their_numbers() -> None:
    lines: list[Line] = [f'{{"n":{n}}}' for n in range(1, 3001)]
    lines[1500] = '{\n"n":\n1501}'
    found = read(lines)
    assert [value["n"] for _, value in found] == list(range(1, 3001))
    assert [line for line, _ in found[:1501]] == list(range(1, 1502))


def test_long_lines_are_taken_a_few_at_a_time() -> None:
    taken = 0

    def lines() -> Any:
        nonlocal taken
        for _ in range(40):
            taken += 1
            yield '{"p":"' + "x" * 400_000 + '"}'

    portions = values_in(Lines(lines()))
    for _ in range(10):
        before = taken
        next(portions)
        assert taken - before <= 4


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.text(max_size=3), st.recursive(
                st.none() | st.integers(-9, 9) | st.text(max_size=5),
                lambda inner: st.lists(inner, max_size=3),
                max_leaves=4,
            ), max_size=4),
            st.sampled_from([None, 0, 2]),
            st.sampled_from(["", "\n", " \n\n", "\r\n"]),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_however_values_are_laid_out_they_are_the_same_and_begin_where_they_begin(
    layout: list[tuple[dict[str, Any], int | None, str]],
) -> None:
    text, expected = "", []
    for value, indent, separator in layout:
        expected.append((text.count("\n") + 1, value))
        text += json.dumps(value, indent=indent) + separator
    assert read(list(text.split("\n"))) == expected


def test_characters_that_end_lines_elsewhere_do_not_end_them_here() -> None:
    assert read(['{"a":"\u2028\x85"}']) == [(1, {"a": "\u2028\x85"})]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{"a":1}\n{"a":1,}', 2, "line 2, column 8"),
        ('{"a":1}\n\n{"a"\n:\n1 2}', 3, "line 5, column 3"),
        ('{"a":1}\n{"b":\n', 2, "does not end"),
        ('{"a":1\n{"b":2}\n{"c":3}', 1, "line 2, column 1"),
        ('{"a":1} garbage', 1, "column 9"),
        ('{"a":NaN}', 1, "not valid JSON"),
        ('{"a":1e999}', 1, "not valid JSON"),
        (r'{"a":"\ud800"}', 1, "not valid JSON"),
        ('{"a":"one\ntwo"}', 1, "column 10"),
        ("{'a':1}", 1, "column 2"),
        ("\ufeff{}", 1, "byte order mark"),
        ("{}\u00a0", 1, "column 3"),
        ("[" * 100_000, 1, "nested too deeply"),
    ],
)
def test_text_that_is_not_json_is_refused_where_the_record_begins(
    text: str, line: int, words: str
) -> None:
    found, reason = malformed(text)
    assert (found, words in reason) == (line, True), reason


def test_bytes_that_are_not_utf8_are_refused() -> None:
    assert malformed(b'{"a":1}\n{"a":"\xff"}') == (2, "the text is not UTF-8")


def test_a_record_that_never_ends_is_refused_before_all_is_read() -> None:
    taken = 0

    def lines() -> Any:
        nonlocal taken
        yield '{"a":1'
        for taken in range(1, 100_000):  # noqa: B007
            yield '{"a":1}'

    with pytest.raises(MalformedError):
        list(values_in(Lines(lines())))
    assert taken < 10
