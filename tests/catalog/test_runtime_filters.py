"""Keys that a join finds while it runs: they are pushed into the scan of the other side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.catalog.catalogs import new_catalog
from tests.helpers.builder import GraphBuilder
from tests.helpers.scans import figures

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { weight: F64? }
"""
PERSONS, EDGES = 300, 6_000
#: Only Spark can evaluate it: it does not become a condition on the other side while planning.
SOME = "p.age * p.age = 49"


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "indexed"])
def catalog(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> str:
    """Persons, and twenty edges that begin at each, in six fragments."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("joined") / "graph", SCHEMA)
    persons = [{"name": f"p{n}", "age": n % 90} for n in range(PERSONS)]
    edges = [
        {"id": f"e{n}", "src": f"p{n // 20}", "dst": f"p{n * 7 % PERSONS}"} for n in range(EDGES)
    ]
    graph.write({"node:Person": persons, "edge:Knows": edges}, max_rows_per_file=1_000)
    if request.param:
        og.open(str(graph.root)).build_indexes()
    return new_catalog(spark, graph.root)


@pytest.fixture
def unfiltered(spark: SparkSession) -> Iterator[str]:
    """A setting under which Spark finds no filters while it runs."""
    name = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
    yield name
    spark.conf.unset(name)


def sorted_rows(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(sql).collect()), key=repr)


@pytest.mark.parametrize(
    ("query", "table", "found", "read"),
    [
        # Ages are 7 for p7, p97, p187 and p277.
        ("nodes.Person p JOIN {t}.edges.Knows k ON p.id = k.src", "edges.Knows", 80, 80),
        ("nodes.Person p JOIN {t}.edges.Knows k ON p.id = k.dst", "edges.Knows", 80, 80),
        ("nodes.Person p JOIN {t}.nodes.Person k ON p.id = k.id", "nodes.Person", 4, 304),
    ],
    ids=["src", "dst", "id"],
)
def test_only_rows_with_the_keys_of_the_other_side_are_read(
    spark: SparkSession,
    catalog: str,
    unfiltered: str,
    query: str,
    table: str,
    found: int,
    read: int,
) -> None:
    sql = f"SELECT p.id, k.* FROM {catalog}.{query.format(t=catalog)} WHERE {SOME}"
    rows = sorted_rows(spark, sql)
    assert len(rows) == found
    assert figures(spark, table)["rows that left Lance"] == read
    spark.conf.set(unfiltered, "false")
    assert sorted_rows(spark, sql) == rows
    assert figures(spark, table)["rows that left Lance"] > read
