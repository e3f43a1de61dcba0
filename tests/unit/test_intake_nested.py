"""Lists, vectors and blobs on their way in."""

from __future__ import annotations

import math
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.errors import SchemaMismatchError
from omnigraph_spark.schema.arrow import arrow_schema
from tests.helpers.intake import column, refused, stored, taken

LISTS = [
    pa.list_(pa.field("element", pa.int64())),
    pa.list_(pa.field("item", pa.int32(), nullable=False)),
    pa.large_list(pa.int16()),
    pa.list_view(pa.int64()),
    pa.large_list_view(pa.int32()),
]
BLOB = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])


def _values(type_text: str, values: pa.Array[Any], **more: Any) -> list[Any]:
    return stored(*column(type_text, values), **more)["x"].to_pylist()


@pytest.mark.parametrize("arrow", LISTS, ids=str)
def test_lists_come_in_every_shape(arrow: pa.DataType) -> None:
    numbers = [[1, 2], [], None, [3]]
    declared, rows = column("[I32]?", pa.array(numbers, arrow))
    table = stored(declared, rows)
    assert table.schema == arrow_schema(declared)
    assert table.schema.field("x").type.value_field.name == "item"
    assert table["x"].to_pylist() == numbers


def test_lists_of_one_length_are_lists() -> None:
    pairs = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    assert _values("[I32]?", pairs) == [[1, 2], None, [3, 4]]


def test_items_are_cast_as_single_values_are() -> None:
    times = pa.array([[-1, 1_000], None, []], pa.list_(pa.timestamp("us")))
    declared, rows = column("[DateTime]?", times)
    items = stored(declared, rows)["x"].combine_chunks().flatten()
    assert items.view(pa.int64()).to_pylist() == [-1, 1]
    assert _values("[F32]?", pa.array([[0.5], None])) == [[0.5], None]
    assert _values("[String]?", pa.array([["a"], None], pa.list_(pa.large_string()))) == [
        ["a"],
        None,
    ]


def test_a_list_with_an_item_out_of_range_is_named_once() -> None:
    numbers = pa.array([[1], [2**40, -(2**40)], None, [2**31]])
    (violation,) = refused(*column("[I32]?", numbers))
    assert violation.startswith("overflow on node:T.x:")
    assert violation.endswith("type: 'b', 'd'")


def test_null_items_are_kept_as_the_engine_keeps_them() -> None:
    lists = [["a"], [None], None, ["b", None]]
    assert _values("[String]?", pa.array(lists)) == lists
    assert _values("[I32]?", pa.array([[1, None]])) == [[1, None]]
    assert _values("[F32]?", pa.array([[None, 0.5], [None]])) == [[None, 0.5], [None]]


def test_a_null_list_is_refused_where_one_is_required() -> None:
    (violation,) = refused(*column("[I32]", pa.array([[1], None, []])))
    assert violation == "required on node:T.x: the value is null: 'b'"


ITEMS = st.lists(st.none() | st.integers(-(2**33), 2**33), max_size=3)


@given(st.lists(st.none() | ITEMS, max_size=8), st.integers(0, 8), st.integers(1, 9))
def test_lists_of_a_slice_are_those_of_the_slice(
    lists: list[Any], start: int, batch_rows: int
) -> None:
    """Slices share buffers, and rows that are null may have items below."""
    whole = pa.array(lists, pa.list_(pa.int64()))
    part = whole.slice(min(start, len(whole)))
    expected = lists[min(start, len(lists)) :]
    table, violations = taken(*column("[I32]?", part), batch_rows=batch_rows)
    misfits = [
        chr(97 + place)
        for place, items in enumerate(expected)
        if any(item is not None and not -(2**31) <= item < 2**31 for item in items or ())
    ]
    if misfits:
        (violation,) = violations
        assert violation.endswith("type: " + ", ".join(map(repr, misfits)))
    else:
        assert violations == []
        assert table["x"].to_pylist() == expected


def test_items_below_a_null_list_do_not_count() -> None:
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), pa.array([2**40, None, 7]), mask=pa.array([True, False])
    )
    assert _values("[I32]?", hidden) == [None, [7]]


VECTORS = [
    pa.list_(pa.field("element", pa.float64())),
    pa.list_(pa.float32(), 2),
    pa.list_(pa.float64(), 2),
    pa.large_list(pa.float32()),
    pa.list_view(pa.float32()),
    pa.list_(pa.int32()),
]


@pytest.mark.parametrize("arrow", VECTORS, ids=str)
def test_vectors_come_in_every_shape(arrow: pa.DataType) -> None:
    vectors = [[1.0, 2.0], None, [3.0, -4.0]]
    declared, rows = column("Vector(2)?", pa.array(vectors, arrow))
    table = stored(declared, rows)
    assert table.schema == arrow_schema(declared)
    assert table["x"].to_pylist() == vectors


def test_doubles_of_a_vector_narrow() -> None:
    assert _values("Vector(1)", pa.array([[0.1]])) == [[float(np.float32(0.1))]]


