"""`graph.import_parquet`: files read where they are staged, with all the rules of a write."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    ColumnNotFoundError,
    ConstraintViolationError,
    InvalidOptionError,
    KeyConflictError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.storage import parquet_files
from omnigraph_spark.storage.parquet_files import parquet_parts
from omnigraph_spark.storage.settings import StorageSettings
from tests.engine.writing import ages, assert_whole, data_files, edges, people
from tests.helpers.s3 import S3Server

PEOPLE = {"Ann": 30, "Bob": 41, "Cid": None}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder of two files, with what Spark leaves beside them."""
    folder = tmp_path / "lake"
    folder.mkdir()
    pq.write_table(people(Dan=1, Eve=2), folder / "part-1.parquet")
    pq.write_table(people(Fay=3), folder / "part-2.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".part-1.parquet.crc").write_bytes(b"crc")
    return folder


@pytest.mark.parametrize("place", ["", "*.parquet", "part-?.parquet", "../**/part-*"])
def test_a_folder_or_pattern_is_one_commit(graph: og.Graph, lake: Path, place: str) -> None:
    commit = graph.import_parquet(f"{lake}/{place}".rstrip("/"), type="Person")
    assert commit is not None
    assert commit.changes["node:Person"].inserted == 3
    assert ages(graph) == PEOPLE | {"Dan": 1, "Eve": 2, "Fay": 3}
    assert_whole(graph)


def test_one_file_is_merged_and_others_stay(graph: og.Graph, lake: Path) -> None:
    pq.write_table(people(Ann=99, Dan=7), lake / "part-2.parquet")
    graph.import_parquet(lake / "part-2.parquet", "Person", mode="merge", actor="max")
    assert ages(graph) == PEOPLE | {"Ann": 99, "Dan": 7}
    assert graph.history()[0].actor == "max"


def test_files_and_other_rows_are_one_transaction(graph: og.Graph, lake: Path) -> None:
    before = len(graph.history())
    with graph.transaction() as tx:
        tx.import_parquet("Person", lake)
        tx.append("Knows", edges(k9="Ann-Dan"))
    assert len(graph.refresh().history()) == before + 1


def test_rows_that_break_a_rule_refuse_all_files(graph: og.Graph, lake: Path) -> None:
    pq.write_table(people(Gus=-1), lake / "part-3.parquet")
    before = data_files(Path(graph.root))
    with pytest.raises(ConstraintViolationError, match="Gus"):
        graph.import_parquet(lake, "Person")
    pq.write_table(people(Ann=1), lake / "part-3.parquet")
    with pytest.raises(KeyConflictError, match="Ann"):
        graph.import_parquet(lake, "Person")
    assert ages(graph) == PEOPLE
    assert data_files(Path(graph.root)) == before


def test_columns_that_do_not_fit_are_named(graph: og.Graph, lake: Path) -> None:
    pq.write_table(pa.table({"name": ["x"], "agee": [1]}), lake / "part-1.parquet")
    with pytest.raises(ColumnNotFoundError, match="agee"):
        graph.import_parquet(lake, "Person")


def test_files_without_rows_are_no_commit(graph: og.Graph, tmp_path: Path) -> None:
    pq.write_table(people().slice(0, 0), tmp_path / "none.parquet")
    assert graph.import_parquet(tmp_path / "none.parquet", "Person") is None


def test_what_is_no_parquet_file_is_named(graph: og.Graph, lake: Path) -> None:
    with pytest.raises(InvalidOptionError, match="nowhere"):
        graph.import_parquet(lake / "nowhere", "Person")
    (lake / "readme.txt").write_text("no")
    with pytest.raises(StorageError, match=r"readme\.txt"):
        graph.import_parquet(lake, "Person")
    assert ages(graph) == PEOPLE


def test_values_in_the_names_of_folders_are_not_lost_silently(graph: og.Graph, lake: Path) -> None:
    (lake / "city=Berlin").mkdir()
    pq.write_table(people(Gus=1), lake / "city=Berlin" / "part.parquet")
    with pytest.raises(UnsupportedError, match=r"spark\.read\.parquet"):
        graph.import_parquet(lake, "Person")


def test_types_that_parquet_tools_write_are_taken(tmp_path: Path) -> None:
    """INT96 times as Spark writes them, dictionaries and large texts as pandas and polars do."""
    columns = "kind: String? at: DateTime? v: Vector(2)? tags: [String]?"
    graph = og.create(tmp_path / "g", f"node T {{ name: String @key {columns} }}")
    at = dt.datetime(2026, 5, 1, 12, 30, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "name": pa.array(["a", "b"], pa.large_string()),
            "kind": pa.array(["x", None]).dictionary_encode(),
            "at": pa.array([at, None], pa.timestamp("us", "UTC")),
            "v": pa.array([[1.0, 2.0], None], pa.list_(pa.float64())),
            "tags": pa.array([["p", "q"], []], pa.large_list(pa.string())),
        }
    )
    pq.write_table(rows, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    graph.import_parquet(tmp_path / "t.parquet", "T")
    found = {row["id"]: row for row in graph.snapshot().arrow("T").to_pylist()}
    assert found["a"]["at"] == at
    assert (found["a"]["kind"], found["a"]["v"]) == ("x", [1.0, 2.0])
    assert (found["b"]["tags"], found["b"]["kind"]) == ([], None)


def test_a_large_file_is_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = pa.table({"name": [f"n{number}" for number in range(1000)]})
    pq.write_table(names, tmp_path / "a.parquet", row_group_size=100)
    size = (tmp_path / "a.parquet").stat().st_size
    monkeypatch.setattr(parquet_files, "PART_BYTES", size // 3)
    parts = parquet_parts(str(tmp_path), StorageSettings())
    assert len(parts) >= 3
    groups = [number for part in parts for number in part.row_groups or ()]
    assert groups == list(range(10))
    read = [name for part in parts for b in part.batches() for name in b.column(0).to_pylist()]
    assert read == names.column("name").to_pylist()


def test_files_are_read_from_s3(s3: S3Server, graph: og.Graph, lake: Path) -> None:
    uri = s3.upload(lake, f"s3://{s3.make_bucket()}/lake/people")
    own = og.open(graph.root, storage=s3.storage_options)
    own.import_parquet(uri.replace("s3://", "s3a://"), "Person")
    assert ages(own) == PEOPLE | {"Dan": 1, "Eve": 2, "Fay": 3}
    own.import_parquet(f"{uri}/part-[2].parquet", "Person", mode="merge")
    with pytest.raises(InvalidOptionError):
        own.import_parquet(f"{uri}/*.csv", "Person")
