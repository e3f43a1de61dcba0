"""Staged files: written as they come, read back exactly, thrown away whole."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph_spark.errors import StorageError
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.fence import AppendChange
from omnigraph_spark.storage.rewriting import discard_change
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import (
    DatasetExistsError,
    StagedFile,
    create_dataset,
    discard,
    open_staged,
    read_staged,
    stage_batches,
)
from tests.helpers.rows import table_of
from tests.helpers.s3 import S3Server
from tests.helpers.strict import LOCAL, PEOPLE, Strict, at_once, people

EVERY_TYPE = parse_schema("""
node Thing {
    slug: String @key
    flag: Bool?
    small: I32?
    large: I64?
    natural: U32?
    huge: U64?
    single: F32?
    double: F64?
    day: Date?
    time: DateTime?
    colour: enum(red, blue)?
    vector: Vector(2)?
    payload: Blob?
    extra: Blob?
    words: [String]?
    times: [DateTime]?
    flags: [Bool]?
}
""").nodes[0]
THINGS = [
    {
        "slug": "full",
        "flag": True,
        "small": -(2**31),
        "large": 2**63 - 1,
        "natural": 2**32 - 1,
        "huge": 2**64 - 1,
        "single": 0.1,
        "double": 1e300,
        "day": dt.date(1969, 12, 31),
        "time": dt.datetime(2026, 6, 11, 12, 34, 56, 789_000, tzinfo=dt.UTC),
        "colour": "red",
        "vector": [0.5, -1.5],
        "payload": b"\x00\xff",
        "extra": b"x" * 100_000,
        "words": ["a", None, ""],
        "times": [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC), None],
        "flags": [True, False],
    },
    {"slug": "empty", "payload": b"", "words": [], "times": [], "flags": []},
    {"slug": "null"},
]


def things(first: bytes = b"first") -> pa.Table:
    """Rows of every type, the values at the edges, blobs of every storage kind."""
    table = table_of(EVERY_TYPE, [{"slug": "first", "payload": first}, *THINGS])
    at = table.schema.get_field_index("extra")
    blobs = table.column(at).to_pylist()
    blobs[0] = {"data": None, "uri": "file:///nowhere/photo.jpg"}
    blobs[2] = {"data": b"y" * 5_000_000, "uri": None}
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array(blobs, field.type))


def plain(rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> list[dict[str, Any]]:
    """Values that compare exactly: Python has no date64 with a time of day."""
    numbers = pa.schema(
        [
            field.with_type(pa.int64())
            if field.type == pa.date64()
            else field.with_type(pa.list_(pa.int64()))
            if field.type == pa.list_(pa.date64())
            else field
            for field in schema
        ]
    )
    return pa.Table.from_batches(list(rows)).cast(schema).cast(numbers).to_pylist()


@pytest.fixture
def data(tmp_path: Path) -> Strict:
    return Strict.create(tmp_path / "g")


@pytest.fixture
def typed(tmp_path: Path) -> Strict:
    return Strict.create(tmp_path / "things", schema=arrow_schema(EVERY_TYPE))


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [b"first", b""], ids=["bytes first", "an empty blob first"])
def test_every_type_of_value_is_read_back_before_and_after_the_commit(
    typed: Strict, first: bytes
) -> None:
    table = things(first)
    files = typed.stage(*table.to_batches(max_chunksize=2), max_rows=3)

    columns = table.column_names
    read = read_staged(typed.address, files, columns, typed.settings, blobs=True)

    expected = plain(table.to_batches(), table.schema)
    assert plain(read, table.schema) == expected
    assert [file.rows for file in files] == [3, 1]
    typed.commit(1, AppendChange(files))
    others = [name for name in columns if name not in ("payload", "extra")]
    after = typed.table(2, *others).cast(table.select(others).schema)
    assert plain(after.to_batches(), after.schema) == [
        {name: row[name] for name in others} for row in expected
    ]
    blobs = lance.dataset(typed.address.uri).read_blobs("payload", indices=[0, 1, 2, 3])
    assert [content for _, content in blobs] == [first, b"\x00\xff", b"", None]


def test_without_blobs_a_blob_column_gives_descriptors(typed: Strict) -> None:
    files = typed.stage(*things().to_batches())

    [batch] = read_staged(typed.address, files, ["extra", "id"], typed.settings)

    assert batch.schema.names == ["extra", "id"]
    kinds = [row and (row["kind"], row["size"]) for row in batch.column("extra").to_pylist()]
    # External, packed beside the file, a file of its own, null.
    assert kinds == [(3, 0), (1, 100_000), (2, 5_000_000), None]


@pytest.mark.parametrize("columns", [["age"], ["age", "id"], ["id"]])
def test_chosen_columns_come_in_the_order_asked_for_and_rows_in_the_order_given(
    data: Strict, columns: list[str]
) -> None:
    batches = [people(f"{n:02}", f"{n:02}x", age=n) for n in range(20)]
    files = data.stage(*batches, max_rows=7)

    read = pa.Table.from_batches(
        list(read_staged(data.address, files, columns, data.settings)),
    )

    assert read.column_names == columns
    assert read.equals(pa.Table.from_batches(batches).select(columns))


def test_a_staged_file_is_plain_text_and_numbers(data: Strict) -> None:
    [file] = data.stage(people("a", "b"))

    assert pickle.loads(pickle.dumps(file)) == file
    assert StagedFile(**json.loads(json.dumps(vars(file)))) == file
    assert [type(value) for value in vars(file).values()] == [str, str, int, int]
    assert file.size_bytes == (data.folder / "data" / file.path).stat().st_size


def test_rows_of_another_schema_are_staged_as_given_and_read_back(typed: Strict) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int8())])
    rows = pa.record_batch([pa.array(["a"]), pa.array([1], pa.int8())], schema=schema)
    other = Strict(typed.address, schema=schema)

    files = other.stage(rows, as_given=True)

    assert list(read_staged(typed.address, files, ["id", "n"], LOCAL)) == [rows]
    with pytest.raises(StorageError, match="different schema"):
        other.stage(rows)


def test_rows_this_process_has_just_staged_are_filtered_too(data: Strict) -> None:
    files = data.stage(people("a", age=1), people("b", age=2))

    [batch] = read_staged(data.address, files, ["id"], data.settings, where="age > 1")

    assert batch.column("id").to_pylist() == ["b"]


def test_staged_files_are_filtered_as_a_dataset_is(data: Strict) -> None:
    files = data.stage(people("a", age=1), people("b", age=2), max_rows=1)

    staged = open_staged(data.address, files, data.settings)

    [batch] = staged.batches([0, 1], ["id"], filter="age > 1")
    assert batch.to_pylist() == [{"id": "b"}]


def test_columns_are_found_by_place_where_a_dataset_gave_them_other_ids(data: Strict) -> None:
    data.append(1, "a", age=1)
    dataset = lance.dataset(data.address.uri)
    dataset.drop_columns(["age"])
    dataset.add_columns({"age": "cast(7 as bigint)"})

    files = data.stage(people("b", age=2))

    [batch] = read_staged(data.address, files, ["id", "age"], data.settings)
    assert batch.to_pylist() == [{"id": "b", "age": 2}]


def test_rows_that_spell_their_columns_otherwise_are_cast(data: Strict) -> None:
    spark = pa.record_batch({"age": pa.array([1], pa.int32()), "id": pa.array(["a"])})

    files = data.stage(spark)

    [batch] = read_staged(data.address, files, ["id", "age"], data.settings)
    assert batch.equals(people("a", age=1))


# -- sizes ---------------------------------------------------------------------------------------


def many(rows: int, per_batch: int, random_bytes: int = 0) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, per_batch):
        numbers = range(start, min(start + per_batch, rows))
        ids = pa.array([f"{number}{os.urandom(random_bytes).hex()}" for number in numbers])
        yield pa.record_batch([ids, pa.array(numbers, pa.int64())], schema=PEOPLE)


@pytest.mark.parametrize("per_batch", [7, 8192, 50_000])
def test_files_have_the_same_size_whatever_the_batches(data: Strict, per_batch: int) -> None:
    files = data.stage(*many(50_000, per_batch), max_rows=20_000)

    assert [file.rows for file in files] == [20_000, 20_000, 10_000]


@pytest.mark.parametrize("per_batch", [100, 10_000])
def test_a_file_ends_when_it_has_the_bytes(data: Strict, per_batch: int) -> None:
    megabyte = 1 << 20
    rows = many(10_000, per_batch, random_bytes=1024)

    files = stage_batches(data.address, rows, PEOPLE, LOCAL, 1 << 20, 4 * megabyte)

    assert len(files) > 1
    # A portion of 8 MiB beyond the limit, at most.
    assert all(4 * megabyte < file.size_bytes < 13 * megabyte for file in files[:-1])
    assert sum(file.rows for file in files) == 10_000


def test_no_rows_make_no_files(data: Strict) -> None:
    before = data.files()

    assert data.stage() == ()
    assert data.stage(people()) == ()
    assert list(read_staged(data.address, [], ["id"], LOCAL)) == []
    assert data.files() == before


def test_rows_pass_through_without_being_gathered(data: Strict) -> None:
    peak = 0

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal peak
        text = "x" * 1000
        for _ in range(100):
            yield people(*[text] * 2000)
            peak = max(peak, pa.total_allocated_bytes() - before)

    before = pa.total_allocated_bytes()
    stage_batches(data.address, watched(), PEOPLE, LOCAL, 1 << 20, 1 << 30)

    # 200 MB went through.
    assert peak < 64 << 20


# -- failures ------------------------------------------------------------------------------------


class SourceError(Exception):
    """What the source of rows raises."""


def test_a_source_that_fails_raises_its_own_error_and_leaves_no_file(typed: Strict) -> None:
    before = typed.files()

    def failing() -> Iterator[pa.RecordBatch]:
        yield from things().to_batches(max_chunksize=1)
        yield from things().to_batches()
        raise SourceError("row 9 is bad")

    with pytest.raises(SourceError, match="row 9 is bad"):
        stage_batches(typed.address, failing(), typed.schema, LOCAL, 2, 1 << 20)

    assert typed.files() == before


def test_rows_that_lance_refuses_leave_no_file(data: Strict) -> None:
    before = data.files()
    nulls = pa.record_batch([pa.array([None], pa.string()), pa.array([1])], ["id", "age"])

    with pytest.raises((StorageError, pa.ArrowInvalid, ValueError)):
        data.stage(*many(20_000, 5_000), nulls, max_rows=6_000)

    assert data.files() == before


STAGE_AND_DIE = """
import os, signal, sys
from tests.helpers.strict import LOCAL, PEOPLE, DatasetAddress, people
from omnigraph_spark.storage.staging import stage_batches

