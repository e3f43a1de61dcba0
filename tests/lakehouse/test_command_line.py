"""`omnigraph-spark export` to tables: the command as it is typed, in the session of these tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark.cli import cli
from omnigraph_spark.session.local import DELTA_SETTINGS
from tests.lakehouse.tables import ages, graph_ages, history, people


@pytest.fixture(autouse=True)
def _session_goes_on(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command asks for a session with Delta, gets the one that runs, and does not end it."""
    assert DELTA_SETTINGS.items() <= dict(spark.sparkContext.getConf().getAll()).items()
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert partitions is not None
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    yield
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


def export(graph: og.Graph, lake: Path, format_: str) -> dict[str, tuple[str, int, str]]:
    """Run the command; return what it did to each type, how many rows, and where."""
    words = ["export", graph.root, str(lake), "--format", format_, "--json"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return {each["type_key"]: (each["step"], each["rows"], each["path"]) for each in told}


def test_delta_tables_are_written_once_and_then_only_the_rows_that_changed(
    graph: og.Graph, lake: Path, spark: SparkSession
) -> None:
    first = export(graph, lake, "delta")
    assert {key: told[:2] for key, told in first.items()} == {
        "edge:Knows": ("full", 2),
        "node:City": ("full", 1),
        "node:Person": ("full", 3),
    }
    graph.write(people(ada=37, dee=9), "Person", mode="merge")
    again = export(graph, lake, "delta")
    assert again["node:Person"][:2] == ("changes", 2)
    assert again["node:City"][:2] == again["edge:Knows"][:2] == ("nothing", 0)
    table = again["node:Person"][2]
    assert ages(spark, table) == graph_ages(graph.refresh())
    metrics = history(spark, table)[-1].operationMetrics
    assert (metrics["numTargetRowsUpdated"], metrics["numTargetRowsInserted"]) == ("1", "1")


def test_parquet_tables_of_types_that_changed_are_written_anew(
    graph: og.Graph, lake: Path, spark: SparkSession
) -> None:
    first = export(graph, lake, "parquet")
    graph.write(people(ada=37), "Person", mode="merge")
    again = export(graph, lake, "parquet")
    assert again["node:Person"][:2] == ("full", 3)
    assert again["node:City"] == ("nothing", 0, first["node:City"][2])
    rows = spark.read.parquet(again["node:Person"][2]).collect()
    assert {row.id: row.age for row in rows} == {"ada": 37, "bob": 41, "cy": None}
