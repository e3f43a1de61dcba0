"""All tables of one statement, and of one executed plan, are of one commit; the next sees the next.

Every commit of the writer below adds a person and the edge from it to itself: whoever sees one
without the other reads two commits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.catalog.catalogs import count, new_catalog, rows
from tests.helpers.builder import GraphBuilder
from tests.spark.test_snapshot_pin import SCHEMA, publish_pair, publishing

#: How often each kind of statement is tried while the writer is at work.
ROUNDS = 8
ALONE = "p.id IS NULL OR k.id IS NULL"


@pytest.fixture
def graph(tmp_path: Path) -> GraphBuilder:
    built = GraphBuilder.create(tmp_path / "graph", SCHEMA)
    publish_pair(built, 0)
    return built


@pytest.fixture
def og(spark: SparkSession, graph: GraphBuilder) -> str:
    return new_catalog(spark, graph.root)


def by_statement(spark: SparkSession, og: str) -> DataFrame:
    return spark.sql(
        f"SELECT p.id, k.id FROM {og}.nodes.Person p FULL JOIN {og}.edges.Knows k ON p.id = k.src "
        f"WHERE {ALONE}"
    )


def by_subqueries(spark: SparkSession, og: str) -> DataFrame:
    return spark.sql(
        f"SELECT * FROM (SELECT (SELECT count(*) FROM {og}.nodes.Person) AS p, "
        f"(SELECT count(*) FROM {og}.edges.Knows WHERE src >= '') AS k, "
        f"(SELECT count(DISTINCT id) FROM {og}.main.nodes.Person) AS d) WHERE p <> k OR p <> d"
    )


def by_named_queries(spark: SparkSession, og: str) -> DataFrame:
    return spark.sql(
        f"WITH k AS (SELECT * FROM {og}.edges.Knows), p AS (SELECT * FROM {og}.nodes.Person) "
        f"SELECT 1 FROM k WHERE src NOT IN (SELECT id FROM p) "
        f"UNION ALL SELECT 2 FROM p WHERE NOT EXISTS (SELECT 1 FROM k WHERE k.dst = p.id)"
    )


def by_views(spark: SparkSession, og: str) -> DataFrame:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW persons AS SELECT * FROM {og}.nodes.Person")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW knows AS SELECT * FROM {og}.edges.Knows")
    return spark.sql(f"SELECT 1 FROM persons p FULL JOIN knows k ON p.id = k.src WHERE {ALONE}")


def by_frames(spark: SparkSession, og: str) -> DataFrame:
    persons = spark.table(f"{og}.nodes.Person").alias("p")
    knows = spark.table(f"{og}.edges.Knows").alias("k")
    return persons.join(knows, persons.id == knows.src, "full").where(ALONE)


def by_itself(spark: SparkSession, og: str) -> DataFrame:
    first, second = (spark.table(f"{og}.nodes.Person").alias(alias) for alias in "pk")
    return first.join(second, "id", "full").where(ALONE)


@pytest.mark.parametrize(
    "dangling",
    [by_statement, by_subqueries, by_named_queries, by_views, by_frames, by_itself],
    ids=lambda function: function.__name__,
)
def test_nothing_dangles_while_a_writer_publishes(
    spark: SparkSession,
    graph: GraphBuilder,
    og: str,
    dangling: Callable[[SparkSession, str], DataFrame],
) -> None:
    with publishing(graph) as commits:
        for _ in range(ROUNDS):
            assert dangling(spark, og).collect() == []
    assert commits, "the writer was at work"


@pytest.mark.smoke
def test_frames_made_at_different_times_agree_where_they_meet(
    spark: SparkSession, graph: GraphBuilder, og: str
) -> None:
    persons = spark.table(f"{og}.nodes.Person")
    publish_pair(graph, 1)
    knows = spark.table(f"{og}.edges.Knows")
    joined = persons.join(knows, persons.id == knows.src, "full")
    publish_pair(graph, 2)
    assert joined.count() == 2
    assert joined.where(persons.id.isNull() | knows.id.isNull()).count() == 0
    # Alone, each stays with what it was made at.
    assert (persons.count(), knows.count()) == (1, 2)


def test_a_graph_is_one_however_its_root_is_written(
    spark: SparkSession, graph: GraphBuilder
) -> None:
    plain, slash, scheme = (
        new_catalog(spark, root) for root in (graph.root, f"{graph.root}/", f"file://{graph.root}")
    )
    persons = spark.table(f"{slash}.nodes.Person")
    publish_pair(graph, 1)
    knows = spark.table(f"{plain}.edges.Knows")
    publish_pair(graph, 2)
    named = spark.table(f"{scheme}.nodes.Person")
    joined = persons.join(knows, persons.id == knows.src, "full").join(named, "id", "full")
    assert joined.where(persons.id.isNull() | knows.id.isNull() | named.id.isNull()).count() == 0
    assert joined.count() == 3


def test_a_new_statement_sees_new_commits_and_a_view_is_read_anew(
    spark: SparkSession, graph: GraphBuilder, og: str
) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW anew AS SELECT * FROM {og}.nodes.Person")
    for number in (1, 2):
        assert count(spark, f"{og}.nodes.Person") == count(spark, "anew") == number
        publish_pair(graph, number)


def test_a_snapshot_that_the_statement_names_is_its_own(
    spark: SparkSession, graph: GraphBuilder, og: str
) -> None:
    [(version,)] = rows(spark, f"SELECT max(manifest_version) FROM {og}.system.commits")
    publish_pair(graph, 1)
    named = f"{og}.nodes.Person VERSION AS OF {version}"
    assert rows(
        spark,
        f"SELECT (SELECT count(*) FROM {named}), (SELECT count(*) FROM {og}.nodes.Person), "
        f"(SELECT count(*) FROM {og}.nodes.Person n ANTI JOIN {named} o ON n.id = o.id)",
    ) == [(1, 2, 1)]
    frame = spark.read.option("versionAsOf", version).table(f"{og}.nodes.Person")
    assert frame.count() == 1


def test_a_time_is_of_the_session_s_zone(spark: SparkSession, graph: GraphBuilder, og: str) -> None:
    publish_pair(graph, 1)
    written = "date_format({at}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
    just_before = written.format(at="max(created_at) - INTERVAL '0.000001' SECOND")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        times = f"SELECT {just_before}, {written.format(at='max(created_at)')}"
        [(before, at)] = rows(spark, f"{times} FROM {og}.system.commits")
        for time, found in ((before, 1), (at, 2)):
            assert count(spark, f"{og}.nodes.Person TIMESTAMP AS OF '{time}'") == found
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_branches_of_one_statement_are_each_at_one_version(
    spark: SparkSession, graph: GraphBuilder, og: str
) -> None:
    graph.create_branch("dev")
    graph.write({"node:Person": [{"name": "dev"}]}, branch="dev")
    publish_pair(graph, 1)
    assert rows(
        spark,
        f"SELECT m.id, d.id FROM {og}.nodes.Person m FULL JOIN {og}.dev.nodes.Person d "
        f"ON m.id = d.id ORDER BY coalesce(m.id, d.id)",
    ) == [(None, "dev"), ("p0", "p0"), ("p1", None)]


# The wrong-row trap: what Spark keeps of a Python source's plan must not reach the next query.


@pytest.mark.smoke
def test_a_table_has_all_its_rows_again_after_a_filter(spark: SparkSession) -> None:
    frame = spark.table("og.nodes.Person")
    assert frame.where("age = 3").count() == 1
    assert frame.count() == 100
    assert len(frame.where("age < 10").collect()) == 10
    assert len(frame.collect()) == 100


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT name FROM {t} WHERE age = 3 UNION ALL SELECT name FROM {t} WHERE age = 5",
            [("p03",), ("p05",)],
        ),
        (
            "SELECT a.name, b.name FROM {t} a JOIN {t} b ON a.age = b.age + 1 WHERE b.age = 5",
            [("p06", "p05")],
        ),
        (
            "SELECT a.name, b.name FROM {t} a CROSS JOIN {t} b WHERE a.age = 3 AND b.age = 5",
            [("p03", "p05")],
        ),
        (
            "SELECT (SELECT count(*) FROM {t} WHERE age < 3), (SELECT count(*) FROM {t})",
            [(3, 100)],
        ),
    ],
)
@pytest.mark.parametrize("name", ["og.nodes.Person", "kept_person"])
def test_filters_of_one_query_keep_apart(
    spark: SparkSession, name: str, query: str, expected: list[tuple[object, ...]]
) -> None:
    spark.table("og.nodes.Person").createOrReplaceTempView("kept_person")
    assert sorted(rows(spark, query.format(t=name))) == expected
