"""Scanned batches become public rows: exact values, no copies where nothing changes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph_spark.arrow_rows import (
    batch_rows,
    public_schema,
    row_width_bytes,
    to_public,
)
from omnigraph_spark.blobs import Blobs
from omnigraph_spark.schema.columns import Column, columns_of
from omnigraph_spark.schema.model import PropertyType, Scalar
from tests.helpers.exported import exported_rows, lines
from tests.helpers.golden import Expected, by_type, unpack

EVERYTHING = "651f3a92741d9520"


def milliseconds(values: list[int | None]) -> pa.Array[Any]:
    return pa.array(values, pa.int64()).view(pa.date64())


def column(name: str, scalar: Scalar, **more: Any) -> Column:
    return Column(name, PropertyType(scalar, nullable=True, **more))


def test_every_type_of_the_language_equals_the_engine_s_export(tmp_path: Path) -> None:
    stored = lance.dataset(unpack("rich", tmp_path) / "nodes" / EVERYTHING)
    columns = columns_of(stored.schema, None)
    batches = [to_public(b, columns, Blobs.DESCRIPTOR) for b in stored.to_batches()]
    rows = exported_rows("node:Everything", pa.Table.from_batches(batches))
    expected = by_type(Expected("rich").export())["node:Everything"]
    assert lines(rows) == lines(expected)


def test_the_public_schema_states_types_and_nullability() -> None:
    columns = [
        Column("id", PropertyType(Scalar.STRING)),
        column("u", Scalar.U64),
        column("at", Scalar.DATETIME),
        column("ats", Scalar.DATETIME, list=True),
        column("v", Scalar.VECTOR, dimension=3),
        column("b", Scalar.BLOB),
    ]
    instant = pa.timestamp("ms", "UTC")
    descriptor = pa.struct(
        [pa.field("kind", pa.string()), pa.field("size", pa.int64()), pa.field("uri", pa.string())]
    )
    common = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("u", pa.uint64()),
        pa.field("at", instant),
        pa.field("ats", pa.list_(pa.field("item", instant))),
        pa.field("v", pa.list_(pa.field("item", pa.float32()), 3)),
    ]
    described = pa.schema([*common, pa.field("b", descriptor)])
    as_bytes = pa.schema([*common, pa.field("b", pa.binary())])
    assert public_schema(columns, Blobs.DESCRIPTOR).equals(described, check_metadata=True)
    assert public_schema(columns, Blobs.BYTES).equals(as_bytes, check_metadata=True)
    assert public_schema(columns, Blobs.NONE).equals(pa.schema(common), check_metadata=True)


def test_a_datetime_keeps_its_time_of_day_before_and_after_1970() -> None:
    batch = pa.record_batch({"at": milliseconds([1_700_000_000_123, -1, None, 0])})
    public = to_public(batch, [column("at", Scalar.DATETIME)], Blobs.NONE)
    assert public.column("at").to_pylist() == [
        dt.datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC),
        None,
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    ]


def test_a_datetime_may_be_any_number_of_milliseconds() -> None:
    extremes = [-(2**63), 2**63 - 1]
    batch = pa.record_batch({"at": milliseconds(list(extremes))})
    public = to_public(batch, [column("at", Scalar.DATETIME)], Blobs.NONE)
    assert public.column("at").cast(pa.int64()).to_pylist() == extremes


def test_a_slice_of_a_list_of_datetimes_keeps_its_own_rows() -> None:
    values = milliseconds([1, 2, 3, None])
    lists = pa.ListArray.from_arrays([0, 2, 2, 4], values, mask=pa.array([False, True, False]))
    batch = pa.record_batch({"ats": lists}).slice(1)
    public = to_public(batch, [column("ats", Scalar.DATETIME, list=True)], Blobs.NONE)
    third = dt.datetime(1970, 1, 1, 0, 0, 0, 3_000, tzinfo=dt.UTC)
    assert public.column("ats").to_pylist() == [None, [third, None]]


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (PropertyType(Scalar.STRING, True), pa.array(["a", None])),
        (PropertyType(Scalar.U64, True), pa.array([2**64 - 1, None], pa.uint64())),
        (PropertyType(Scalar.DATETIME, True), milliseconds([1, None])),
        (
            PropertyType(Scalar.VECTOR, True, dimension=2),
            pa.array([[0.1, 0.2], None], pa.list_(pa.float32(), 2)),
        ),
        (
            PropertyType(Scalar.F32, True, list=True),
            pa.array([[1.5], None], pa.list_(pa.float32())),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, PropertyType) else "",
)
def test_no_value_is_copied(kind: PropertyType, array: pa.Array[Any]) -> None:
    batch = pa.record_batch({"x": array})
    public = to_public(batch, [Column("x", kind)], Blobs.DESCRIPTOR)

    def addresses(of: pa.Array[Any]) -> list[int | None]:
        return [None if buffer is None else buffer.address for buffer in of.buffers()]

    assert addresses(public.column("x")) == addresses(array)


def test_columns_come_out_in_the_order_asked_and_others_are_dropped() -> None:
    batch = pa.record_batch({"a": [1, 2], "_rowid": [7, 8], "b": ["x", "y"]})
    asked = [column("b", Scalar.STRING), column("a", Scalar.I64)]
    assert to_public(batch, asked, Blobs.DESCRIPTOR).to_pydict() == {"b": ["x", "y"], "a": [1, 2]}


def test_a_projection_without_columns_keeps_the_row_count() -> None:
    public = to_public(pa.record_batch({"_rowid": [7, 8, 9]}), [], Blobs.DESCRIPTOR)
    assert (public.num_rows, public.num_columns) == (3, 0)


def test_batches_of_narrow_rows_are_long_and_batches_of_wide_rows_short() -> None:
    narrow, text = [column("b", Scalar.BOOL)], [column("s", Scalar.STRING)]
    wide = [column("v", Scalar.VECTOR, dimension=1536)]
    assert batch_rows(narrow) == 262_144
    assert batch_rows(text) == 2 * 1024 * 1024 // row_width_bytes(text[0])
    assert batch_rows(wide) == 8_192
    assert batch_rows([]) == 262_144


def test_blobs_count_as_descriptors_until_their_sizes_are_known() -> None:
    blobs = [column("b", Scalar.BLOB)]
    assert batch_rows(blobs, Blobs.BYTES) == batch_rows(blobs, Blobs.DESCRIPTOR) == 43_690
    assert batch_rows(blobs, Blobs.NONE) == 262_144


@pytest.mark.parametrize("scalar", list(Scalar))
def test_every_type_has_a_width(scalar: Scalar) -> None:
    assert row_width_bytes(column("x", scalar, dimension=3)) > 0
    assert row_width_bytes(column("x", scalar, dimension=3), Blobs.BYTES) > 0
