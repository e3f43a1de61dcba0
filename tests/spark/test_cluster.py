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
from tests.faults.s3proxy import Call, Fault, s3_proxy
from tests.helpers import secrets
from tests.helpers.cluster import Cluster, standalone_cluster, waited_for
from tests.helpers.files import data_files, named_files
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.slow

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
DRIVER = """
import json, os, sys, time, types
from pyspark.sql import SparkSession
import omnigraph_spark as og
import omnigraph_spark.session.workspace as workspace
import omnigraph_spark.storage.credentials as credentials
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

def aws(batches):
    import pyarrow as pa
    for batch in batches:
        named = sorted(name for name in os.environ if name.startswith("AWS_"))
        yield pa.RecordBatch.from_pydict({"at": [",".join(named) or "none"]})

def fetched():
    # Only this process has the function.
    fetches.append(clock.time())
    return {"access_key_id": f"fetched{len(fetches)}", "secret_access_key": "x",
            "expires_at": clock.time() + 3600}

def write_some(graph, first):
    some = rows.where(f"age >= {first} AND age < {first + 100}")
    with graph.transaction() as tx:
        tx.append("Person", some)
        tx.append("Knows", some.selectExpr("name AS src", f"'p{first}' AS dst"))

answer, fetches, clock = {}, [], time
if work == "s3":
    answer["executors"] = sorted({row["at"] for row in rows.mapInArrow(aws, "at string").collect()})
    write_some(graph, 0)
    some = rows.where("age >= 100 AND age < 200").write.format("omnigraph").mode("append")
    some.option("type", "Person").save(root)
    store = {"aws_endpoint": os.environ["PROXY"], "allow_http": "true", "aws_region": "us-east-1",
             "aws_virtual_hosted_style_request": "false"}
    renewing = og.open(root, spark=spark, storage={**store, "credentials": fetched})
    renewing.nodes("Person").count()
    # The first keys have run out, to this process; no executor can fetch others.
    clock = credentials.time = types.SimpleNamespace(time=lambda: time.time() + 7200)
    write_some(renewing, 200)
    frame = renewing.nodes("Person")
    answer["read"] = frame.agg({"age": "sum"}).first()[0]
    answer["fetches"] = len(fetches)
elif work == "modes":
    rows.write.format("omnigraph").mode("append").option("type", "Person").save(root)
    workspace.SPARK_ROWS = 0
    with graph.transaction() as tx:
        tx.merge("Person", rows.selectExpr("name", "age + 1 AS age"))
        tx.append("Knows", rows.selectExpr("name AS src", "'p0' AS dst"))
        answer["seen"] = tx.edges("Knows").count()
    places = {row["at"] for row in rows.mapInArrow(where, "at string").collect()}
    answer["elsewhere"] = all(os.getcwd() not in place for place in places)
    answer["places"] = len(places)
elif work == "shuffled":
    # What the executors have shuffled dies with them: both stages run again.
    moved = rows.repartition(8, "age")
    moved = moved.mapInArrow(slow_once, moved.schema)
    moved.write.format("omnigraph").mode("append").option("type", "Person").save(root)
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


def drive(cluster: Cluster, graph: og.Graph, work: str, place: Path, **more: str) -> dict[str, Any]:
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **more}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, cluster.url, graph.root, work, str(place)],
        capture_output=True,
        text=True,
        env={**os.environ, **own},
        cwd=place,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert secrets.leaked([done.stdout, done.stderr]) == []
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


def test_executors_without_keys_use_those_that_the_driver_found_and_renewed(
    cluster: Cluster, s3: S3Server, tmp_path: Path
) -> None:
    """RS-65: keys of the driver's environment, then of a function that only the driver has."""
    root = f"s3://{s3.make_bucket()}/graphs/social"
    graph = og.create(root, SCHEMA, storage=s3.storage_options)
    seen: list[str] = []

    def refuse_old(call: Call) -> Fault | None:
        seen.append(call.access_key)
        old = call.access_key == "fetched1" and "fetched2" in seen
        return Fault.EXPIRED if old else None

    with s3_proxy(s3.endpoint) as proxy, proxy.faults(refuse_old) as refused:
        answer = drive(cluster, graph, "s3", tmp_path, **s3.environment, PROXY=proxy.endpoint)
    assert answer["executors"] == ["none"]
    assert refused == []
    assert set(seen) == {"fetched1", "fetched2"}
    assert answer["read"] == sum(range(300))
    # Executors have the new keys from the driver, which asked for them once.
    assert answer["fetches"] == 2
    written = og.open(root, mode="r", storage=s3.storage_options).snapshot()
    assert (written.rows("Person"), written.rows("Knows")) == (300, 200)


@pytest.mark.parametrize("work", ["killed", "shuffled"])
def test_an_executor_killed_while_it_stages_costs_no_row_and_adds_none(
    cluster: Cluster, graph: og.Graph, tmp_path: Path, work: str
) -> None:
    """RS-03, through `graph.write`, and through `df.write` where whole stages run again."""
    answers: list[dict[str, Any]] = []
    driver = threading.Thread(target=lambda: answers.append(drive(cluster, graph, work, tmp_path)))
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
