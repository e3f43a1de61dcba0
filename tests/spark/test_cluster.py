"""Writing from a real cluster: executors that share nothing with the driver, and one that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph_spark as og
from tests.helpers.cluster import Cluster, standalone_cluster, waited_for
from tests.helpers.files import data_files, named_files

pytestmark = pytest.mark.slow

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
DRIVER = """
import json, os, sys, time
from pyspark.sql import SparkSession
import omnigraph_spark as og
import omnigraph_spark.session.workspace as workspace
url, root, work, place = sys.argv[1:5]
builder = (SparkSession.builder.master(url).config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.executor.memory", "512m").config("spark.executor.cores", "1")
    .config("spark.sql.shuffle.partitions", "2"))
if work == "speculate":
    builder = (builder.config("spark.speculation", "true")
        .config("spark.speculation.interval", "100ms").config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.multiplier", "1.1")
        .config("spark.speculation.minTaskRuntime", "100ms"))
spark = builder.getOrCreate()
graph = og.open(root, spark=spark)
rows = spark.range(0, 400, 1, 8).selectExpr("concat('p', id) AS name", "cast(id AS int) AS age")

def slow_once(batches):
    # The first attempt at the last partition hangs, after its rows were handed on.
    from pyspark import TaskContext
    partition = TaskContext.get().partitionId()
    yield from batches
    if partition == 7:
        try:
            os.close(os.open(f"{place}/hanging", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            open(f"{place}/again", "w").close()
            return
        time.sleep(120)

def where(batches):
    import pyarrow as pa
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"at": [f"{os.getppid()} {os.getcwd()}"]})

answer = {}
if work == "modes":
    rows.write.format("omnigraph").mode("append").option("type", "Person").save(root)
    workspace.SPARK_ROWS = 0
    with graph.transaction() as tx:
        tx.merge("Person", rows.selectExpr("name", "age + 1 AS age"))
        tx.append("Knows", rows.selectExpr("name AS src", "'p0' AS dst"))
        answer["seen"] = tx.edges("Knows").count()
    places = {row["at"] for row in rows.mapInArrow(where, "at string").collect()}
    answer["elsewhere"] = all(os.getcwd() not in place for place in places)
    answer["places"] = len(places)
else:
    graph.write(rows.mapInArrow(slow_once, rows.schema), "Person")
graph.refresh()
answer["rows"] = {key: entry.rows for key, entry in graph.entries.items()}
print(json.dumps(answer))
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create(tmp_path / "graph", SCHEMA)


def drive(cluster: Cluster, graph: og.Graph, work: str, place: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, cluster.url, graph.root, work, str(place)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=place,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def ages(graph: og.Graph) -> dict[str, int]:
    rows = graph.refresh().snapshot().arrow("Person", columns=["name", "age"]).to_pylist()
    assert len(rows) == 400
    return {row["name"]: row["age"] for row in rows}


def test_executors_elsewhere_write_types_and_transactions(
    cluster: Cluster, graph: og.Graph, tmp_path: Path
) -> None:
    answer = drive(cluster, graph, "modes", tmp_path)
    assert answer["rows"] == {"node:Person": 400, "edge:Knows": 400}
    assert answer["seen"] == 400
    assert answer["elsewhere"]
    assert answer["places"] > 1, "several executors took part"
    assert ages(graph) == {f"p{n}": n + 1 for n in range(400)}
    assert len(graph.history()) == 3


def test_an_executor_killed_while_it_stages_costs_no_row_and_adds_none(
    cluster: Cluster, graph: og.Graph, tmp_path: Path
) -> None:
    """RS-03."""
    answers: list[dict[str, Any]] = []
    driver = threading.Thread(
        target=lambda: answers.append(drive(cluster, graph, "killed", tmp_path))
    )
    driver.start()
    try:
        waited_for(lambda: "now" if (tmp_path / "hanging").exists() else None)
        # Both, so that the one with the hanging task is among them.
        for process in cluster.executors():
            os.kill(process, signal.SIGKILL)
    finally:
        # Until it ends it has all cores of the cluster.
        driver.join()
    assert [answer["rows"]["node:Person"] for answer in answers] == [400]
    assert ages(graph) == {f"p{n}": n for n in range(400)}
    assert named_files(graph, "node:Person") <= data_files(graph, "node:Person")


def test_a_speculative_duplicate_adds_no_row(
    cluster: Cluster, graph: og.Graph, tmp_path: Path
) -> None:
    """RS-02."""
    answer = drive(cluster, graph, "speculate", tmp_path)
    assert answer["rows"]["node:Person"] == 400
    assert (tmp_path / "hanging").exists(), "the first attempt hung"
    assert (tmp_path / "again").exists(), "and its duplicate finished"
    assert ages(graph) == {f"p{n}": n for n in range(400)}
