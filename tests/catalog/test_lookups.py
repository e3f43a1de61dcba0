"""Rows that an index finds: answered while planning, or by one task; never believed too far."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.catalog.catalogs import new_catalog
from tests.helpers.builder import GraphBuilder
from tests.helpers.scans import figures
from tests.helpers.sources import read

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
edge Knows: Person -> Person { weight: F64? }
"""
PERSONS, EDGES = 600, 12_000


def person(name: str) -> pa.Table:
    return pa.table({"name": [name], "age": pa.array([7], pa.int32())})


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Path]:
    """Persons and edges in several fragments, with indexes, and a person the index lacks."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("indexed") / "graph", SCHEMA)
    persons = [{"name": f"p{n}", "age": n % 90, "tags": ["x"] * (n % 3)} for n in range(PERSONS)]
    # A hub: half of all edges begin at p0.
    edges = [
        {"id": f"e{n}", "src": f"p{0 if n % 2 else n % PERSONS}", "dst": f"p{n * 7 % PERSONS}"}
        for n in range(EDGES)
    ]
    graph.write({"node:Person": persons, "edge:Knows": edges}, max_rows_per_file=1_500)
    opened = og.open(str(graph.root))
    opened.build_indexes()
    with opened.transaction() as tx:
        tx.append("Person", person("late"))
    for name in ("Person", "Knows"):
        read(spark, graph.root, type=name).createOrReplaceTempView(name)
        read(spark, graph.root, type=name, pushdown="false").createOrReplaceTempView(f"{name}0")
    yield graph.root
    for name in ("Person", "Knows"):
        # A view left behind would hide the tables of these names from the tests that follow.
        spark.catalog.dropTempView(name)
        spark.catalog.dropTempView(f"{name}0")


def plan(spark: SparkSession, sql: str) -> str:
    [(text,)] = spark.sql(f"EXPLAIN FORMATTED {sql}").collect()
    return str(text)


def same(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query, which are those that Spark alone finds."""

    def rows(text: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in spark.sql(text).collect()), key=repr)

    plain = sql.replace("Person", "Person0").replace("Knows", "Knows0")
    found = rows(sql)
    assert found == rows(plain)
    return found


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM Person WHERE id = 'p7'", 1),
        ("SELECT age, id FROM Person WHERE id = 'p7' AND age = 7", 1),
        ("SELECT * FROM Person WHERE id = 'p7' AND age = 8", 0),
        ("SELECT * FROM Person WHERE id = 'late'", 1),
        ("SELECT * FROM Person WHERE id = 'nobody'", 0),
        ("SELECT * FROM Person WHERE id IN ('p1', 'p2', 'late', 'nobody', NULL)", 3),
        ("SELECT tags FROM Person WHERE id IN ('p4', 'p5') AND age > 4", 1),
        ("SELECT * FROM Knows WHERE src IN ('p2', 'p4') AND dst <> 'p14'", 20),
        ("SELECT src FROM Knows WHERE dst = 'p7'", 20),
        ("SELECT id FROM Person WHERE id IN ('p3', 'p4') LIMIT 5", 2),
        ("SELECT id FROM Person WHERE id IN ('p3', 'p4') ORDER BY age DESC LIMIT 1", 1),
        ("SELECT count(*), max(age) FROM Person WHERE id IN ('p3', 'p4')", 1),
        ("SELECT count(*) FROM Knows WHERE src = 'p2'", 1),
    ],
)
def test_few_rows_that_an_index_finds_need_no_task(
    spark: SparkSession, indexed: Path, query: str, expected: int
) -> None:
    text = plan(spark, query)
    assert "LocalTableScan" in text
    assert "BatchScan" not in text
    assert len(same(spark, query)) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM Person WHERE id = 'p7'", 1),
        ("SELECT * FROM Person WHERE id IN ('p1', 'late', 'nobody', NULL) AND age = 7", 1),
        ("SELECT src, dst FROM Knows WHERE src IN ('p2', 'p4')", 40),
        # What is above the rows is computed with them.
        ("SELECT upper(name), age + 1 FROM Person WHERE id = 'p7' AND length(name) = 2", 1),
        ("SELECT count(*) AS people FROM Person", 1),
    ],
)
def test_known_rows_of_one_table_start_no_job(
    spark: SparkSession, indexed: Path, query: str, expected: int
) -> None:
    context, group = spark.sparkContext, f"known {query}"
    context.setJobGroup(group, "rows that are known while planning")
    found = spark.sql(query).collect()
    jobs = context.statusTracker().getJobIdsForGroup(group)
    context.setLocalProperty("spark.jobGroup.id", None)
    assert len(found) == expected
    assert not jobs
    same(spark, query)


