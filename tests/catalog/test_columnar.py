"""Batches on their way into Spark: in shared memory or through the socket, the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.helpers.builder import GraphBuilder
from tests.helpers.golden import unpack
from tests.helpers.scans import held_places
from tests.helpers.sources import read, read_directly, source


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every type of the language, with extremes and nulls."""
    return unpack("rich", tmp_path_factory.mktemp("rich"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows enough for a task to be caught at work."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("many") / "graph", "node N { n: I64 }")
    graph.write({"node:N": [{"id": f"{n}", "n": n} for n in range(20_000)]})
    return graph.root


@pytest.mark.parametrize("shared", ["true", "false"])
def test_every_type_arrives_as_it_is_stored(spark: SparkSession, rich: Path, shared: str) -> None:
    types = read(spark, rich, table="types").select("type_key").collect()
    assert len(types) > 5
    for (type_key,) in types:
        frame = read(spark, rich, type=type_key, sharedMemory=shared, batchSize=2)
        for _ in range(2):  # the second time in a ring that is known
            arrived = frame.toArrow().sort_by("id")
            stored = read_directly(source(rich, type=type_key)).sort_by("id")
            assert arrived.cast(stored.schema).to_pylist() == stored.to_pylist()


def test_values_of_earlier_batches_stay_what_they_were(spark: SparkSession, many: Path) -> None:
    def answers(shared: str) -> list[object]:
        frame = read(spark, many, type="N", batchSize=300, sharedMemory=shared)
        frame.createOrReplaceTempView("n")
        queries = (
            "SELECT id FROM n ORDER BY substr(id, 2), id",
            "SELECT max_by(id, n % 1777), min_by(id, n % 1777), max(id || 'x') FROM n",
            "SELECT id, lag(id, 13) OVER (ORDER BY n % 101, n) FROM n",
            "SELECT sort_array(collect_list(id)) FROM n WHERE n % 3 = 1",
            "SELECT a.id, b.id FROM n a JOIN n b ON a.n % 9999 = b.n + 7 ORDER BY 1, 2",
        )
        return [spark.sql(query).collect() for query in queries]

    assert answers("true") == answers("false")


def test_a_task_that_needs_no_more_rows_gives_everything_back(
    spark: SparkSession, many: Path
) -> None:
    frame = read(spark, many, type="N", batchSize=5)
    for _ in range(3):
        # Not pushed, because of the condition that only Spark can evaluate.
        assert len(frame.where("n * n % 2 = 0").limit(3).collect()) == 3
        assert held_places(spark) == 0
    assert frame.selectExpr("count(n * n % 5)").collect()[0][0] == 20_000
