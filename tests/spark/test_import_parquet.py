"""`graph.import_parquet` with a session: tasks read the files and stage their rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark import importing
from omnigraph_spark.errors import ColumnNotFoundError, ConstraintViolationError
from omnigraph_spark.storage import parquet_files
from tests.helpers.files import data_files

SCHEMA = "node Person { name: String @key  age: I32?  @range(age, 0..200) }"
FILES, ROWS = 3, 40


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "LARGE_BYTES", 1)
    monkeypatch.setattr(parquet_files, "_LEAST_BYTES", 1)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    for number in range(FILES):
        write(folder, number)
    return folder


@pytest.fixture
def graph(tmp_path: Path, spark: SparkSession) -> og.Graph:
    return og.create(tmp_path / "graph", SCHEMA, spark=spark)


def write(folder: Path, number: int, age: int = 7, column: str = "age") -> None:
    names = [f"p{number}-{row}" for row in range(ROWS)]
    ages = pa.array([age] * ROWS, pa.int32())
    rows = pa.table({"name": names, column: ages})
    pq.write_table(rows, folder / f"part-{number}.parquet", row_group_size=ROWS // 2)


def test_tasks_read_the_files_and_it_is_one_commit(
    graph: og.Graph, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_stage_here", lambda *_: pytest.fail("read in this process"))
    commit = graph.import_parquet(lake, "Person")
    assert commit is not None
    assert commit.changes["node:Person"].inserted == FILES * ROWS
    monkeypatch.setattr(parquet_files, "PART_BYTES", 1)
    write(lake, 1, age=9)
    again = graph.import_parquet(lake / "part-1.parquet", "Person", mode="merge")
    assert again is not None
    assert again.changes["node:Person"].updated == ROWS
    rows = graph.refresh().snapshot().arrow("Person")
    assert sorted(set(rows.column("age").to_pylist())) == [7, 9]


def test_rows_that_break_a_rule_refuse_all_files_and_leave_none(
    graph: og.Graph, lake: Path
) -> None:
    write(lake, 9, age=-1)
    with pytest.raises(ConstraintViolationError, match="p9-0"):
        graph.import_parquet(lake, "Person")
    assert graph.refresh().snapshot().arrow("Person").num_rows == 0
    assert data_files(graph, "node:Person") == set()


def test_columns_that_do_not_fit_are_named_before_a_task_runs(graph: og.Graph, lake: Path) -> None:
    write(lake, 0, column="agee")
    with pytest.raises(ColumnNotFoundError, match="agee"):
        graph.import_parquet(lake, "Person")


def test_a_file_that_cannot_be_read_leaves_none_of_the_others(graph: og.Graph, lake: Path) -> None:
    (lake / "part-9.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises((PySparkException, Py4JJavaError), match=r"part-9\.parquet"):
        graph.import_parquet(lake, "Person")
    assert data_files(graph, "node:Person") == set()
