"""The same query gives the same rows of a graph and of Parquet files, pushed down or not."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.catalog.catalogs import new_catalog
from tests.catalog.query_cases import (
    LINK,
    SCHEMA,
    THING,
    condition,
    links,
    queries,
    spark_rows,
    things,
)
from tests.helpers.builder import GraphBuilder

#: How many conditions and whole queries are tried; more by the variable.
CONDITIONS = int(os.environ.get("OMNIGRAPH_QUERIES", "280"))
QUERIES = max(60, CONDITIONS // 4)
#: One Spark job for so many conditions.
TOGETHER = 20
#: Aggregates of every type, and of no rows; bytes that are no text.
AGGREGATES = (
    "SELECT every(b), some(b), min(b), max(b), count(b) FROM {thing}",
    "SELECT avg(i), avg(n), avg(u), avg(ul), sum(u), sum(ul) FROM {thing}",
    "SELECT min(f), max(f), min(d), max(d), sum(d), avg(f) FROM {thing}",
    "SELECT min(ul), max(ul), min(u), max(u), max(ts), min(ts), min(dt), max(dt) FROM {thing}",
    "SELECT min(s), max(s), max(length(s)), min(length(s)), min(e) FROM {thing} WHERE l IS NULL",
    "SELECT count(*), count(i), min(i), sum(i), max(s) FROM {thing} WHERE s = 'nobody'",
    "SELECT count(*), sum(n) FROM {thing} WHERE id = 'nobody'",
    "SELECT d, count(*), min(n) FROM {thing} GROUP BY d",
    "SELECT ts, dt, count(*), max(f) FROM {thing} GROUP BY ts, dt",
    "SELECT b, e, count(*), min(ul), every(b) FROM {thing} WHERE u >= 0 GROUP BY b, e",
    "SELECT id FROM {thing} WHERE s = cast(X'ff' AS STRING) OR s = 'a'",
    "SELECT id FROM {thing} WHERE s IN (cast(X'ff' AS STRING), 'ab')",
    "SELECT count(*) FROM {thing} WHERE contains(s, cast(X'ff' AS STRING))",
)
ZONES = ("UTC", "America/New_York", "Asia/Kathmandu")


@dataclass(frozen=True)
class Face:
    """One way to the same rows: the names of its tables."""

    thing: str
    old: str
    link: str

    def of(self, query: str) -> str:
        return query.format(thing=self.thing, old=self.old, link=self.link)


@dataclass(frozen=True)
class Faces:
    parquet: Face
    pushed: Face
    plain: Face


@pytest.fixture(scope="module")
def faces(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Faces:
    """A hundred and fifty things in five fragments with deleted rows, and what they were before."""
    folder: Path = tmp_path_factory.mktemp("differential")
    graph = GraphBuilder.create(folder / "graph", SCHEMA)
    old = things(100)
    graph.write({"node:Thing": old}, max_rows_per_file=25)
    changed = things(10, first=40, seed=99)
    new = [*old[:40], *changed, *old[50:90], *things(60, first=100)]
    edges = links([row["name"] for row in new], 80)
    graph.merge("node:Thing", [*changed, *things(60, first=100)])
    graph.delete("node:Thing", "name >= 't090' and name < 't100'")
    graph.append("edge:Link", edges)
    graph.publish()

    def view(name: str, rows: list[dict[str, Any]], columns: str, like: str) -> str:
        path = str(folder / name)
        spark.createDataFrame(spark_rows(rows, columns), columns).write.parquet(path)
        # In the order of the graph's columns: some queries ask for all of them.
        ordered = spark.read.parquet(path).select(spark.table(like).columns)
        ordered.createOrReplaceTempView(f"parquet_{name}")
        return f"parquet_{name}"

    def face(catalog: str) -> Face:
        thing = f"{catalog}.nodes.Thing"
        return Face(thing, f"{thing} VERSION AS OF 4", f"{catalog}.edges.Link")

    pushed = face(new_catalog(spark, graph.root))
    parquet = Face(
        view("thing", new, THING, pushed.thing),
        view("old", old, THING, pushed.thing),
        view("link", edges, LINK, pushed.link),
    )
    return Faces(parquet, pushed, face(new_catalog(spark, graph.root, pushdown="false")))


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def found(spark: SparkSession, query: str) -> Counter[str]:
    # As text: NaN is no different from NaN then, and -0.0 is from 0.0.
    return Counter(repr(tuple(row)) for row in spark.sql(query).collect())


def test_all_faces_have_the_same_rows(spark: SparkSession, faces: Faces) -> None:
    columns = ", ".join(name for name, _ in spark.table(faces.parquet.thing).dtypes)
    for query in (f"SELECT {columns} FROM {{thing}}", f"SELECT {columns} FROM {{old}}"):
        expected = found(spark, faces.parquet.of(query))
        assert found(spark, faces.pushed.of(query)) == expected
        assert found(spark, faces.plain.of(query)) == expected


def test_a_condition_chooses_the_rows_that_spark_would(
    spark: SparkSession, faces: Faces, zone: str
) -> None:
    pick = random.Random(zone)
    pushed = 0
    for turn in range(max(1, CONDITIONS // len(ZONES) // TOGETHER)):
        conditions = distinct_conditions(pick)
        wanted = held(spark, faces.parquet, conditions)
        found, filtered = chosen(spark, faces.pushed, conditions)
        assert found == wanted
        pushed += filtered
        assert held(spark, faces.plain, conditions) == wanted
        if turn == 0:
            found, filtered = chosen(spark, faces.plain, conditions)
            assert found == wanted
            assert filtered == 0
    # The rest has conditions that stay with Spark.
    assert pushed > 0.3 * CONDITIONS / len(ZONES)


def distinct_conditions(pick: random.Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < TOGETHER:
        found[condition(pick)] = None
    return list(found)


def held(spark: SparkSession, face: Face, conditions: list[str]) -> dict[str, list[str]]:
    """The ids of the rows for which each condition holds, by one scan: nothing can be pushed."""
    # Spark takes subqueries only as conditions.
    alone = [each for each in conditions if "SELECT" in each]
    together = [each for each in conditions if each not in alone]
    columns = ", ".join(f"coalesce({face.of(each)}, false)" for each in together)
    rows = spark.sql(f"SELECT id, {columns} FROM {face.thing}").collect()
    out = chosen(spark, face, alone)[0] if alone else {}
    for number, each in enumerate(together, start=1):
        out[each] = sorted(row[0] for row in rows if row[number])
    return out


def union(face: Face, conditions: list[str]) -> str:
    """One query for many conditions: which of them chose a row, and its id."""
    parts = [
        f"SELECT {number} AS n, id FROM {face.thing} WHERE {face.of(each)}"
        for number, each in enumerate(conditions)
    ]
    return " UNION ALL ".join(parts)


def chosen(
    spark: SparkSession, face: Face, conditions: list[str]
) -> tuple[dict[str, list[str]], int]:
    """The ids that each condition chooses, and how many scans have a filter of their own."""
    frame = spark.sql(union(face, conditions))
    out: dict[str, list[str]] = {each: [] for each in conditions}
    for number, id_ in frame.collect():
        out[conditions[number]].append(id_)
    plan = frame._jdf.queryExecution().sparkPlan().toString()
    filtered = plan.count(" pushed=[") - plan.count(" pushed=[]")
    return {each: sorted(ids) for each, ids in out.items()}, filtered


def test_a_query_gives_the_rows_that_spark_would(spark: SparkSession, faces: Faces) -> None:
    for query in islice(queries(seed=7), QUERIES):
        expected = found(spark, faces.parquet.of(query))
        assert found(spark, faces.pushed.of(query)) == expected, query
        assert found(spark, faces.plain.of(query)) == expected, query


@pytest.mark.parametrize("query", AGGREGATES)
def test_values_at_the_ends_are_aggregated_as_spark_does(
    spark: SparkSession, faces: Faces, query: str
) -> None:
    expected = found(spark, faces.parquet.of(query))
    assert found(spark, faces.pushed.of(query)) == expected
    assert found(spark, faces.plain.of(query)) == expected


@pytest.mark.parametrize("limit", ["LIMIT 7", "LIMIT 7 OFFSET 3", "LIMIT 0", "OFFSET 145"])
def test_a_limit_without_an_order_gives_so_many_rows_of_the_table(
    spark: SparkSession, faces: Faces, limit: str
) -> None:
    query = f"SELECT id FROM {{thing}} WHERE n < 4 {limit}"
    all_rows = found(spark, faces.parquet.of("SELECT id FROM {thing} WHERE n < 4"))
    expected = found(spark, faces.parquet.of(query)).total()
    for face in (faces.pushed, faces.plain):
        rows = found(spark, face.of(query))
        assert rows.total() == expected
        assert rows <= all_rows
