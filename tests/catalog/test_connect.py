"""Spark Connect: a real server, reached without the jar and with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession as RemoteSession

import omnigraph_spark as og
from omnigraph_spark import algorithms
from omnigraph_spark.errors import UnsupportedError
from tests.catalog.conftest import SCHEMA
from tests.helpers import secrets
from tests.helpers.builder import GraphBuilder
from tests.helpers.programs import connect_server
from tests.helpers.sources import failure

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose only knowledge of graphs is the installed package."""
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture
def remote(server: str) -> Iterator[Any]:
    session = RemoteSession.builder.remote(server).create()
    yield session
    session.stop()


@pytest.fixture
def graph(tmp_path: Path) -> GraphBuilder:
    built = GraphBuilder.create(tmp_path / "graph", SCHEMA)
    persons = [{"name": f"p{n}", "age": n} for n in range(10)]
    built.write({"node:Person": persons, "edge:Knows": [{"id": "k", "src": "p1", "dst": "p2"}]})
    return built


def rows(session: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(sql).collect()]


def test_keys_are_refused_where_the_server_would_log_them(remote: Any) -> None:
    """A Connect server writes what a client sets to its event log; it fetches keys itself."""
    for name in ("storage.aws_secret_access_key", "storage.session_token", "Storage.Token"):
        with pytest.raises(UnsupportedError, match="credentials=module:function") as refused:
            og.attach(remote, options={name: secrets.TOKEN}, other="s3://bucket/g")
        assert secrets.leaked([str(refused.value)]) == []


def test_without_the_jar_graphs_are_read_written_and_viewed(
    remote: Any, graph: GraphBuilder
) -> None:
    person = remote.read.format("omnigraph").option("type", "Person").load(str(graph.root))
    assert person.where("age = 3").count() == 1
    assert person.count() == 10
    new = remote.createDataFrame([("new", 77)], "name string, age int")
    write = new.write.format("omnigraph").mode("append").option("type", "Person")
    write.save(str(graph.root))
    again = remote.read.format("omnigraph").option("type", "Person").load(str(graph.root))
    assert again.count() == 11
    remote.sql(
        f"CREATE TEMPORARY VIEW person USING omnigraph OPTIONS (path '{graph.root}', type 'Person')"
    ).collect()
    assert rows(remote, "SELECT max(age) FROM person") == [(77,)]


def test_without_the_jar_the_python_api_works_with_a_session(
    remote: Any, graph: GraphBuilder
) -> None:
    opened = og.open(str(graph.root), spark=remote)
    joined = opened.nodes("Person").join(opened.edges("Knows").selectExpr("src AS id", "dst"), "id")
    assert joined.count() == 1
    opened.write(remote.createDataFrame([("p1", 50)], "name string, age int"), "Person", "merge")
    assert opened.entity("Person", "p1")["age"] == 50


def test_without_the_jar_algorithms_run_on_the_server(
    remote: Any, graph: GraphBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As `SparkSession.builder.remote(…)` leaves it: functions then make columns of Connect.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    ring = [{"id": f"r{n}", "src": f"p{n}", "dst": f"p{(n + 1) % 4}"} for n in range(4)]
    graph.write({"edge:Knows": ring})
    opened = og.open(str(graph.root), spark=remote)
    given = opened.nodes("Person"), opened.edges("Knows")
    components = {row["component"] for row in algorithms.connected_components(*given).collect()}
    assert components == {"p0", *(f"p{n}" for n in range(4, 10))}
    paths = algorithms.shortest_paths(*given, ["p0"]).collect()
    assert {row["id"]: row["distance"] for row in paths} == {"p0": 0, "p1": 1, "p2": 2, "p3": 3}
    ranks = algorithms.pagerank(*given, max_rounds=3, checkpoint=str(tmp_path / "rounds"))
    assert abs(sum(row["pagerank"] for row in ranks.collect()) - 1) < 1e-6
    out = {row["id"]: row["out_degree"] for row in algorithms.degrees(*given).collect()}
    assert (out["p1"], out["p9"]) == (2, 0)
    labels = {row["id"]: row["label"] for row in algorithms.label_propagation(*given).collect()}
    assert labels["p9"] == "p9"


def test_a_client_brings_the_jar_and_has_the_catalog(remote: Any, graph: GraphBuilder) -> None:
    og.attach(remote, og=str(graph.root))
    assert rows(remote, "SELECT count(*) FROM og.nodes.Person WHERE age < 5") == [(5,)]
    assert rows(remote, "CALL og.system.create_branch('dev')")[0][0] == "dev"
    frame = remote.sql("CALL og.system.create_branch('once')")
    assert frame.collect() == frame.collect()
    assert rows(
        remote,
        "SELECT p.name FROM og.dev.nodes.Person p JOIN og.dev.edges.Knows k ON p.id = k.dst",
    ) == [("p2",)]
    rows(remote, "INSERT INTO og.nodes.Person (name) VALUES ('late')")
    counts = "SELECT count(*) FROM og.nodes.Person"
    assert rows(remote, counts) == [(11,)]
    assert rows(remote, f"{counts} VERSION AS OF 'dev'") == [(10,)]
    said = failure(lambda: rows(remote, "SELECT * FROM og.nodes.Nobody"))
    assert "TABLE_OR_VIEW_NOT_FOUND" in said
    said = failure(lambda: rows(remote, "CALL og.system.create_branch('dev')"))
    assert "[OMNIGRAPH_BRANCH_EXISTS] branch 'dev' exists already" in said
    person = remote.read.format("omnigraph").option("type", "Person").load(str(graph.root))
    assert "pushed=[age IS NOT NULL, age = 3]" in person.where("age = 3")._explain_string()


def test_statements_that_change_rows_run_through_connect(remote: Any, graph: GraphBuilder) -> None:
    og.attach(remote, og=str(graph.root))
    before = len(og.open(str(graph.root), mode="r").history())
    rows(remote, "UPDATE og.nodes.Person SET age = age + 100 WHERE age >= 8")
    rows(remote, "DELETE FROM og.nodes.Person WHERE name = 'p1'")
    rows(
        remote,
        "MERGE INTO og.nodes.Person p"
        " USING (SELECT * FROM VALUES ('p2', 22), ('p3', NULL), ('late', 99) AS v(id, age)) s"
        " ON p.id = s.id WHEN MATCHED AND s.age IS NULL THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET age = s.age"
        " WHEN NOT MATCHED THEN INSERT (name, age) VALUES (s.id, s.age)",
    )
    assert dict(rows(remote, "SELECT name, age FROM og.nodes.Person")) == {
        "p0": 0,
        "p2": 22,
        **{f"p{n}": n for n in range(4, 8)},
        "p8": 108,
        "p9": 109,
        "late": 99,
    }
    assert rows(remote, "SELECT count(*) FROM og.edges.Knows") == [(0,)], "the edge of p1 went too"
    assert len(og.open(str(graph.root), mode="r").history()) == before + 3


def test_the_script_in_conf_starts_a_server_with_the_catalog_and_its_logging(
    tmp_path: Path, graph: GraphBuilder
) -> None:
    with connect_server(tmp_path, str(graph.root)) as address:
        session = RemoteSession.builder.remote(address).create()
        assert rows(session, "SELECT count(*) FROM og.nodes.Person WHERE age > 3") == [(6,)]
        session.stop()
    log = (tmp_path / "connect.log").read_text(encoding="utf-8")
    # Neither the logging of Spark, nor a file that log4j does not understand.
    assert "Using Spark's default log4j profile" not in log
    assert "INFO SparkContext" not in log
    assert not re.search("StatusLogger|StatusConfigLogger", log)
