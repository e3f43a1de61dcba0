"""Options of one read: they hold for it as those of a catalog hold for all of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.catalog.catalogs import count, new_catalog, rows
from tests.helpers.builder import GraphBuilder
from tests.helpers.sources import failure
from tests.spark.test_snapshot_pin import SCHEMA, publish_pair

PERSON = "og.nodes.Person"


def read(spark: SparkSession, table: str, **options: Any) -> DataFrame:
    return spark.read.options(**options).table(table)


def test_rows_are_chosen_by_what_the_read_says(spark: SparkSession) -> None:
    older = read(spark, PERSON, where="age > 90")
    assert (older.count(), len(older.where("age < 95").collect())) == (9, 4)
    assert rows(spark, f"SELECT count(*) FROM {PERSON} WITH (where = 'age > 90')") == [(9,)]
    few = read(spark, PERSON, limit=5)
    # Those five, and no others for which the condition holds.
    assert (few.count(), few.where("age >= 50").count()) == (
        5,
        few.count() - few.where("age < 50").count(),
    )
    # By its other name: Spark 4.2 has all mentions of one name take the options of the first.
    other = "(SELECT count(*) FROM og.main.nodes.Person)"
    both = f"SELECT (SELECT count(*) FROM {PERSON} WITH (limit = 7)), {other}"
    assert rows(spark, both) == [(7, 100)]


def test_what_is_pushed_is_decided_by_the_read(spark: SparkSession) -> None:
    def plan(**options: Any) -> str:
        frame = read(spark, PERSON, **options).where("age = 3")
        assert frame.count() == 1
        return str(frame._jdf.queryExecution().sparkPlan())

    assert "pushed=[age IS NOT NULL, age = 3]" in plan(batchSize=3)
    assert "pushed=[]" in plan(pushdown=False)


@pytest.mark.parametrize(
    ("options", "column"),
    [({"columns": "id,age"}, "level"), ({"blobs": "bytes"}, "photo"), ({"blobs": "none"}, "photo")],
)
def test_columns_other_than_the_table_s_are_refused_where_they_are_read(
    spark: SparkSession, options: dict[str, str], column: str
) -> None:
    frame = read(spark, PERSON, **options)
    said = failure(frame.collect)
    assert said.startswith("[OMNIGRAPH_UNSUPPORTED] leaving out or changing column")
    assert f"{column!r}" in said
    assert "to a catalog" in said
    assert len(frame.select("id", "age").where("age < 3").collect()) == 3


def test_a_version_is_one_of_the_table_s_branch(spark: SparkSession, people: GraphBuilder) -> None:
    assert count(spark, "og.dev.nodes.Person") == 101
    [(version,)] = rows(spark, "SELECT max(manifest_version) FROM og.dev.system.commits")
    assert read(spark, "og.dev.nodes.Person", version=version).count() == 101
    assert read(spark, "og.dev.nodes.Person", where="age is null").count() == 1


def test_the_snapshot_is_the_frame_s_whatever_else_the_read_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", SCHEMA)
    publish_pair(graph, 0)
    og = new_catalog(spark, graph.root)
    alone = read(spark, f"{og}.nodes.Person", where="id like 'p%'")
    publish_pair(graph, 1)
    assert alone.count() == 1
    # Where it meets a newer one, both are read at that.
    knows = spark.table(f"{og}.edges.Knows")
    assert alone.join(knows, alone.id == knows.src).count() == 2


def test_what_tables_about_the_graph_do_not_take_is_refused_only_where_the_read_says_it(
    spark: SparkSession, people: GraphBuilder
) -> None:
    og = new_catalog(spark, people.root, limit="2", where="age > 3", columns="id,age")
    assert rows(spark, f"SELECT count(*), max(age) FROM {og}.nodes.Person") == [(2, 5)]
    assert count(spark, f"{og}.system.commits") == count(spark, "og.system.commits") > 2
    assert read(spark, f"{og}.system.commits", batchSize=2).count() > 2
    said = failure(lambda: read(spark, f"{og}.system.commits", limit=1).count())
    assert "[OMNIGRAPH_OPTION_CONFLICT" in said
