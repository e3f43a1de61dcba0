"""Violations: one sentence for each broken rule, the same however the rows were split."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.errors import ConstraintViolationError
from omnigraph_spark.writing.violations import SHOWN_IDS, Violation, merge, refuse, violation_of


def _range(*ids: str, column: str = "age", message: str = "too old") -> Violation:
    return violation_of("range", "node:Person", column, message, pa.array(ids, pa.string()))


def test_a_sentence_names_rule_type_column_and_ids() -> None:
    assert str(_range("b", "a")) == "range on node:Person.age: too old: 'a', 'b'"


def test_ten_ids_are_shown_and_the_rest_is_counted() -> None:
    violation = _range(*(f"p{number:02}" for number in range(25, 0, -1)))
    assert violation.ids == tuple(f"p{number:02}" for number in range(1, 11))
    assert violation.count == 25
    assert str(violation).endswith("'p09', 'p10' and 15 more")


def test_a_violation_of_a_whole_column_names_no_ids() -> None:
    violation = Violation("required", "node:A", "n", "the column is missing", (), 0)
    assert str(violation) == "required on node:A.n: the column is missing"


def test_the_same_rule_broken_in_many_batches_is_one_violation() -> None:
    (merged,) = merge([_range("c"), _range("a", "b"), _range("d")])
    assert merged == Violation("range", "node:Person", "age", "too old", ("a", "b", "c", "d"), 4)


def test_different_rules_stay_apart_in_a_fixed_order() -> None:
    one, two, three = _range("a"), _range("a", message="too young"), _range("a", column="aim")
    assert merge([three, two, one]) == merge([one, three, two]) == (one, two, three)


@given(st.lists(st.text(max_size=3), max_size=60), st.data())
def test_the_split_of_rows_does_not_show(ids: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(ids)))
    whole = merge([_range(*ids)])
    assert merge([_range(*ids[cut:]), _range(*ids[:cut])]) == whole
    assert whole[0].count == len(ids)
    assert whole[0].ids == tuple(sorted(ids)[:SHOWN_IDS])


def test_a_refusal_lists_every_violation() -> None:
    with pytest.raises(ConstraintViolationError) as refused:
        refuse([_range("a"), _range("b", column="aim"), _range("b")])
    assert refused.value.violations == (
        "range on node:Person.age: too old: 'a', 'b'",
        "range on node:Person.aim: too old: 'b'",
    )


def test_no_violation_is_no_refusal() -> None:
    refuse([])


def test_a_violation_travels() -> None:
    violation = _range("a", "b")
    assert pickle.loads(pickle.dumps(violation)) == violation
    fields = json.loads(json.dumps(asdict(violation)))
    assert Violation(**{**fields, "ids": tuple(fields["ids"])}) == violation
