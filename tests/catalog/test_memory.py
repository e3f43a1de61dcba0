"""Arrow's memory in the JVM: what a scan took it gives back, however the query ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.catalog.catalogs import new_catalog, rows
from tests.helpers.builder import GraphBuilder
from tests.helpers.sources import failure

#: Tasks that were cancelled end a little after their job.
_PATIENCE_S = 20.0


class Allocator:
    """Arrow's memory in the JVM, and how much of it others held before."""

    def __init__(self, spark: SparkSession) -> None:
        self._root = spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
        self._before = self._held()

    def _held(self) -> tuple[int, int]:
        return self._root.getAllocatedMemory(), self._root.getChildAllocators().size()

    def holds_more(self) -> bool:
        """Whether somebody holds memory who did not then."""
        return any(now > then for now, then in zip(self._held(), self._before, strict=True))

    def left_over(self) -> str:
        """What it says of memory that was not given back; nothing when all was."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.holds_more():
            if time.monotonic() > deadline:
                return str(self._root.toVerboseString())
            time.sleep(0.05)
        return ""


@pytest.fixture
def og(spark: SparkSession, people: GraphBuilder) -> str:
    """Batches of three rows, and limits that Spark itself evaluates."""
    return new_catalog(spark, people.root, batchSize="3", pushdown="false")


def test_arrow_says_who_holds_its_memory(spark: SparkSession) -> None:
    assert spark._jvm.org.apache.arrow.memory.BaseAllocator.isDebug()


def cancel(spark: SparkSession, table: str) -> None:
    """A query that takes long for every row, cancelled when it has its first batch."""
    allocator = Allocator(spark)
    errors: list[str] = []
    slow = "aggregate(sequence(1, 3000000 + age), 0L, (s, n) -> s + n)"

    def ask() -> None:
        spark.sparkContext.addJobTag("slow query")
        try:
            rows(spark, f"SELECT sum({slow}) FROM {table}")
        except Py4JJavaError as error:
            errors.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + _PATIENCE_S
    while not allocator.holds_more() and asking.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert allocator.holds_more(), errors
    spark.sparkContext.cancelJobsWithTag("slow query")
    asking.join()
    assert "SPARK_JOB_CANCELLED" in errors[0]


QUERIES: dict[str, Callable[[SparkSession, str], object]] = {
    "a limit": lambda spark, t: rows(spark, f"SELECT * FROM {t} LIMIT 2"),
    "the first rows": lambda spark, t: spark.table(t).take(1),
    "an exists": lambda spark, t: rows(
        spark, f"SELECT 1 FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.age > a.age) LIMIT 1"
    ),
    "a sort": lambda spark, t: rows(spark, f"SELECT * FROM {t} ORDER BY age DESC, name"),
    "a join": lambda spark, t: rows(spark, f"SELECT * FROM {t} a JOIN {t} b ON a.age = b.age + 1"),
    "an iterator that is left": lambda spark, t: next(spark.table(t).toLocalIterator()),
    "failing tasks": lambda spark, t: failure(
        lambda: rows(spark, f"SELECT if(age = 55, raise_error('so'), age) FROM {t}")
    ),
    "a job that is cancelled": cancel,
    "a limit that is pushed": lambda spark, t: rows(spark, "SELECT * FROM og.nodes.Person LIMIT 2"),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_nothing_is_left(
    spark: SparkSession, og: str, query: Callable[[SparkSession, str], object]
) -> None:
    allocator = Allocator(spark)
    query(spark, f"{og}.nodes.Person")
    assert allocator.left_over() == ""
