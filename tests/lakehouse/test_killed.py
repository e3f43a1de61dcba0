"""Exports and ingests whose processes, Spark included, are killed in the middle; then repeated.

A real SIGKILL of driver and JVM together, as when a machine dies. OMNIGRAPH_KILLS=all takes more
moments than the default ones.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.lakehouse.tables import ages, graph_ages, history, people
from tests.lakehouse.test_export import change_some, parquet_ages, steps

pytestmark = pytest.mark.slow

ALL = os.environ.get("OMNIGRAPH_KILLS") == "all"
#: Works, and dies with its JVM at a moment: when a file of that pattern is there which was not, or
#: at a point of the graph's own commit.
CHILD = """
import os, signal, sys, threading, time
from pathlib import Path
import omnigraph_spark as og
from omnigraph_spark import failpoints
from omnigraph_spark.session.local import local_session
work, root, lake, moment = sys.argv[1:5]
spark = local_session("killed", cores="2", delta=work != "parquet")
graph = og.open(root, spark=spark)

def die():
    os.killpg(0, signal.SIGKILL)

def watch(known):
    while set(Path(lake).glob(moment)) <= known:
        time.sleep(0.002)
    die()

points = [p for p in vars(failpoints).values() if isinstance(p, failpoints.Failpoint)]
[point] = [p for p in points if p.name == moment] or [None]
if point is not None:
    failpoints.arm(point, die)
else:
    known = set(Path(lake).glob(moment))
    threading.Thread(target=watch, args=(known,), daemon=True).start()
if work == "ingest":
    graph.ingest_delta(f"{lake}/people", "Person")
else:
    graph.export(work, lake)
print("not killed")
# The files may be there, and the watcher about to see them.
time.sleep(5)
"""


def killed(work: str, graph: og.Graph, lake: Path, moment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, work, graph.root, str(lake), moment],
        capture_output=True,
        text=True,
        # A group of its own: the JVM is in it and nobody else.
        start_new_session=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, (done.stdout, done.stderr[-3000:])


@pytest.mark.parametrize(
    "moment",
    [
        # The rows of Person are being written; those of Knows are there, with their mark.
        "nodes/Person/*.parquet",
        *(["edges/Knows/_delta_log/*.json", "nodes/Person/_delta_log/*.json"] if ALL else []),
    ],
)
def test_a_delta_export_killed_and_repeated_brings_no_row_twice(
    graph: og.Graph, lake: Path, spark: SparkSession, moment: str
) -> None:
    graph.export("delta", lake)
    change_some(graph)
    killed("delta", graph, lake, moment)
    graph.export("delta", lake)
    assert ages(spark, lake / "nodes/Person") == graph_ages(graph)
    for table in ("nodes/Person", "edges/Knows"):
        # One commit for the first export, one for the changes: none was made twice.
        assert len(history(spark, lake / table)) == 2
    assert spark.read.format("delta").load(f"{lake}/edges/Knows").count() == 1
    assert {step for step, _ in steps(graph.export("delta", lake)).values()} == {"nothing"}


@pytest.mark.parametrize("moment", ["nodes/Person/*/*.parquet", *(["nodes/*/*"] if ALL else [])])
def test_a_parquet_export_killed_leaves_the_state_before_and_repeated_brings_the_next(
    graph: og.Graph, lake: Path, spark: SparkSession, moment: str
) -> None:
    graph.export("parquet", lake)
    before = graph_ages(graph)
    graph.write(people(ada=50, eve=3), "Person", mode="merge")
    killed("parquet", graph, lake, moment)
    assert parquet_ages(spark, lake) == before
    graph.export("parquet", lake)
    assert parquet_ages(spark, lake) == graph_ages(graph)
    # The folder of the killed run went with the next one.
    assert len(list((lake / "nodes/Person").iterdir())) == 2


@pytest.mark.parametrize(
    "point",
    [
        "landing.dataset_committed",
        *(["landing.before_sidecar", "publish.landed", "landing.after_publish"] if ALL else []),
    ],
)
def test_an_ingest_killed_and_repeated_takes_a_version_in_once(
    graph: og.Graph, lake: Path, spark: SparkSession, point: str
) -> None:
    table = f"{lake}/people"
    rows = spark.createDataFrame([("cy", 5), ("dee", 6), ("eve", 7)], "name string, age int")
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(table)
    graph.ingest_delta(table, "Person")
    spark.sql(f"UPDATE delta.`{table}` SET age = 99 WHERE name = 'eve'").collect()
    spark.sql(f"DELETE FROM delta.`{table}` WHERE name = 'cy'").collect()
    killed("ingest", graph, lake, point)
    again = og.open(graph.root, spark=spark)
    commit = again.ingest_delta(table, "Person")
    assert commit is not None
    assert graph_ages(again) == {"ada": 36, "bob": 41, "dee": 6, "eve": 99}
    assert again.snapshot().rows("Knows") == 1
    # Its work is done in one commit, by whoever finished it.
    work = [each for each in again.history() if each.id[10:] == commit.id[10:]]
    assert len(work) == 1
    assert again.ingest_delta(table, "Person") == commit
    assert again.health() == [] or {f.kind for f in again.health()} == {"missing_index"}
