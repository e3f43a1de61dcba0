"""A session with Delta, whose jar Spark fetches, and a small graph for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.conftest import small_session
from tests.lakehouse.tables import small_graph

_HERE = Path(__file__).parent
#: Warnings that are not about our code.
_IGNORED = (
    # The JVM is started though Lance is loaded: the child replaces itself at once.
    "ignore:lance is not fork-safe",
    # PySpark 4.1 leaves the socket of each collect() to the garbage collector.
    "ignore:unclosed <socket:ResourceWarning",
)
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            for warning in _IGNORED:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small session with Delta."""
    session = (
        small_session()
        .config("spark.jars.packages", DELTA)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def graph(tmp_path: Path, spark: SparkSession) -> og.Graph:
    """A graph of the test's own."""
    return small_graph(tmp_path / "graph", spark)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Where tables are exported to; nothing is there."""
    return tmp_path / "lake"
