"""Enums and ranges on their way in."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from omnigraph_spark.schema.model import NodeType, Property, PropertyType, RangeConstraint, Scalar
from omnigraph_spark.writing.intake import Intake
from tests.helpers.intake import entity, refused, stored

ARROW = {
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
}


def _outside(scalar: Scalar, low: Any, high: Any, values: list[Any]) -> list[int]:
    """Return the places of values that break a range."""
    declared = NodeType(
        "T",
        properties=(Property("x", PropertyType(scalar, nullable=True)),),
        constraints=(RangeConstraint("x", low, high),),
    )
    ids = [f"{place:03}" for place in range(len(values))]
    rows = pa.record_batch({"id": ids, "x": pa.array(values, ARROW[scalar])})
    intake = Intake(declared, rows.schema, "append")
    intake.convert(rows)
    return [int(name) for violation in intake.violations() for name in violation.ids]


def test_both_bounds_belong_to_the_range() -> None:
    declared = entity("node T { x: I32?  @range(x, -5..10) }")
    values = pa.array([-6, -5, 0, 10, 11, None])
    rows = pa.table({"id": list("abcdef"), "x": values})
    assert refused(declared, rows) == [
        "range on node:T.x: the value is not between -5 and 10: 'a', 'e'"
    ]


def test_a_range_may_be_open_at_one_end() -> None:
    declared = entity("node T { x: F64?  @range(x, 0.5..) }")
    rows = pa.table({"id": list("abc"), "x": [0.4, 0.5, math.inf]})
    assert refused(declared, rows) == ["range on node:T.x: the value is not 0.5 or more: 'a'"]
    assert _outside(Scalar.I64, None, 3, [3, 4, None]) == [1]


@pytest.mark.parametrize("scalar", [Scalar.F32, Scalar.F64])
def test_nan_is_in_no_range(scalar: Scalar) -> None:
    assert _outside(scalar, 0, 1, [math.nan, 0.5, None]) == [0]
    assert _outside(scalar, None, None, [math.nan, 0.5]) == [0]
    assert _outside(scalar, None, 1.0, [math.nan, -math.inf]) == [0]


@pytest.mark.parametrize(
    ("scalar", "low", "high", "values", "outside"),
    [
        # Where floats no longer tell integers apart.
        (Scalar.I64, None, 2**53, [2**53, 2**53 + 1], [1]),
        (Scalar.I64, 2**53 + 1, None, [2**53, 2**53 + 1], [0]),
        (Scalar.U64, 0, 2**63 - 1, [2**63 - 1, 2**63], [1]),
        (Scalar.F64, 2**53 + 1, None, [2.0**53, 2.0**53 + 2], [0]),
        (Scalar.F64, None, 2**53 + 1, [2.0**53, 2.0**53 + 2], [1]),
        # A fraction as a bound of integers.
        (Scalar.I32, 0.5, 2.5, [0, 1, 2, 3], [0, 3]),
        (Scalar.U32, -0.5, 1e20, [0, 5], []),
        # 0.1 as a 32-bit float is a little more than 0.1.
        (Scalar.F32, None, 0.1, [0.1, 0.09], [0]),
        (Scalar.F32, 0.1, None, [0.1, 0.09], [1]),
        # Bounds no value of the type can reach.
        (Scalar.I32, -(2**40), 2**40, [-(2**31), 2**31 - 1], []),
        (Scalar.I32, 2**40, None, [5, None], [0]),
        (Scalar.I32, None, -(2**40), [5, None], [0]),
        (Scalar.U32, -5, None, [0], []),
        (Scalar.U64, None, -5, [0], [0]),
        (Scalar.U64, -5, 1e30, [2**64 - 1], []),
    ],
)
def test_bounds_are_compared_exactly(
    scalar: Scalar, low: Any, high: Any, values: list[Any], outside: list[int]
) -> None:
    assert _outside(scalar, low, high, values) == outside


_BOUNDS = (
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(ARROW)), _BOUNDS, _BOUNDS, st.data())
def test_ranges_are_those_of_the_numbers(
    scalar: Scalar, low: Any, high: Any, data: st.DataObject
) -> None:
    assume(low is not None or high is not None)
    if scalar in (Scalar.F32, Scalar.F64):
        width = 32 if scalar is Scalar.F32 else 64
        numbers: Any = st.floats(width=width, allow_nan=False, allow_infinity=False)
        near = [
            float(np.float32(b)) if width == 32 and abs(b) < 1e38 else b
            for b in (low, high)
            if b is not None
        ]
        near = [float(b) for b in near if width == 64 or abs(b) < 1e38]
    else:
        bits, signed = int(scalar[1:]), scalar[0] == "I"
        first, last = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        numbers = st.integers(first, last)
        near = [math.floor(b) + d for b in (low, high) if b is not None for d in (-1, 0, 1)]
        near = [b for b in near if first <= b <= last]
    values = data.draw(st.lists(numbers | st.sampled_from(near or [0]), max_size=5))
    expected = [
        place
        for place, value in enumerate(values)
        if (low is not None and Fraction(value) < Fraction(low))
        or (high is not None and Fraction(value) > Fraction(high))
    ]
    assert _outside(scalar, low, high, values) == expected


def test_ranges_do_not_look_into_lists() -> None:
    declared = entity("node T { x: [I32]?  @range(x, 0..1) }")
    assert stored(declared, pa.table({"id": ["a"], "x": [[5]]})).num_rows == 1


def test_a_value_is_one_of_the_enum() -> None:
    declared = entity("node T { x: enum(red, green)? }")
    rows = pa.table({"id": list("abcde"), "x": ["red", "Red", "", None, "green "]})
    assert refused(declared, rows) == [
        "enum on node:T.x: the value is not one of green, red: 'b', 'c', 'e'"
    ]


def test_edges_have_enums_too() -> None:
    declared = entity("node N { } edge E: N -> N { x: enum(a) }")
    rows = pa.table({"id": ["k", "l"], "src": ["m"] * 2, "dst": ["n"] * 2, "x": ["a", "b"]})
    assert refused(declared, rows) == ["enum on edge:E.x: the value is not one of a: 'l'"]


def test_only_the_rules_of_written_columns_are_kept() -> None:
    declared = entity('node T { k: String @key  x: I32?  @range(x, 0..1)  @check(k, "^a") }')
    rows = pa.table({"id": ["b"], "x": [1]})
    assert stored(declared, rows, mode="merge", merge_columns=["x"]).num_rows == 1
    assert refused(
        declared, rows.set_column(1, "x", pa.array([2])), mode="merge", merge_columns=["x"]
    )