def test_a_vector_has_its_length_and_finite_numbers() -> None:
    short = [[1.0, 2.0], [1.0], [], None, [1.0, 2.0, 3.0]]
    strange = [[1.0, math.nan], [math.inf, 1.0], [1e39, 0.0], [None, 1.0]]
    vectors = pa.array([*short, *strange])
    wrong, odd = sorted(refused(*column("Vector(2)?", vectors), batch_rows=9), reverse=True)
    assert wrong == "vector on node:T.x: the vector does not have 2 numbers: 'b', 'c', 'e'"
    assert odd.startswith("vector on node:T.x: a number of the vector is null, not finite")
    assert odd.endswith("'f', 'g', 'h', 'i'")


def test_vectors_of_another_fixed_length_are_refused() -> None:
    (violation,) = refused(*column("Vector(3)", pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))))
    assert violation == "vector on node:T.x: the vector does not have 3 numbers: 'a'"


def test_a_vector_may_be_null_only_where_it_may_be_missing() -> None:
    (violation,) = refused(*column("Vector(2)", pa.array([[1.0, 2.0], None])))
    assert violation == "required on node:T.x: the value is null: 'b'"


@given(
    st.lists(
        st.none()
        | st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3
        ),
        max_size=7,
    ),
    st.integers(0, 7),
)
def test_vectors_of_a_slice_are_those_of_the_slice(vectors: list[Any], start: int) -> None:
    start = min(start, len(vectors))
    for arrow in (pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.list_(pa.float64())):
        part = pa.array(vectors, arrow).slice(start)
        assert _values("Vector(3)?", part) == vectors[start:]


@pytest.mark.parametrize(
    "arrow", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)], ids=str
)
def test_bytes_become_blobs(arrow: pa.DataType) -> None:
    declared, rows = column("Blob?", pa.array([b"a", None, b"\0"], arrow))
    table = stored(declared, rows)
    assert table.schema.equals(arrow_schema(declared), check_metadata=True)
    assert table["x"].to_pylist() == [
        {"data": b"a", "uri": None},
        None,
        {"data": b"\0", "uri": None},
    ]


def test_an_empty_blob_is_not_a_missing_one() -> None:
    assert _values("Blob", pa.array([b""])) == [{"data": b"", "uri": None}]
    (violation,) = refused(*column("Blob", pa.array([b"", None])))
    assert violation == "required on node:T.x: the value is null: 'b'"


def test_text_is_an_address_when_that_is_allowed() -> None:
    texts = pa.array(["s3://bucket/a b", None, "file:///x/y"])
    assert refused(*column("Blob?", texts), allow_external_blobs=True)[0].endswith("'a'")
    good = pa.array(["s3://bucket/a%20b", None, "file:///x/y"])
    assert _values("Blob?", good, allow_external_blobs=True) == [
        {"data": None, "uri": "s3://bucket/a%20b"},
        None,
        {"data": None, "uri": "file:///x/y"},
    ]


def test_text_is_not_an_address_otherwise() -> None:
    with pytest.raises(SchemaMismatchError, match="text only as addresses"):
        taken(*column("Blob?", pa.array(["s3://bucket/name"])))


@pytest.mark.parametrize("address", ["", "/a/b", "name", "http://h/x", "s3:", "file://", "é:x"])
def test_what_the_engine_cannot_find_again_is_no_address(address: str) -> None:
    (violation,) = refused(*column("Blob?", pa.array([address])), allow_external_blobs=True)
    assert violation.startswith("blob on node:T.x: the address of the blob is not one such as")


def test_bytes_and_addresses_mix_as_they_are_stored() -> None:
    rows = [
        {"data": b"a", "uri": None},
        {"data": None, "uri": "s3://b/k"},
        {"data": None, "uri": None},
        None,
    ]
    mixed = pa.array(rows, BLOB)
    assert _values("Blob?", mixed, allow_external_blobs=True) == [rows[0], rows[1], None, None]
    (violation,) = refused(*column("Blob?", mixed))
    assert violation.endswith("which takes allowExternalBlobs: 'b'")
    assert _values("Blob?", mixed.filter(pa.array([True, False, True, True]))) == [
        rows[0],
        None,
        None,
    ]


def test_a_blob_with_two_contents_is_refused() -> None:
    both = pa.array([{"data": b"a", "uri": "s3://b/k"}], BLOB)
    (violation,) = refused(*column("Blob?", both), allow_external_blobs=True)
    assert violation == "blob on node:T.x: the blob has both bytes and an address: 'a'"


def test_lances_own_blob_arrays_are_taken() -> None:
    blobs = lance.blob_array([b"a", None, b"c"])
    assert blobs.type.extension_name == "lance.blob.v2"
    names = {field.name for field in blobs.type.storage_type}
    if names == {"data", "uri"}:
        assert [row and row["data"] for row in _values("Blob?", blobs)] == [b"a", None, b"c"]


def test_vectors_that_are_all_null_may_come_without_a_buffer_of_items() -> None:
    items = pa.Array.from_buffers(pa.float32(), 0, [None, None], 0)
    valid, offsets = pa.py_buffer(b"\0"), pa.py_buffer(bytes(12))
    rows = pa.ListArray.from_buffers(pa.list_(pa.float32()), 2, [valid, offsets], 2, 0, [items])
    assert _values("Vector(2)?", rows) == [None, None]
