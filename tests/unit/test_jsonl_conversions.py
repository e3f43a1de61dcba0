"""JSON values into Arrow columns: what fits, what does not, and how that is said."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.jsonl.conversions import UnfitError, conversion_of
from omnigraph_spark.schema.model import PropertyType, Scalar


def kind(scalar: Scalar, **more: Any) -> PropertyType:
    return PropertyType(scalar, **{"nullable": True, **more})


def column(type_: PropertyType, values: list[Any]) -> pa.Array[Any]:
    return conversion_of(type_).column(values)


def faults(type_: PropertyType, values: list[Any]) -> dict[int, str]:
    with pytest.raises(UnfitError) as caught:
        column(type_, values)
    return {fault.row: fault.found for fault in caught.value.faults}


INTEGERS = {
    Scalar.I32: (-(1 << 31), (1 << 31) - 1),
    Scalar.I64: (-(1 << 63), (1 << 63) - 1),
    Scalar.U32: (0, (1 << 32) - 1),
    Scalar.U64: (0, (1 << 64) - 1),
}


@pytest.mark.parametrize("scalar", INTEGERS)
def test_integers_fit_up_to_their_bounds_and_never_wrap(scalar: Scalar) -> None:
    low, high = INTEGERS[scalar]
    assert column(kind(scalar), [low, None, high]).to_pylist() == [low, None, high]
    # As they are parsed: what 64 bits do not hold is a float.
    beyond = orjson.loads(f"[{low - 1},0,{high + 1}]")
    assert set(faults(kind(scalar), beyond)) == {0, 2}


@pytest.mark.parametrize("scalar", INTEGERS)
def test_only_integers_are_integers(scalar: Scalar) -> None:
    wrong = [1.0, True, "1", [1], {}]
    assert set(faults(kind(scalar), wrong)) == set(range(len(wrong)))


def test_text_and_booleans_are_only_what_they_are() -> None:
    assert column(kind(Scalar.STRING), ["a", None, "\0☃"]).to_pylist() == ["a", None, "\0☃"]
    assert set(faults(kind(Scalar.STRING), [1, True, [], {}, 1.5])) == {0, 1, 2, 3, 4}
    assert column(kind(Scalar.BOOL), [True, None, False]).to_pylist() == [True, None, False]
    assert set(faults(kind(Scalar.BOOL), [1, 0, "true"])) == {0, 1, 2}


def test_floats_take_every_number_and_the_nearest_they_have() -> None:
    values = [1, 0.1, (1 << 53) + 1, (1 << 64) - 1, None]
    doubles = [1.0, 0.1, float((1 << 53) + 1), float((1 << 64) - 1), None]
    assert column(kind(Scalar.F64), values).to_pylist() == doubles
    floats = column(kind(Scalar.F32), values)
    assert floats.type == pa.float32()
    assert floats.to_pylist() == pa.array(doubles).cast(pa.float32(), safe=False).to_pylist()
    assert set(faults(kind(Scalar.F64), ["1", True])) == {0, 1}


def test_a_number_too_large_for_a_32_bit_float_is_not_infinity() -> None:
    assert faults(kind(Scalar.F32), [1.0, 1e39]) == {1: "1e+39"}
    assert faults(kind(Scalar.F32, list=True), [[1.0, -1e39]]) == {0: "-1e+39 as item 2"}
    assert column(kind(Scalar.F32), [3.4028235e38]).to_pylist() == [3.4028234663852886e38]


def test_dates_and_times_are_texts_or_numbers_side_by_side() -> None:
    days = column(kind(Scalar.DATE), ["1970-01-02", -1, None, "1970-1-3"])
    assert days.view("int32").to_pylist() == [1, -1, None, 2]
    moments = column(kind(Scalar.DATETIME), ["1970-01-01T00:00:01Z", -1, None])
    assert moments.view("int64").to_pylist() == [1000, -1, None]
    assert faults(kind(Scalar.DATE), ["1970-01-02", 1 << 31, 1.5]) == {1: "2147483648", 2: "1.5"}
    assert faults(kind(Scalar.DATETIME), [True, "no", 1]) == {0: "true", 1: '"no"'}
    assert column(kind(Scalar.DATE), [None]).to_pylist() == [None]


def test_vectors_have_their_length_and_only_numbers() -> None:
    two = kind(Scalar.VECTOR, dimension=2)
    assert column(two, [[1, 2.5], None, [0, -0.0]]).to_pylist() == [[1.0, 2.5], None, [0.0, -0.0]]
    wrong = [[1], [1, 2, 3], [1, "a"], [None, 1], [True, 1], "[1,2]", [1e39, 0]]
    assert faults(two, [*wrong, [1, 2]]) == {
        0: "1 items",
        1: "3 items",
        2: '"a" as item 2',
        3: "null as item 1",
        4: "true as item 1",
        5: '"[1,2]"',
        6: "1e+39 as item 1",
    }


def test_lists_have_items_of_their_type_or_null() -> None:
    texts = kind(Scalar.STRING, list=True)
    assert column(texts, [["a", None], None, [], ["b"]]).to_pylist() == [
        ["a", None],
        None,
        [],
        ["b"],
    ]
    assert faults(texts, [["a"], ["b", 1], "c", [["d"]]]) == {
        1: "1 as item 2",
        2: '"c"',
        3: '["d"] as item 1',
    }
    assert faults(kind(Scalar.I32, list=True), [[1 << 40]]) == {0: "1099511627776 as item 1"}
    whens = column(kind(Scalar.DATETIME, list=True), [["1970-01-01", 5, None]])
    assert whens.values.view("int64").to_pylist() == [0, 5, None]


def test_blobs_are_bytes_or_addresses() -> None:
    blobs = column(kind(Scalar.BLOB), ["base64:AAE=", None, "s3://bucket/key", "base64:"])
    assert blobs.to_pylist() == [
        {"data": b"\0\1", "uri": None},
        None,
        {"data": None, "uri": "s3://bucket/key"},
        {"data": b"", "uri": None},
    ]


@pytest.mark.parametrize(
    "text",
    ["base64:AAE", "base64:A A=", "base64:AAE=\n", "base64:-_8=", "base64:AAF=", "base64:A===",
     "base64:AA==AA==", "base64: AAE=", "relative/path", "/absolute/path", "", "nothing:"],
)  # fmt: skip
def test_texts_that_are_neither_bytes_nor_addresses_are_no_blobs(text: str) -> None:
    assert set(faults(kind(Scalar.BLOB), ["base64:AAE=", text])) == {1}


@given(st.binary(max_size=50))
def test_bytes_arrive_as_they_were_sent(data: bytes) -> None:
    import base64

    (blob,) = column(kind(Scalar.BLOB), [f"base64:{base64.b64encode(data).decode()}"]).to_pylist()
    assert blob == {"data": data, "uri": None}


def test_a_required_value_is_not_null() -> None:
    assert faults(PropertyType(Scalar.STRING), ["a", None]) == {1: "null"}
    assert column(PropertyType(Scalar.STRING), ["a"]).to_pylist() == ["a"]


def test_long_values_are_shown_in_part() -> None:
    (found,) = faults(kind(Scalar.I32), ["x" * 500]).values()
    assert len(found) < 70
    assert found.endswith("…")


@pytest.mark.parametrize("scalar", [s for s in Scalar if s is not Scalar.VECTOR])
def test_what_would_have_worked_is_said_for_every_type(scalar: Scalar) -> None:
    wrong = {} if scalar is Scalar.STRING else {"no": 1}
    for type_ in (kind(scalar), kind(scalar, list=True)):
        with pytest.raises(UnfitError) as caught:
            column(type_, [wrong])
        (fault,) = caught.value.faults
        assert fault.expected.startswith(("a ", "text", "true", '"base64:"'))


@given(st.lists(st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(
    allow_nan=False, allow_infinity=False) | st.text(max_size=8) | st.lists(st.integers()
    | st.none() | st.text(max_size=2), max_size=3), max_size=8),
    st.sampled_from(Scalar), st.booleans())  # fmt: skip
def test_any_column_is_converted_or_its_unfit_rows_are_named(
    values: list[Any], scalar: Scalar, of_list: bool
) -> None:
    values = orjson.loads(orjson.dumps([v for v in values if _in_64_bits(v)]))
    vector = scalar is Scalar.VECTOR
    type_ = PropertyType(scalar, True, of_list and not vector, dimension=2 if vector else None)
    conversion = conversion_of(type_)
    try:
        assert len(conversion.column(values)) == len(values)
    except UnfitError as error:
        unfit = {fault.row for fault in error.faults}
        assert unfit
        kept = [value for row, value in enumerate(values) if row not in unfit]
        assert len(conversion.column(kept)) == len(kept)


def _in_64_bits(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(not isinstance(i, int) or -(1 << 63) <= i < 1 << 64 for i in items)
