"""Tables that `CREATE TABLE … USING omnigraph` makes in Spark's own catalog, with the jar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.catalog.catalogs import rows
from tests.helpers.builder import GraphBuilder
from tests.helpers.sources import failure


@pytest.fixture
def root(tmp_path: Path, spark: SparkSession) -> Iterator[Path]:
    """Three persons, and no table `listed` left behind."""
    graph = GraphBuilder.create(tmp_path / "graph", "node Person { name: String @key  age: I32? }")
    graph.write({"node:Person": [{"name": f"p{n}", "age": n} for n in range(3)]})
    yield graph.root
    spark.sql("DROP TABLE IF EXISTS listed")


@pytest.mark.parametrize(
    "definition",
    [
        "USING omnigraph OPTIONS (path '{root}', type 'Person')",
        "USING omnigraph OPTIONS (Type 'node:Person') LOCATION '{root}'",
        "(name STRING, age INT) USING omnigraph OPTIONS (path '{root}', type 'Person')",
    ],
)
def test_a_table_is_read_and_written_as_the_type_it_names(
    spark: SparkSession, root: Path, definition: str
) -> None:
    spark.sql(f"CREATE TABLE listed {definition.format(root=root)}")
    assert rows(spark, "SELECT name FROM listed WHERE age > 1") == [("p2",)]
    [(plan,)] = rows(spark, "EXPLAIN FORMATTED SELECT name FROM listed WHERE age > 1")
    assert "age > 1" in plan.partition("pushed=[")[2]
    values = {"id": "'p3'", "name": "'p3'", "age": "3"}
    named = spark.table("listed").columns
    spark.sql(f"INSERT INTO listed VALUES ({', '.join(values[name] for name in named)})")
    assert rows(spark, "SELECT count(*), max(age) FROM listed") == [(4, 3)]
    spark.sql("DROP TABLE listed")
    assert og.open(str(root)).snapshot().arrow("Person").num_rows == 4


def test_a_table_that_names_no_graph_says_what_is_missing(spark: SparkSession, root: Path) -> None:
    spark.sql(f"CREATE TABLE listed (name STRING) USING omnigraph LOCATION '{root}'")
    assert "[OMNIGRAPH_OPTION_MISSING]" in failure(lambda: rows(spark, "SELECT * FROM listed"))
    spark.sql("DROP TABLE listed")
    spark.sql(f"CREATE TABLE listed (a INT) USING omnigraph OPTIONS (type 'X') LOCATION '{root}'")
    assert "[OMNIGRAPH_TYPE_NOT_FOUND]" in failure(lambda: rows(spark, "SELECT * FROM listed"))
