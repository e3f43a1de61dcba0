"""Shared memory under a real Spark: used by scans, and left by them however they end.

What the two sides do with it is in `tests/datasource/test_ring.py`; here the JVM and its workers do
it, and processes and files are looked at from outside.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.helpers.builder import GraphBuilder
from tests.helpers.scans import figures, held_places, jvm, mapped_rings, rings, workers
from tests.helpers.sources import read

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux shares memory without a name"
)

ROWS, BATCH = 6_000, 10
#: The answer of `total`.
SUM = ROWS * (ROWS - 1) // 2
#: Tasks that were cancelled end a little after their job, and a busy machine takes longer.
_PATIENCE_S = 60.0
#: Only Spark can evaluate it; it waits once in each batch, so that a scan takes half a minute.
SLOW = f"if(n % {BATCH} = 0, reflect('java.lang.Thread', 'sleep', 50L), 'null') = 'null'"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in one task, and in many batches."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("ring") / "graph", "node N { n: I64 }")
    graph.write({"node:N": [{"id": f"{n}", "n": n} for n in range(ROWS)]})
    return graph.root


@pytest.fixture(autouse=True)
def table(spark: SparkSession, many: Path) -> Iterator[None]:
    """The rows as `numbers`, and the same without shared memory as `sent`."""
    for name, shared in (("numbers", "true"), ("sent", "false")):
        frame = read(spark, many, type="N", batchSize=BATCH, sharedMemory=shared)
        frame.createOrReplaceTempView(name)
    yield
    for name in ("numbers", "sent"):
        spark.catalog.dropTempView(name)


def total(spark: SparkSession, table: str = "numbers") -> int:
    """The sum of all rows, each of which crosses: what is summed only Spark can evaluate."""
    [(found,)] = spark.sql(f"SELECT sum(n + length(id) - length(id)) FROM {table}").collect()
    return int(found)


def eventually(holds: Callable[[], object]) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False


def at_work(spark: SparkSession) -> set[int]:
    """The workers in whose rings batches lie."""
    found = (ring for process in workers(spark) for ring in rings(process))
    return {ring.process for ring in found if ring.in_use}


def is_nothing_left(spark: SparkSession) -> bool:
    """No place held or in use, and no ring but those that idle workers keep for their next task."""

    def is_clean() -> bool:
        # A mapping is an object of the JVM.
        spark._jvm.java.lang.System.gc()
        kept = [ring for process in workers(spark) for ring in rings(process)]
        return (
            held_places(spark) == 0
            and not any(ring.in_use for ring in kept)
            and not rings(jvm(spark))
            and mapped_rings(jvm(spark)) <= {ring.inode for ring in kept}
            and len({ring.process for ring in kept}) == len(kept)
        )

    return eventually(is_clean)


@contextmanager
def scanning(spark: SparkSession) -> Iterator[list[str]]:
    """A scan within a batch in shared memory, the job `slow`; how it failed, afterwards."""
    failures: list[str] = []

    def run() -> None:
        spark.sparkContext.setJobGroup("slow", "a scan", interruptOnCancel=True)
        try:
            spark.sql(f"SELECT sum(n) FROM numbers WHERE {SLOW}").collect()
        except (PySparkException, Py4JJavaError) as error:
            failures.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert eventually(lambda: held_places(spark) and at_work(spark))
        yield failures
    finally:
        spark.sparkContext.cancelJobGroup("slow")
        thread.join(_PATIENCE_S)
        assert not thread.is_alive()


def test_a_scan_goes_through_shared_memory(spark: SparkSession) -> None:
    total(spark)  # a worker's first batches say where the memory is
    assert total(spark) == SUM
    cost = figures(spark)
    assert cost["Arrow batches read"] == ROWS // BATCH
    assert cost["Arrow batches read in shared memory"] > 0
    assert is_nothing_left(spark)


def test_a_cancelled_scan_leaves_nothing_behind(spark: SparkSession) -> None:
    with scanning(spark) as failures:
        busy = at_work(spark)
        spark.sparkContext.cancelJobGroup("slow")
        assert eventually(lambda: failures)
    assert "cancelled" in failures[0]
    # Its worker was in the middle of something, so it is not used again.
    assert eventually(lambda: busy.isdisjoint(workers(spark)))
    assert is_nothing_left(spark)
    assert total(spark) == SUM


def test_a_worker_that_is_killed_fails_its_task_and_leaves_nothing_behind(
    spark: SparkSession,
) -> None:
    with scanning(spark) as failures:
        for process in at_work(spark):
            os.kill(process, signal.SIGKILL)
        # What it had sent is read to its end, slowly: then the task fails.
        assert eventually(lambda: failures)
    assert "Python worker exited unexpectedly" in failures[0]
    assert is_nothing_left(spark)
    assert total(spark) == SUM


def test_a_limit_that_stops_early_leaves_nothing_behind(spark: SparkSession) -> None:
    for _ in range(3):
        found = spark.sql("SELECT id FROM numbers WHERE n * n % 2 = 1 LIMIT 3").collect()
        assert len(found) == 3
    assert is_nothing_left(spark)
    assert total(spark) == SUM


@contextmanager
def little_memory(spark: SparkSession) -> Iterator[None]:
    """Daemons whose workers cannot have as much memory to share as a ring takes."""
    processes = workers(spark)
    daemons = [each for each in processes if parent(each) not in processes]
    for process in set(processes) - set(daemons):
        os.kill(process, signal.SIGTERM)
    assert eventually(lambda: set(workers(spark)) <= set(daemons))
    before = {each: resource.prlimit(each, resource.RLIMIT_FSIZE) for each in daemons}
    for daemon, (_, most) in before.items():
        resource.prlimit(daemon, resource.RLIMIT_FSIZE, (1 << 20, most))
    try:
        yield
    finally:
        for daemon, limits in before.items():
            resource.prlimit(daemon, resource.RLIMIT_FSIZE, limits)


def parent(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_text()
    return int(stat.rsplit(")", 1)[1].split()[1])


def test_with_too_little_memory_to_share_the_same_rows_come_through_the_socket(
    spark: SparkSession,
) -> None:
    assert total(spark, "sent") == SUM
    assert figures(spark)["Arrow batches read in shared memory"] == 0
    with little_memory(spark):
        assert total(spark) == SUM
        cost = figures(spark)
        assert cost["Arrow batches read"] == ROWS // BATCH
        assert cost["Arrow batches read in shared memory"] == 0
