"""A session with Delta, whose jar Spark fetches, and a small graph for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark.session.lakehouse.delta_jar import delta_jar
from tests.conftest import small_session
from tests.lakehouse.tables import small_graph


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small session with Delta."""
    session = (
        small_session()
        .config("spark.jars.packages", delta_jar())
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