def test_known_rows_prune_the_other_side_of_a_join(spark: SparkSession, indexed: Path) -> None:
    near = "SELECT DISTINCT dst AS id FROM Knows WHERE src IN ('p2', 'p4')"
    for query in (
        f"SELECT k.id FROM Knows k JOIN ({near}) n ON k.src = n.id",
        f"SELECT k.id FROM Knows k WHERE k.src IN ({near})",
    ):
        assert len(same(spark, query)) == 40
        spark.sql(query).collect()
        assert figures(spark, "Knows")["rows that left Lance"] == 40


def test_many_rows_that_an_index_finds_are_one_task(spark: SparkSession, indexed: Path) -> None:
    query = "SELECT id, dst FROM Knows WHERE src = 'p0'"
    assert "BatchScan" in plan(spark, query)
    assert len(same(spark, query)) > 6_000
    assert spark.sql(query).rdd.getNumPartitions() == 1


def test_a_column_without_an_index_is_read_by_tasks(spark: SparkSession, indexed: Path) -> None:
    assert "BatchScan" in plan(spark, "SELECT * FROM Person WHERE age = 7")
    same(spark, "SELECT * FROM Person WHERE age = 7")


def test_keys_of_a_join_reach_the_index_of_the_other_side(
    spark: SparkSession, indexed: Path
) -> None:
    query = (
        "SELECT p.id, k.dst FROM Person p JOIN Knows k ON p.id = k.src"
        " WHERE p.id IN ('p2', 'p4', 'p6')"
    )
    assert len(same(spark, query)) == 60
    # Spark infers the condition on the other side from the join, and the index answers both.
    assert "BatchScan" not in plan(spark, query)


def test_a_new_commit_is_looked_up_at_its_own_version(spark: SparkSession, indexed: Path) -> None:
    before = read(spark, indexed, type="Person").where("id = 'new'")
    assert before.collect() == []
    with og.open(str(indexed)).transaction(branch="dev", create_from="main") as tx:
        tx.append("Person", person("new"))
    assert before.collect() == []
    assert len(read(spark, indexed, type="Person", branch="dev").where("id = 'new'").collect()) == 1


def test_statements_change_the_rows_that_an_index_finds(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", SCHEMA)
    graph.write({"node:Person": [{"name": f"p{n}", "age": n} for n in range(50)]})
    og.open(str(graph.root)).build_indexes()
    people = f"{new_catalog(spark, graph.root)}.nodes.Person"
    spark.sql(f"UPDATE {people} SET age = age + 100 WHERE id = 'p7'")
    spark.sql(f"UPDATE {people} SET age = 0 WHERE id IN ('p8', 'p9') AND age > 8")
    spark.sql(f"DELETE FROM {people} WHERE id = 'p10' AND length(name) = 3")
    spark.sql(
        f"MERGE INTO {people} t USING (SELECT 'p11' AS k, 5 AS a UNION ALL SELECT 'q', 6) s"
        " ON t.id = s.k WHEN MATCHED THEN UPDATE SET age = s.a"
        " WHEN NOT MATCHED THEN INSERT (name, age) VALUES (s.k, s.a)"
    )
    changed = spark.sql(
        f"SELECT id, age FROM {people} WHERE id IN ('p7', 'p8', 'p9', 'p10', 'p11', 'q')"
    )
    found = sorted(tuple(row) for row in changed.collect())
    assert found == [("p11", 5), ("p7", 107), ("p8", 8), ("p9", 0), ("q", 6)]
    assert spark.table(people).count() == 50


@pytest.mark.parametrize(
    "query",
    [
        "SELECT min(id), max(id), count(*) FROM Person",
        "SELECT max(src), min(dst), count(src) FROM Knows",
        "SELECT count(id) FROM Person",
    ],
)
def test_ends_of_indexed_columns_and_counts_of_required_ones_take_no_scan(
    spark: SparkSession, indexed: Path, query: str
) -> None:
    assert "LocalTableScan" in plan(spark, query)
    assert len(same(spark, query)) == 1


@pytest.mark.parametrize(
    "query",
    [
        "SELECT min(id) FROM Person WHERE age > 3",
        "SELECT age, min(id) FROM Person GROUP BY age",
        "SELECT min(id), sum(age) FROM Person",
        "SELECT max(age) FROM Person",
        "SELECT count(age) FROM Person",
    ],
)
def test_other_aggregates_are_begun_by_tasks(
    spark: SparkSession, indexed: Path, query: str
) -> None:
    assert "LocalTableScan" not in plan(spark, query)
    same(spark, query)
