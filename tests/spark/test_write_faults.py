"""Tasks that fail, run twice or are cancelled: one copy of each row or nothing, no files left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import omnigraph_spark as og
from omnigraph_spark.session import staging
from omnigraph_spark.writing.stage import StageResult, StageTask
from tests.helpers.files import data_files, named_files, published

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
ROWS = 40


@pytest.fixture
def graph(tmp_path: Path, spark: SparkSession) -> og.Graph:
    return og.create(tmp_path / "graph", SCHEMA, spark=spark)


def people(spark: SparkSession, partitions: int = 4) -> DataFrame:
    return spark.range(0, ROWS, 1, partitions).selectExpr("concat('p', id) AS name")


def names(graph: og.Graph) -> list[str]:
    return sorted(graph.refresh().snapshot().arrow("Person").column("name").to_pylist())


EXPECTED = sorted(f"p{n}" for n in range(ROWS))


def run_alone(script: str, *args: str, timeout: float = 240) -> dict[str, Any]:
    """Run a driver of its own in another process, and return what it prints last as JSON."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        capture_output=True,
        text=True,
        env=environment,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


#: A driver that retries tasks; `mark` fails the first attempt at a partition after its files exist.
RETRYING = """
import json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession
import omnigraph_spark as og
root, how, marks = sys.argv[1:4]
spark = (SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate())
rows = spark.range(0, 40, 1, 4).selectExpr("concat('p', id) AS name")

def fail_once(batches):
    # The first attempt at each of two partitions fails when its rows were all handed on.
    from pyspark import TaskContext
    partition = TaskContext.get().partitionId()
    yield from batches
    if partition in (1, 2):
        try:
            os.close(os.open(f"{marks}/{how}-{partition}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        raise RuntimeError("the first attempt fails")

rows = rows.mapInArrow(fail_once, rows.schema)
graph = og.open(root, spark=spark)
if how == "source":
    rows.write.format("omnigraph").mode("append").option("type", "Person").save(root)
else:
    graph.write(rows, "Person")
marked = len([name for name in os.listdir(marks) if name.startswith(how)])
print(json.dumps({"rows": graph.refresh().snapshot().rows("Person"), "failed": marked}))
spark.stop()
"""


@pytest.mark.parametrize("how", ["source", "graph"])
def test_a_task_that_fails_and_is_tried_again_leaves_one_copy(
    graph: og.Graph, tmp_path: Path, how: str
) -> None:
    """RS-01."""
    marks = tmp_path / "marks"
    marks.mkdir()
    answer = run_alone(RETRYING, graph.root, how, str(marks))
    assert answer == {"rows": ROWS, "failed": 2}
    assert names(graph) == EXPECTED
    assert data_files(graph, "node:Person") == named_files(graph, "node:Person")


def test_the_files_of_an_attempt_that_does_not_count_are_deleted(
    spark: SparkSession, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-02: every partition is staged twice, as when a duplicate of each task finishes."""

    def twice(task: StageTask, batches: Iterable[pa.RecordBatch], notes: str) -> str:
        rows = list(batches)
        staged(task, rows, notes)
        return staged(task, rows, notes)

    staged = staging.stage_noted
    # It is pickled with the code of the task, so it reaches the workers.
    monkeypatch.setattr(staging, "stage_noted", twice)
    graph.write(people(spark), "Person")
    assert names(graph) == EXPECTED
    assert data_files(graph, "node:Person") == named_files(graph, "node:Person")


@pytest.mark.parametrize("how", ["source", "graph"])
def test_a_job_that_fails_leaves_the_graph_as_it_was(
    spark: SparkSession, graph: og.Graph, how: str
) -> None:
    """RS-04."""
    before = published(Path(graph.root))
    rows = spark.range(0, ROWS, 1, 4).selectExpr(
        "concat('p', id) AS name", "if(id = 39, assert_true(false, 'boom'), NULL) AS checked"
    )
    rows = rows.where("checked IS NULL").select("name")
    with pytest.raises(PySparkException, match="boom"):
        write(graph, rows, how)
    assert published(Path(graph.root)) == before
    write(graph, people(spark), how)
    assert names(graph) == EXPECTED


def write(graph: og.Graph, rows: DataFrame, how: str) -> None:
    if how == "graph":
        graph.write(rows, "Person")
    else:
        rows.write.format("omnigraph").mode("append").option("type", "Person").save(graph.root)


#: Spark's ways to end a job from another thread. `interruptTag` is none: on classic Spark a tag of
#: the session belongs to the thread that set it, and from another it ends no job, of no source.
CANCEL: dict[str, Callable[[SparkSession], object]] = {
    "every job": lambda spark: spark.sparkContext.cancelAllJobs(),
    "its tag": lambda spark: spark.sparkContext.cancelJobsWithTag("slow write"),
    "its session": lambda spark: spark.interruptAll(),
}


@pytest.mark.parametrize("how", CANCEL)
def test_a_cancelled_job_leaves_the_graph_as_it_was(
    spark: SparkSession, graph: og.Graph, tmp_path: Path, how: str
) -> None:
    """RS-04."""
    versions = len(graph.history())
    started = tmp_path / "started"

    def slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            started.touch()
            # Longer than the test waits: only the cancellation ends it.
            time.sleep(120)
            yield batch

    failures: list[BaseException] = []

    def attempt() -> None:
        spark.sparkContext.addJobTag("slow write")
        rows = people(spark)
        try:
            graph.write(rows.mapInArrow(slowly, rows.schema), "Person")
        except (PySparkException, Py4JJavaError) as error:
            failures.append(error)

    writer = threading.Thread(target=attempt)
    writer.start()
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert started.exists()
    CANCEL[how](spark)
    writer.join(60)
    assert not writer.is_alive()
    assert len(failures) == 1
    assert len(graph.refresh().history()) == versions
    graph.write(people(spark), "Person")
    assert names(graph) == EXPECTED


#: How often two drivers meet; OMNIGRAPH_ROUNDS=200 is the long form.
ROUNDS = int(os.environ.get("OMNIGRAPH_ROUNDS", "3"))
#: Two of these publish to one branch at once.
DRIVER = """
import json, sys, time
from collections import Counter
from pathlib import Path
from pyspark.sql import SparkSession
import omnigraph_spark as og
root, own, rounds, meeting = sys.argv[1:5]
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate())
graph = og.open(root, spark=spark)

