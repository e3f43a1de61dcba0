"""Types on their way in: exact casts, and named rows where there is none."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph_spark.errors import SchemaMismatchError
from tests.helpers.intake import column, entity, refused, stored, taken

INTEGERS = {
    "I32": (-(2**31), 2**31 - 1),
    "I64": (-(2**63), 2**63 - 1),
    "U32": (0, 2**32 - 1),
    "U64": (0, 2**64 - 1),
}
ARROW_INTEGERS = [
    getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)
]


def _limits(arrow: pa.DataType) -> tuple[int, int]:
    signed = str(arrow).startswith("int")
    return (-(2 ** (arrow.bit_width - 1)) if signed else 0), (2 ** (arrow.bit_width - signed) - 1)


def _values(type_text: str, values: pa.Array[Any], **more: Any) -> list[Any]:
    return stored(*column(type_text, values), **more)["x"].to_pylist()


@given(st.sampled_from(sorted(INTEGERS)), st.sampled_from(ARROW_INTEGERS), st.data())
@settings(max_examples=400)
def test_integers_keep_their_value_or_are_refused(
    name: str, arrow: pa.DataType, data: st.DataObject
) -> None:
    low, high = INTEGERS[name]
    first, last = _limits(arrow)
    edges = [n for n in (low - 1, low, high, high + 1, 0) if first <= n <= last]
    numbers = data.draw(
        st.lists(st.none() | st.sampled_from(edges) | st.integers(first, last), max_size=6)
    )
    declared, rows = column(f"{name}?", pa.array(numbers, arrow))
    table, violations = taken(declared, rows)
    fits = [number is None or low <= number <= high for number in numbers]
    if all(fits):
        assert violations == []
        assert table["x"].to_pylist() == numbers
    else:
        (violation,) = violations
        ids = ", ".join(repr(chr(97 + place)) for place, fit in enumerate(fits) if not fit)
        limits = f"the value is not between {low} and {high}, the limits of the type"
        assert violation == f"overflow on node:T.x: {limits}: {ids}"


def test_u64_takes_sparks_decimals() -> None:
    numbers = [0, 2**64 - 1, None, 7]
    decimals = pa.array([None if n is None else Decimal(n) for n in numbers], pa.decimal128(20, 0))
    assert _values("U64?", decimals) == numbers
    assert _values("U64?", decimals.cast(pa.decimal256(40, 0))) == numbers


def test_decimals_outside_of_u64_are_refused() -> None:
    decimals = pa.array([Decimal(-1), Decimal(2**64), Decimal(5)], pa.decimal128(20, 0))
    (violation,) = refused(*column("U64?", decimals))
    assert violation.startswith("overflow on node:T.x:")
    assert violation.endswith("'a', 'b'")


def test_short_decimals_cannot_reach_the_upper_limit() -> None:
    decimals = pa.array([Decimal(-1), Decimal(5)], pa.decimal128(3, 0))
    assert refused(*column("U64?", decimals))[0].endswith("'a'")


@pytest.mark.parametrize(
    ("type_text", "arrow"),
    [
        ("I32", pa.float64()),
        ("I64", pa.decimal128(10, 0)),
        ("U64", pa.decimal128(20, 2)),
        ("I64", pa.string()),
        ("I64", pa.bool_()),
        ("I64", pa.timestamp("us")),
        ("F64", pa.string()),
        ("F64", pa.decimal128(10, 2)),
        ("Bool", pa.int8()),
        ("Bool", pa.string()),
        ("String", pa.int64()),
        ("String", pa.binary()),
        ("Date", pa.date64()),
        ("Date", pa.timestamp("us")),
        ("Date", pa.string()),
        ("DateTime", pa.date32()),
        ("DateTime", pa.string()),
        ("DateTime", pa.int64()),
        ("DateTime", pa.time64("us")),
        ("Blob", pa.string()),
        ("Blob", pa.struct([("kind", pa.string()), ("size", pa.int64()), ("uri", pa.string())])),
        ("Blob", pa.list_(pa.binary())),
        ("[String]", pa.string()),
        ("[String]", pa.list_(pa.int64())),
        ("[String]", pa.list_(pa.list_(pa.string()))),
        ("[I32]", pa.list_(pa.float64())),
        ("[I32]", pa.map_(pa.string(), pa.int32())),
        ("Vector(2)", pa.list_(pa.string())),
        ("Vector(2)", pa.float32()),
        ("Vector(2)", pa.binary(8)),
        ("enum(a, b)", pa.int8()),
        ("I64", pa.duration("us")),
        ("I64", pa.dictionary(pa.int8(), pa.string())),
        ("String", pa.struct([("a", pa.string())])),
    ],
    ids=str,
)
def test_a_type_that_cannot_become_the_declared_one_is_an_error_before_any_row(
    type_text: str, arrow: pa.DataType
) -> None:
    with pytest.raises(SchemaMismatchError) as error:
        taken(*column(type_text, pa.array([], arrow), []))
    text = str(error.value)
    assert f"column 'x' of node:T was given as {arrow} but is {type_text}, which takes" in text


def test_floats_widen_and_doubles_narrow() -> None:
    assert _values("F64?", pa.array([1.5, None], pa.float32())) == [1.5, None]
    assert _values("F32?", pa.array([1.5, None], pa.float16())) == [1.5, None]
    narrow = _values("F32?", pa.array([0.1, None, -0.0], pa.float64()))
    assert narrow[:2] == [float(np.float32(0.1)), None]
    assert math.copysign(1, narrow[2]) == -1


def test_a_double_that_would_become_infinite_is_refused() -> None:
    doubles = pa.array([1.0, 1e300, -1e39, 3.4028235e38])
    (violation,) = refused(*column("F32", doubles))
    assert violation == (
        "overflow on node:T.x: the value is too large for a 32-bit float: 'b', 'c'"
    )


def test_what_is_not_finite_already_is_kept() -> None:
    doubles = pa.array([math.nan, math.inf, -math.inf, None])
    for name in ("F32?", "F64?"):
        nan, *rest = _values(name, doubles)
        assert math.isnan(nan)
        assert rest == [math.inf, -math.inf, None]


@pytest.mark.parametrize(("name", "exact"), [("F32", 2**24), ("F64", 2**53)])
def test_integers_become_floats_where_each_has_its_own(name: str, exact: int) -> None:
    assert _values(name, pa.array([exact, -exact, 3])) == [float(exact), float(-exact), 3.0]
    (violation,) = refused(*column(name, pa.array([exact + 1, 0, -exact - 1])))
    assert violation.endswith("'a', 'c'")


TICKS = {"s": -1, "ms": 1, "us": 1_000, "ns": 1_000_000}


def _milliseconds(table: pa.Table) -> list[int | None]:
    return table["x"].combine_chunks().view(pa.int64()).to_pylist()


@given(
    st.sampled_from(["ms", "us", "ns"]),
    st.sampled_from([None, "UTC", "+05:30"]),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=6),
)
@settings(max_examples=200)
def test_times_are_cut_to_milliseconds_downwards(
    unit: str, zone: str | None, numbers: list[int | None]
) -> None:
    times = pa.array(numbers, pa.int64()).view(pa.timestamp(unit, zone))
    table = stored(*column("DateTime?", times))
    assert table.schema.field("x").type == pa.date64()
    assert _milliseconds(table) == [None if n is None else n // TICKS[unit] for n in numbers]


def test_times_in_seconds_are_multiplied_or_refused() -> None:
    most = (2**63 - 1) // 1000
    near = pa.array([most, -most, None, 0], pa.int64()).view(pa.timestamp("s"))
    assert _milliseconds(stored(*column("DateTime?", near))) == [most * 1000, -most * 1000, None, 0]
    far = pa.array([most + 1, 0, -(2**63)], pa.int64()).view(pa.timestamp("s", "UTC"))
    assert refused(*column("DateTime?", far))[0].endswith("'a', 'c'")


def test_a_time_of_day_survives() -> None:
    noon = dt.datetime(1969, 12, 31, 12, 30, 15, 123_999, dt.UTC)
    table = stored(*column("DateTime", pa.array([noon])))
    instant = pc.cast(table["x"].combine_chunks().view(pa.timestamp("ms", "UTC")), pa.string())
    assert instant.to_pylist() == ["1969-12-31 12:30:15.123Z"]


def test_stored_dates_and_times_pass_as_they_are() -> None:
    days = pa.array([-1, 0, 2**31 - 1, None], pa.int32()).view(pa.date32())
    assert stored(*column("Date?", days))["x"].combine_chunks().equals(days)
    times = pa.array([-1, 86_399_999, None], pa.int64()).view(pa.date64())
    assert stored(*column("DateTime?", times))["x"].combine_chunks().equals(times)


@pytest.mark.parametrize("arrow", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_comes_in_three_shapes(arrow: pa.DataType) -> None:
    texts = ["a", "", None, "é\0"]
    assert _values("String?", pa.array(texts, pa.string()).cast(arrow)) == texts


def raw(*texts: bytes | None, arrow: Any = None) -> pa.Array[Any]:
    """An array of texts, whatever their bytes are: Spark's `CAST(binary AS string)` makes such."""
    large = pa.array(texts, pa.large_binary() if arrow == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(arrow or pa.string(), len(large), large.buffers())


@pytest.mark.parametrize("arrow", [pa.string(), pa.large_string()], ids=str)
def test_bytes_that_are_no_text_are_refused(arrow: pa.DataType) -> None:
    """Stored, they would make every row of their type unreadable, here and to the engine."""
    values = raw(b"ok", b"\xff", None, "\u00e4".encode(), b"\xed\xa0\x80", arrow=arrow)
    found = refused(*column("String?", values))
    assert found == ["text on node:T.x: the text is not valid UTF-8: 'b', 'e'"]
    assert _values("String?", values.slice(2, 2)) == [None, "\u00e4"]


def test_bytes_that_are_no_text_are_refused_in_lists_and_enums() -> None:
    lists = pa.ListArray.from_arrays([0, 1, 1, 3], raw(b"a", b"b", b"\xc3"))
    assert refused(*column("[String]?", lists)) == [
        "text on node:T.x: the text is not valid UTF-8: 'c'"
    ]
    encoded = pa.DictionaryArray.from_arrays([0, 1], raw(b"one", b"\x80"))
    assert refused(*column("enum(one, two)?", encoded)) == [
        "text on node:T.x: the text is not valid UTF-8: 'b'"
    ]


def test_bytes_that_are_no_text_are_refused_as_ids_and_ends() -> None:
    ids, others = raw(b"a", b"\xff", b"c"), ["a", "b", "c"]
    keyed = entity("node T { name: String @key }")
    message = "the text is not valid UTF-8"
    for rows, mode, expected in (
        ({"name": ids}, "append", f"text on node:T.name: {message}: 'row 2'"),
        ({"name": others, "id": ids}, "append", f"text on node:T.id: {message}: 'b'"),
        ({"id": ids}, "delete", f"text on node:T.id: {message}: 'row 2'"),
        ({"name": ids}, "delete", f"text on node:T.id: {message}: 'row 2'"),
    ):
        assert refused(keyed, pa.table(rows), mode=mode) == [expected]
    edge = entity("node T { name: String @key } edge E: T -> T")
    ends = pa.table({"id": ["x", "y", "z"], "src": ids, "dst": others})
    assert refused(edge, ends) == [f"text on edge:E.src: {message}: 'y'"]


def test_encoded_columns_are_decoded() -> None:
    texts = pa.array(["a", "b", None, "a"])
    assert _values("enum(a, b)?", texts.dictionary_encode()) == texts.to_pylist()
    numbers = pa.array([7, 7, None, 8])
    assert _values("I32?", pc.run_end_encode(numbers)) == numbers.to_pylist()
    assert _values("I32?", numbers.dictionary_encode()) == numbers.to_pylist()


@pytest.mark.parametrize(
    "type_text", ["String?", "I32?", "U64?", "Date?", "DateTime?", "Bool?", "[I32]?", "Vector(3)?"]
)
def test_a_column_of_nothing_but_null_fits_every_type(type_text: str) -> None:
    assert _values(type_text, pa.nulls(2)) == [None, None]


def test_a_null_is_refused_where_a_value_is_required() -> None:
    (violation,) = refused(*column("I32", pa.array([1, None, 3, None])))
    assert violation == "required on node:T.x: the value is null: 'b', 'd'"


def test_a_value_that_does_not_fit_is_not_also_missing() -> None:
    violations = refused(*column("I32", pa.array([1, 2**40, None])))
    assert [violation.split(":")[0] for violation in violations] == [
        "overflow on node",
        "required on node",
    ]
    assert violations[0].endswith("'b'")
    assert violations[1].endswith("'c'")
