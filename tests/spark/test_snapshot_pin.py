"""One DataFrame is one commit, and so is everything read from one snapshot, whoever publishes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import omnigraph_spark as og
from tests.helpers.builder import GraphBuilder
from tests.helpers.sources import failure, read

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person
"""
JOINS = 50


@pytest.fixture
def graph(tmp_path: Path) -> GraphBuilder:
    graph = GraphBuilder.create(tmp_path / "graph", SCHEMA)
    publish_pair(graph, 0)
    return graph


def publish_pair(graph: GraphBuilder, n: int) -> str:
    """One commit that adds a person and the edge from it to itself."""
    name = f"p{n}"
    edge = {"id": f"k{n}", "src": name, "dst": name}
    return graph.write({"node:Person": [{"name": name}], "edge:Knows": [edge]})


@pytest.mark.smoke
def test_a_frame_keeps_its_snapshot_while_a_writer_publishes(
    spark: SparkSession, graph: GraphBuilder
) -> None:
    before = read(spark, graph.root, type="Person")
    publish_pair(graph, 1)
    assert before.count() == 1
    graph.delete("node:Person", "true")
    graph.publish()
    assert [row["name"] for row in before.collect()] == ["p0"]
    assert read(spark, graph.root, type="Person").count() == 0


def test_a_view_keeps_the_snapshot_it_was_made_at(spark: SparkSession, graph: GraphBuilder) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW pinned USING omnigraph "
        f"OPTIONS (path '{graph.root}', type 'Person')"
    )
    publish_pair(graph, 1)
    assert spark.sql("SELECT count(*) FROM pinned").collect() == [(1,)]


def test_with_a_user_s_schema_the_first_action_takes_the_snapshot(
    spark: SparkSession, graph: GraphBuilder
) -> None:
    """Spark asks such a source nothing before that."""
    reader = spark.read.format("omnigraph").schema("name string").option("type", "Person")
    frame = reader.load(str(graph.root))
    publish_pair(graph, 1)
    assert frame.count() == 2
    publish_pair(graph, 2)
    assert frame.count() == 2


def test_tables_about_the_graph_keep_their_snapshot(
    spark: SparkSession, graph: GraphBuilder
) -> None:
    commits = read(spark, graph.root, table="commits")
    known = commits.count()
    publish_pair(graph, 1)
    assert commits.count() == known
    assert read(spark, graph.root, table="commits").count() == known + 1


def test_frames_of_one_snapshot_belong_together(spark: SparkSession, graph: GraphBuilder) -> None:
    snapshot = og.open(str(graph.root), spark=spark).snapshot()
    nodes = snapshot.nodes("Person")
    publish_pair(graph, 1)
    edges = snapshot.edges("Knows")
    assert (nodes.count(), edges.count()) == (1, 1)


@contextmanager
def publishing(graph: GraphBuilder) -> Iterator[list[str]]:
    """Another writer publishes pairs all the while, a few each second."""
    stop = threading.Event()
    commits: list[str] = []

    def loop() -> None:
        while not stop.wait(0.2):
            commits.append(publish_pair(graph, len(commits) + 1))

    writer = threading.Thread(target=loop)
    writer.start()
    try:
        yield commits
    finally:
        stop.set()
        writer.join()


def test_every_join_sees_one_commit_while_a_writer_publishes(
    spark: SparkSession, graph: GraphBuilder
) -> None:
    """Every commit has as many persons as edges, and no edge without its person."""
    seen = []
    opened = og.open(str(graph.root), spark=spark)
    with publishing(graph) as commits:
        for _ in range(JOINS):
            snapshot = opened.refresh().snapshot()
            persons, knows = snapshot.nodes("Person"), snapshot.edges("Knows")
            joined = f.broadcast(persons).join(knows, persons.id == knows.src, "full")
            row = joined.agg(
                f.count(persons.id).alias("persons"),
                f.count(knows.id).alias("edges"),
                f.count_if(persons.id.isNull() | knows.id.isNull()).alias("alone"),
            ).first()
            assert row is not None
            assert (row["alone"], row["persons"]) == (0, row["edges"])
            assert row["persons"] == snapshot.rows("Person") == snapshot.rows("Knows")
            seen.append(row["persons"])
    assert seen == sorted(seen)
    assert len(set(seen)) > JOINS // 2, "the writer was at work all the while"
    assert len(commits) >= seen[-1] - 1


def test_a_snapshot_that_does_not_exist_is_refused(
    spark: SparkSession, graph: GraphBuilder
) -> None:
    text = failure(lambda: read(spark, graph.root, type="Person", version=99))
    assert "[OMNIGRAPH_VERSION_NOT_FOUND] branch 'main' has no manifest version 99" in text