def told(work, number):
    Path(meeting, f"{work.__name__} {number} {own}").touch()
    other = Path(meeting, f"{work.__name__} {number} {'b' if own == 'a' else 'a'}")
    until = time.monotonic() + 120
    while not other.exists() and time.monotonic() < until:
        time.sleep(0.005)
    try:
        return "landed" if work(number) else "nothing"
    except og.OmnigraphError as error:
        return error.code

def own_rows(number):
    rows = spark.range(0, 10, 1, 2).selectExpr(f"concat('{own}-{number}-', id) AS name")
    return graph.write(rows, "Person")

def same_key(number):
    return graph.write(spark.createDataFrame([(f"same-{number}",)], "name string"), "Person")

def edge_or_deletion(number):
    \"\"\"One adds an edge to a node, the other deletes it.\"\"\"
    if own == "a":
        ends = spark.createDataFrame([(f"same-{number}",) * 2], "src string, dst string")
        return graph.write(ends, "Knows")
    return graph.delete("Person", spark.createDataFrame([(f"same-{number}",)], "id string"))

found = {
    work.__name__: Counter(told(work, number) for number in range(int(rounds)))
    for work in (own_rows, same_key, edge_or_deletion)
}
print(json.dumps(found))
spark.stop()
"""


@pytest.mark.slow
def test_two_drivers_publish_to_one_branch(graph: og.Graph, tmp_path: Path) -> None:
    """RS-22, RS-23, RS-26: rows of their own, the same keys, an edge against a deletion."""
    answers: dict[str, dict[str, Counter[str]]] = {}

    def drive(own: str) -> None:
        arguments = (graph.root, own, str(ROUNDS), str(tmp_path))
        told = run_alone(DRIVER, *arguments, timeout=120 + 30 * ROUNDS)
        answers[own] = {work: Counter(found) for work, found in told.items()}

    drivers = [threading.Thread(target=drive, args=(own,)) for own in ("a", "b")]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    print(f"\n{ROUNDS} rounds of two drivers: {answers}")
    own, same, met = (
        answers["a"][work] + answers["b"][work]
        for work in ("own_rows", "same_key", "edge_or_deletion")
    )
    assert own == {"landed": 2 * ROUNDS}
    assert same == {"landed": ROUNDS, "OMNIGRAPH_KEY_CONFLICT": ROUNDS}
    people, edges = (
        graph.refresh().snapshot().arrow(type).to_pylist() for type in ("Person", "Knows")
    )
    there = [row["name"] for row in people]
    assert len(there) == len(set(there))
    assert len([name for name in there if not name.startswith("same-")]) == 2 * ROUNDS * 10
    assert {row["dst"] for row in edges} <= set(there), "no edge outlives its node"
    history = graph.history()
    assert len(history) == 1 + own["landed"] + same["landed"] + met["landed"]
    assert all(new.parent_id == old.id for new, old in pairwise(history))


def test_an_abort_after_a_failed_commit_keeps_what_a_sidecar_owns(
    spark: SparkSession, graph: og.Graph
) -> None:
    """Spark calls `abort` after a commit that failed, in a process that knows nothing of it."""
    from pyspark_omnigraph.statement import Statement
    from pyspark_omnigraph.writer import Staged, TypeWriter

    from omnigraph_spark.writing.write_options import WriteOptions

    options = WriteOptions.parse({"path": graph.root, "type": "Person"})
    writer = TypeWriter(Statement(options), overwrite=False)
    batch = pa.RecordBatch.from_pydict({"name": ["ann"]})
    message = writer.write(iter([batch]))
    files = StageResult.from_json(message.result).files
    writer.commit([message])
    again = TypeWriter(Statement(options), overwrite=False)
    # The version is there: its files stay, whatever the other process believes.
    again.abort([message])
    assert names(graph) == ["ann"]
    # Nothing owns these: no version names them and no sidecar is there.
    orphan = again.write(iter([pa.RecordBatch.from_pydict({"name": ["bob"]})]))
    sidecars = Path(graph.root) / "__recovery"
    sidecars.mkdir(exist_ok=True)
    owner = sidecars / "01K00000000000000000000000.json"
    owner.write_text("{}")
    again.abort([orphan, None])
    paths = {file.path for file in StageResult.from_json(orphan.result).files}
    assert paths <= data_files(graph, "node:Person"), "a sidecar may own them"
    owner.unlink()
    again.abort([orphan, None])
    assert not paths & data_files(graph, "node:Person")
    assert isinstance(message, Staged)
    assert {file.path for file in files} <= named_files(graph, "node:Person")