def rows():
    for number in range(40):
        yield people(*[f"{number}-{row}" for row in range(9000)])
    os.kill(os.getpid(), signal.SIGKILL)

stage_batches(DatasetAddress(sys.argv[1], "nodes/p"), rows(), PEOPLE, LOCAL, 50_000, 1 << 30)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_only_files_that_nobody_names(data: Strict) -> None:
    data.append(1, "a")
    before = data.files()
    done = subprocess.run(
        [sys.executable, "-c", STAGE_AND_DIE, data.address.root],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )

    assert done.returncode == -signal.SIGKILL
    left = data.files() - before
    assert left
    assert all(name.startswith("data/") for name in left)
    assert data.append(2, "b").number == 3
    assert data.ids(3) == ["a", "b"]


# -- throwing away -------------------------------------------------------------------------------


def test_discarded_files_go_with_their_blobs_and_twice_is_fine(typed: Strict) -> None:
    kept = typed.stage(*things().to_batches())
    before = typed.files()
    files = typed.stage(*things().to_batches(), max_rows=2)
    assert len(typed.files() - before) > len(files)

    discard(typed.address, files, typed.settings)
    discard(typed.address, files, typed.settings)

    assert typed.files() == before
    discard_change(typed.address, AppendChange(kept), typed.settings)
    assert not any(name.startswith("data/") for name in typed.files())


