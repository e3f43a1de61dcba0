"""Blobs: the null rule of the format, descriptors and bytes that agree, batches with a bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph_spark.arrow_rows import public_schema, to_public
from omnigraph_spark.blobs import BlobFacts, Blobs, refuse_blobs_in, scanner_blob_handling
from omnigraph_spark.errors import InvalidFilterError, UnsupportedError
from omnigraph_spark.schema.columns import Column, columns_of
from omnigraph_spark.schema.model import PropertyType, Scalar
from tests.helpers.golden import unpack

BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
Row = dict[str, Any] | None


def inline(data: bytes) -> Row:
    return {"data": data, "uri": None}


def write(path: Path, rows: list[Row], nullable: bool = True) -> lance.LanceDataset:
    extension = {"ARROW:extension:name": "lance.blob.v2"}
    schema = pa.schema([pa.field("n", pa.int64()), pa.field("blob", BLOB, nullable, extension)])
    table = pa.Table.from_arrays([pa.array(range(len(rows))), pa.array(rows, BLOB)], schema=schema)
    return lance.write_dataset(
        table, path, data_storage_version="2.2", allow_external_blob_outside_bases=True
    )


def described(dataset: lance.LanceDataset, **scan: Any) -> list[Any]:
    columns = columns_of(dataset.schema, None)
    handling = scanner_blob_handling(Blobs.DESCRIPTOR)
    table = dataset.scanner(blob_handling=handling, **scan).to_table()
    batches = [to_public(batch, columns, Blobs.DESCRIPTOR) for batch in table.to_batches()]
    schema = public_schema(columns, Blobs.DESCRIPTOR)
    return pa.Table.from_batches(batches, schema).column(_blob_name(columns)).to_pylist()


def as_bytes(dataset: lance.LanceDataset, **scan: Any) -> list[bytes | None]:
    """Both scans of a read as bytes, matched by place."""
    columns = columns_of(dataset.schema, None)
    name = _blob_name(columns)
    facts = BlobFacts.of(dataset.scanner(columns=[name], **scan).to_batches(), columns)
    values: list[bytes | None] = []
    handling = scanner_blob_handling(Blobs.BYTES)
    for batch in dataset.scanner(blob_handling=handling, **scan).to_batches():
        nulls = {name: facts.nulls(name, len(values), batch.num_rows)}
        values += to_public(batch, columns, Blobs.BYTES, nulls).column(name).to_pylist()
    return values


def _blob_name(columns: tuple[Column, ...]) -> str:
    return next(column.name for column in columns if column.type.scalar is Scalar.BLOB)


def test_the_engine_s_null_is_null_though_its_struct_is_not(tmp_path: Path) -> None:
    docs = lance.dataset(unpack("rich", tmp_path) / "nodes" / "e0b75f19922bd915")
    scanned = docs.scanner(columns=["payload"]).to_table().column("payload")
    assert scanned.null_count == 0, "the rule is only needed while this holds"
    assert described(docs) == [
        {"kind": "inline", "size": 7, "uri": None},
        None,
        {"kind": "inline", "size": 11, "uri": None},
    ]
    assert as_bytes(docs) == [b"\x00\x01\x02\x03\x04\x05\xff", None, b"hello world"]


def test_every_kind_of_blob_is_described_and_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"outside")
    small, packed, dedicated = b"abc", b"p" * 200_000, b"d" * 5_000_000
    rows = [inline(small), inline(packed), inline(dedicated), None]
    dataset = write(tmp_path / "blobs", [*rows, {"data": None, "uri": outside.as_uri()}])
    assert described(dataset) == [
        {"kind": "inline", "size": 3, "uri": None},
        {"kind": "packed", "size": 200_000, "uri": None},
        {"kind": "dedicated", "size": 5_000_000, "uri": None},
        None,
        {"kind": "external", "size": None, "uri": outside.as_uri()},
    ]
    assert as_bytes(dataset) == [small, packed, dedicated, None, b"outside"]


def test_an_empty_blob_is_not_null_once_something_precedes_it(tmp_path: Path) -> None:
    dataset = write(tmp_path / "blobs", [inline(b"x"), inline(b""), None])
    empty = {"kind": "inline", "size": 0, "uri": None}
    assert described(dataset)[1:] == [empty, None]
    assert as_bytes(dataset) == [b"x", b"", None]


def test_an_empty_blob_first_in_its_file_reads_as_null_as_the_engine_exports_it(
    tmp_path: Path,
) -> None:
    dataset = write(tmp_path / "blobs", [inline(b""), inline(b"x")])
    assert described(dataset)[0] is None
    assert as_bytes(dataset) == [None, b"x"]


def test_a_required_blob_is_empty_where_a_nullable_one_would_be_null(tmp_path: Path) -> None:
    dataset = write(tmp_path / "blobs", [inline(b""), inline(b"x")], nullable=False)
    assert described(dataset)[0] == {"kind": "inline", "size": 0, "uri": None}
    assert as_bytes(dataset) == [b"", b"x"]


def test_nulls_are_matched_by_place_though_batches_end_elsewhere(tmp_path: Path) -> None:
    rows = [None if n % 7 == 0 else inline(b"%d" % n if n % 5 else b"") for n in range(1, 3_001)]
    dataset = write(tmp_path / "blobs", rows)
    for scan in ({"batch_size": 16}, {"batch_size": 16, "filter": "n % 3 = 0"}):
        descriptors = described(dataset, **scan)
        values = as_bytes(dataset, **scan)
        assert [value is None for value in values] == [d is None for d in descriptors]
        assert [len(v) for v in values if v is not None] == [d["size"] for d in descriptors if d]
        assert None in values
        assert b"" in values


def test_lance_s_filter_does_not_know_the_engine_s_nulls(tmp_path: Path) -> None:
    docs = lance.dataset(unpack("rich", tmp_path) / "nodes" / "e0b75f19922bd915")
    assert docs.count_rows("payload is null") == 0


@pytest.mark.parametrize(
    "where",
    [
        "photo is null",
        "age > 1 and PHOTO is not null",
        "not (`photo` is null)",
        "name = 'it''s' or photo = x",
    ],
)
def test_a_filter_on_a_blob_is_refused(where: str) -> None:
    columns = [Column("photo", PropertyType(Scalar.BLOB, True))]
    with pytest.raises(InvalidFilterError, match="'photo' is a Blob column"):
        refuse_blobs_in(where, columns)


@pytest.mark.parametrize(
    "where",
    ["name = 'photo'", "name = 'it''s photo'", "photos > 1", "my_photo > 1", "`Photo` > 1"],
)
def test_a_filter_on_other_columns_is_not(where: str) -> None:
    columns = [
        Column("photo", PropertyType(Scalar.BLOB, True)),
        Column("photos", PropertyType(Scalar.I32)),
    ]
    refuse_blobs_in(where, columns)


def test_a_batch_of_bytes_is_sized_by_the_blobs_it_holds(tmp_path: Path) -> None:
    columns = (Column("blob", PropertyType(Scalar.BLOB, nullable=True)),)

    def rows_for(name: str, rows: list[Row]) -> int:
        dataset = write(tmp_path / name, rows)
        return BlobFacts.of(dataset.scanner(columns=["blob"]).to_batches(), columns).batch_rows()

    assert rows_for("none", [None, None]) == 8_192
    assert rows_for("thumbnails", [inline(b"x" * 1_000)] * 10) == 8_192
    assert rows_for("photos", [inline(b"x" * (1 << 20))] * 4) == 16
    assert rows_for("film", [inline(b"x" * (40 << 20)), *[None] * 999]) == 6
    assert rows_for("elsewhere", [{"data": None, "uri": "file:///nowhere"}]) == 16


def test_facts_of_an_empty_scan_or_no_blob_column_are_empty() -> None:
    nothing = BlobFacts.of([], ())
    assert (nothing.rows, nothing.batch_rows()) == (0, 8_192)
    assert len(nothing.nulls("blob", 0, 0)) == 0


def test_rows_beyond_the_facts_are_an_error_not_a_guess() -> None:
    with pytest.raises(IndexError, match="of 0 in 'blob'"):
        BlobFacts().nulls("blob", 0, 1)


def test_more_bytes_than_a_spark_column_can_hold_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("omnigraph_spark.blobs._ARROW_BINARY_LIMIT", 10)
    batch = pa.record_batch({"b": pa.array([b"x" * 20], pa.large_binary())})
    nulls = {"b": pc.is_null(batch.column("b"))}
    with pytest.raises(UnsupportedError, match="batchSize"):
        to_public(batch, [Column("b", PropertyType(Scalar.BLOB, True))], Blobs.BYTES, nulls)
