"""Delta tables into graphs: all rows once, then what the change data feed says, exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark.errors import InvalidOptionError, UnsupportedError
from tests.lakehouse.tables import graph_ages


@pytest.fixture
def table(tmp_path: Path, spark: SparkSession) -> str:
    """A table of persons with a change data feed; cy is among those of the graph."""
    path = f"{tmp_path}/people"
    rows = spark.createDataFrame([("cy", 5), ("dee", 6), ("eve", 7)], "name string, age int")
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    return path


def test_a_table_is_taken_in_once_and_then_by_what_changed(
    graph: og.Graph, table: str, spark: SparkSession
) -> None:
    first = graph.ingest_delta(table, "Person")
    assert first is not None
    assert graph_ages(graph) == {"ada": 36, "bob": 41, "cy": 5, "dee": 6, "eve": 7}
    # Repeated, also by another process that knows nothing: the same commit, and no other.
    again = og.open(graph.root, spark=spark).ingest_delta(table, "Person")
    assert again is not None
    assert again.id == first.id
    assert graph.refresh().history(1)[0].id == first.id

    spark.sql(f"UPDATE delta.`{table}` SET age = age + 10 WHERE name <> 'eve'").collect()
    spark.sql(f"DELETE FROM delta.`{table}` WHERE name = 'cy'").collect()
    spark.sql(f"INSERT INTO delta.`{table}` VALUES ('flo', 8)").collect()
    spark.sql(f"OPTIMIZE delta.`{table}`").collect()
    second = graph.ingest_delta(table, "Person", actor="etl")
    assert second is not None
    assert graph_ages(graph) == {"ada": 36, "bob": 41, "dee": 16, "eve": 7, "flo": 8}
    # One commit; only what changed was written; cy took its edge along.
    assert (second.parent_id, second.actor) == (first.id, "etl")
    person = second.changes["node:Person"]
    assert (person.inserted, person.updated, person.deleted) == (1, 1, 1)
    assert graph.snapshot().rows("Knows") == 1
    assert graph.ingest_delta(table, "Person") == second


def test_a_key_that_was_renamed_moves_the_row(
    graph: og.Graph, table: str, spark: SparkSession
) -> None:
    graph.ingest_delta(table, "Person")
    spark.sql(f"UPDATE delta.`{table}` SET name = 'deedee' WHERE name = 'dee'").collect()
    graph.ingest_delta(table, "Person")
    assert graph_ages(graph) == {"ada": 36, "bob": 41, "cy": 5, "deedee": 6, "eve": 7}


def test_branches_take_a_table_in_on_their_own(
    graph: og.Graph, table: str, spark: SparkSession
) -> None:
    graph.create_branch("dev")
    graph.ingest_delta(table, "Person", branch="dev")
    assert "dee" not in graph_ages(graph)
    assert graph_ages(graph.as_branch("dev"))["dee"] == 6
    graph.ingest_delta(table, "Person")
    assert graph_ages(graph)["dee"] == 6


def test_a_run_that_died_before_its_commit_is_repeated_as_a_whole(
    graph: og.Graph, table: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph_spark.writing.write import Write

    graph.ingest_delta(table, "Person")
    spark.sql(f"UPDATE delta.`{table}` SET age = 99 WHERE name = 'eve'").collect()

    def dying(self: Write, *rest: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Write, "commit_or_abort", dying)
        with pytest.raises(KeyboardInterrupt):
            graph.ingest_delta(table, "Person")
    assert graph_ages(graph.refresh())["eve"] == 7
    graph.ingest_delta(table, "Person")
    assert graph_ages(graph)["eve"] == 99


def test_a_table_that_only_grows_may_be_appended(
    graph: og.Graph, table: str, spark: SparkSession
) -> None:
    spark.sql(f"DELETE FROM delta.`{table}` WHERE name = 'cy'").collect()
    graph.ingest_delta(table, "Person", mode="append")
    spark.sql(f"INSERT INTO delta.`{table}` VALUES ('flo', 8)").collect()
    graph.ingest_delta(table, "Person", mode="append")
    assert graph_ages(graph)["flo"] == 8
    spark.sql(f"UPDATE delta.`{table}` SET age = 9 WHERE name = 'flo'").collect()
    with pytest.raises(UnsupportedError, match="mode='merge'"):
        graph.ingest_delta(table, "Person", mode="append")


def test_without_a_change_data_feed_only_the_whole_table_is_taken(
    graph: og.Graph, spark: SparkSession, tmp_path: Path
) -> None:
    path = f"{tmp_path}/plain"
    rows = spark.createDataFrame([("ada", 1), ("bob", 2), ("cy", 3)], "name string, age int")
    rows.write.format("delta").save(path)
    graph.ingest_delta(path, "Person")
    spark.sql(f"UPDATE delta.`{path}` SET age = 10").collect()
    with pytest.raises(UnsupportedError, match="enableChangeDataFeed"):
        graph.ingest_delta(path, "Person")
    graph.ingest_delta(path, "Person", mode="overwrite")
    assert graph_ages(graph) == {"ada": 10, "bob": 10, "cy": 10}


def test_what_is_not_a_table_or_a_mode_is_said(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="path of a Delta table"):
        graph.ingest_delta(tmp_path / "nothing", "Person")
    with pytest.raises(InvalidOptionError, match="append, merge or overwrite"):
        graph.ingest_delta(tmp_path, "Person", mode="delete")