def test_on_s3_and_on_a_branch_files_are_staged_read_and_discarded(s3: S3Server) -> None:
    bucket = s3.make_bucket()
    settings = StorageSettings.resolve(s3.storage_options, {})
    data = Strict.create(f"s3://{bucket}/g", settings, arrow_schema(EVERY_TYPE))
    table = things()

    def keys() -> set[str]:
        listed = s3.client().list_objects_v2(Bucket=bucket)["Contents"]
        return {found["Key"] for found in listed}

    for own in (data, data.fork("team/x", 1)):
        before = keys()
        files = own.stage(*table.to_batches())
        columns = table.column_names
        read = read_staged(own.address, files, columns, settings, blobs=True)
        assert plain(read, table.schema) == plain(table.to_batches(), table.schema)
        folder = "g/nodes/p/tree/team/x/data/" if own.address.branch else "g/nodes/p/data/"
        assert all(key.startswith(folder) for key in keys() - before)
        assert len(keys() - before) == 3, "the file and two blobs beside it"
        discard(own.address, files, settings)
        assert keys() == before


# -- new datasets --------------------------------------------------------------------------------


def test_a_new_dataset_is_empty_and_as_the_engine_makes_it(tmp_path: Path) -> None:
    address = DatasetAddress(str(tmp_path / "g"), "nodes/p")
    schema = arrow_schema(EVERY_TYPE)

    landed = create_dataset(address, schema, LOCAL)

    reference = lance.write_dataset(
        schema.empty_table(),
        str(tmp_path / "reference"),
        data_storage_version="2.2",
        enable_stable_row_ids=True,
    )
    made = lance.dataset(address.uri)
    assert landed.number == made.version == 1
    assert made.count_rows() == 0
    assert made.data_storage_version == "2.2"
    assert made.has_stable_row_ids
    assert made.schema == reference.schema
    assert made.config() == {}
    assert str(made.lance_schema) == str(reference.lance_schema)


def test_an_existing_dataset_is_refused_and_left_alone(data: Strict) -> None:
    data.append(1, "a")
    before = data.files()

    with pytest.raises(DatasetExistsError, match="there is a dataset at"):
        create_dataset(data.address, PEOPLE, data.settings)

    assert data.ids(2) == ["a"]
    assert {name for name in data.files() - before if "_versions" in name} == set()


@pytest.mark.parametrize("where", ["disk", "s3"])
def test_of_four_that_create_a_dataset_one_does(where: str, tmp_path: Path, s3: S3Server) -> None:
    on_s3 = where == "s3"
    settings = StorageSettings.resolve(s3.storage_options, {}) if on_s3 else LOCAL
    root = f"s3://{s3.make_bucket()}/g" if on_s3 else str(tmp_path / "g")

    for number in range(4 if on_s3 else 15):
        address = DatasetAddress(root, f"nodes/{number}")

        def create(address: DatasetAddress = address) -> bool:
            try:
                return create_dataset(address, PEOPLE, settings).number == 1
            except DatasetExistsError:
                return False

        assert sum(at_once([create] * 4)) == 1
