"""Patterns of `@check` mean here what they mean to the engine, or are refused before any row."""

from __future__ import annotations

import pickle
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.writing.intake import Intake
from omnigraph_spark.writing.intake.letters import (
    ANY,
    Ranges,
    complement,
    difference,
    digits,
    intersection,
    property_ranges,
    union,
    words,
)
from omnigraph_spark.writing.intake.patterns import Pattern
from omnigraph_spark.writing.intake.regex_tree import PatternError
from tests.helpers.intake import entity, refused, stored
from tests.helpers.pattern_cases import INVALID, MATCHES, NOT_CHECKABLE


@pytest.mark.parametrize("pattern", MATCHES)
def test_a_pattern_matches_what_the_engine_matches(pattern: str) -> None:
    yes, no = MATCHES[pattern]
    found = Pattern.of(pattern).matches(pa.array([*yes, *no, None], pa.string()))
    assert found.to_pylist() == [True] * len(yes) + [False] * len(no) + [None]


@pytest.mark.parametrize("pattern", [*INVALID, *NOT_CHECKABLE])
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern.of(pattern)


@pytest.mark.parametrize("pattern", MATCHES)
def test_values_are_refused_as_the_pattern_says(pattern: str) -> None:
    yes, no = MATCHES[pattern]
    escaped = pattern.replace("\\", "\\\\").replace('"', '\\"')
    declared = entity(f'node T {{ x: String?  @check(x, "{escaped}") }}')
    good = pa.table({"id": list(map(str, range(len(yes)))), "x": pa.array(yes, pa.string())})
    assert stored(declared, good)["x"].to_pylist() == list(yes)
    for text in no:
        (violation,) = refused(declared, pa.table({"id": ["a", "b"], "x": [text, None]}))
        assert violation == f"check on node:T.x: no match of {pattern!r}: 'a'"


def test_a_pattern_that_cannot_be_checked_is_an_error_when_a_write_is_planned() -> None:
    declared = entity('node T { x: String?  @check(x, "(?x) a b") }')
    with pytest.raises(UnsupportedError) as error:
        Intake(declared, pa.schema([("x", pa.string())]), "append")
    assert str(error.value) == (
        "[OMNIGRAPH_UNSUPPORTED] the pattern '(?x) a b' of @check on node:T.x (the flags x, R "
        "and -u cannot be checked here at character 1) is not supported; write it another way, "
        "or load the rows with the engine if it takes them"
    )


def test_a_pattern_travels() -> None:
    pattern = Pattern.of(r"\bé")
    assert pickle.loads(pickle.dumps(pattern)) == pattern


def test_only_texts_beyond_ascii_leave_re2_and_only_for_word_boundaries() -> None:
    assert Pattern.of(r"\w\s\d").python is None
    assert Pattern.of(r"(a|\bb)*").python is not None


# A pattern of plain parts means the same to Python's own `re`.
_ATOMS = st.sampled_from(["a", "b", "é", ".", "[ab]", "[^a]", "[a-cé]", "^", "$", r"\n", "", "c"])


def _grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.tuples(parts, parts).map("".join)
        | st.tuples(parts, parts).map(lambda pair: f"(?:{pair[0]}|{pair[1]})")
        | st.tuples(parts, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        )
    )


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(_ATOMS, _grown, max_leaves=6),
    st.lists(st.text(alphabet="abcdé\n", max_size=5), min_size=1, max_size=6),
)
def test_patterns_of_plain_parts_agree_with_another_matcher(pattern: str, texts: list[str]) -> None:
    # `$` is only the very end to Rust, and also before a last line feed to Python.
    other = re.compile(pattern.replace("$", r"\Z"))
    found = Pattern.of(pattern).matches(pa.array(texts))
    assert found.to_pylist() == [other.search(text) is not None for text in texts]


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet=r"""ab\()[]{}^$.*+?|-&~:<>=!#,019dwWsbBAzpPLxuiUmR é""", max_size=14))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        pattern = Pattern.of(text)
    except PatternError:
        return
    assert len(pattern.matches(pa.array(["a", "é", None]))) == 3


@pytest.mark.parametrize(
    "text", ["(" * 5000, "[" * 5000, "(" * 300 + ")" * 300, r"\x{41a", r"\p{L"]
)
def test_endless_patterns_end(text: str) -> None:
    with pytest.raises(PatternError):
        Pattern.of(text)


# Sets of characters.


def _members(ranges: Ranges) -> set[int]:
    return {code for low, high in ranges for code in range(low, high + 1)}


_SMALL = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=5).map(
    lambda pairs: union(tuple((low, low + more) for low, more in pairs))
)


@given(_SMALL, _SMALL)
def test_sets_of_characters_are_sets(left: Ranges, right: Ranges) -> None:
    one, two = _members(left), _members(right)
    assert _members(union(left, right)) == one | two
    assert _members(intersection(left, right)) == one & two
    assert _members(difference(left, right)) == one - two
    assert complement(complement(left)) == left
    assert intersection(union(left, complement(left)), ANY) == ANY


def test_words_hold_what_python_calls_words_but_for_numbers() -> None:
    members = _members(words())
    assert all(ord(letter) in members for letter in "aZ_9éßжあ漢\u0301‿\u200dⅧⓐ")
    assert not any(ord(letter) in members for letter in "½²-. \n€😀")
    assert _members(digits()) < members


def test_properties_are_those_of_unicode() -> None:
    assert property_ranges("Nothing") is None
    assert property_ranges("L}|.") is None
    other = property_ranges("C")
    assert other is not None
    # Controls, private use and what is not assigned.
    assert {0x00, 0xE000, 0x0378, 0xF0000, 0x50000} <= _members(other)
