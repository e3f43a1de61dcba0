"""SQL on buckets: reading, travelling, branching, merging, and what is told when it cannot be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark.errors import InvalidOptionError
from omnigraph_spark.session.configure import catalog_settings
from tests.catalog.catalogs import count, new_catalog, rows
from tests.engine.object_stores import NAMES, Server, hadoop_settings, running
from tests.faults.s3graphs import assert_settled
from tests.helpers import secrets
from tests.helpers.crashes import load, write_social
from tests.helpers.s3 import S3Server
from tests.helpers.sources import failure, read

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=NAMES)
def server(request: pytest.FixtureRequest, s3: S3Server) -> Iterator[Server]:
    with running(request.param, s3) as found:
        yield found


@pytest.fixture(scope="module")
def graph(server: Server) -> og.Graph:
    """Alice and Bob; Carol came with the second commit."""
    graph = write_social(f"s3://{server.make_bucket()}/graphs/social", server.storage_options)
    load(graph)
    return graph


def catalog(spark: SparkSession, server: Server, root: str, **changed: str) -> str:
    """A catalog with the settings of a server, some of them changed; keys are fetched."""
    storage = {key: value for key, value in server.storage_options.items() if "key" not in key}
    keys = secrets.moto_keys if isinstance(server, S3Server) else secrets.gateway_keys
    storage["credentials"] = f"{secrets.__name__}:{keys.__name__}"
    options: dict[str, Any] = {
        f"storage.{key}": value for key, value in {**storage, **changed}.items()
    }
    return new_catalog(spark, root, **options)


def test_types_are_selected_joined_and_seen_as_they_were(
    spark: SparkSession, server: Server, graph: og.Graph
) -> None:
    name = catalog(spark, server, graph.root.replace("s3://", "s3a://"))
    people = f"{name}.nodes.Person"
    assert rows(spark, f"SELECT id, age FROM {people} WHERE age > 35") == [("Bob", 42)]
    joined = f"SELECT p.id FROM {people} p JOIN {name}.edges.Knows k ON k.src = p.id"
    assert {id_ for (id_,) in rows(spark, joined)} == {"Alice", "Carol"}
    before = graph.history()[1].id
    assert count(spark, people) == 3
    assert count(spark, f"{people} VERSION AS OF '{before}'") == 2
    assert count(spark, f"{name}.system.commits") == 3


def test_branches_are_made_written_and_merged(spark: SparkSession, server: Server) -> None:
    root = f"s3://{server.make_bucket()}/g"
    graph = write_social(root, server.storage_options)
    name = catalog(spark, server, root)
    rows(spark, f"CALL {name}.system.create_branch('dev')")
    graph.as_branch("dev").write(pa.table({"name": ["Dora"], "age": [3]}), "Person")
    assert count(spark, f"{name}.dev.nodes.Person") == 3
    assert count(spark, f"{name}.nodes.Person") == 2
    rows(spark, f"CALL {name}.system.merge_branch(source => 'dev', target => 'main')")
    assert count(spark, f"{name}.nodes.Person") == 3
    assert_settled(graph, server.storage_options)


def test_every_kind_of_statement_writes(spark: SparkSession, server: Server) -> None:
    root = f"s3://{server.make_bucket()}/g"
    graph = write_social(root, server.storage_options)
    name = catalog(spark, server, root)
    people = f"{name}.nodes.Person"
    for statement in (
        f"INSERT INTO {people} (name, age) VALUES ('Cy', 3), ('Dan', 4)",
        f"UPDATE {people} SET age = age + 1 WHERE length(name) = 2",
        (
            f"MERGE INTO {people} t USING (SELECT 'Dan' AS name, 40 AS age) s ON t.id = s.name"
            " WHEN MATCHED THEN UPDATE SET age = s.age"
            " WHEN NOT MATCHED THEN INSERT (name, age) VALUES (s.name, s.age)"
        ),
        f"DELETE FROM {people} WHERE id = 'Bob'",
    ):
        before = len(graph.refresh().history())
        rows(spark, statement)
        assert len(graph.refresh().history()) == before + 1
    found = dict(rows(spark, f"SELECT id, age FROM {people}"))
    assert {id_: found[id_] for id_ in found if id_ != "Alice"} == {"Cy": 4, "Dan": 40}
    ends = rows(spark, f"SELECT src, dst FROM {name}.edges.Knows")
    assert "Bob" not in {end for row in ends for end in row}
    assert_settled(graph, server.storage_options)


@contextmanager
def said_to_hadoop(spark: SparkSession, where: str, settings: dict[str, str]) -> Iterator[None]:
    """Settings for Hadoop's own client: of the session, or of its context as core-site.xml is."""
    context = spark.sparkContext._jsc.hadoopConfiguration()
    known = spark.conf if where == "session" else context
    for key, value in settings.items():
        known.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            known.unset(key)


@pytest.mark.parametrize("where", ["session", "context"])
def test_settings_of_the_session_for_hadoop_s_own_client_suffice(
    spark: SparkSession, server: Server, where: str
) -> None:
    """Catalogs and frames, reading and writing; and nobody is shown the keys."""
    root = f"s3a://{server.make_bucket()}/g"
    write_social(root, server.storage_options)
    with said_to_hadoop(spark, where, hadoop_settings(server)):
        people = f"{new_catalog(spark, root)}.nodes.Person"
        rows(spark, f"INSERT INTO {people} (name, age) VALUES ('Cy', 3)")
        assert rows(spark, f"SELECT id FROM {people} WHERE age > 35") == [("Bob",)]
        frame = read(spark, root, type="Person")
        frame.selectExpr("'Dan' AS name", "age").limit(1).write.format("omnigraph").mode(
            "append"
        ).option("type", "Person").save(root)
        assert count(spark, people) == 4
        shown = [
            *rows(spark, f"EXPLAIN EXTENDED SELECT * FROM {people} WHERE age > 3"),
            *rows(spark, f"EXPLAIN EXTENDED INSERT INTO {people} (name) VALUES ('Eve')"),
            *rows(spark, f"DESCRIBE EXTENDED {people}"),
            *rows(spark, f"SHOW TBLPROPERTIES {people}"),
        ]
        assert secrets.leaked(map(str, shown)) == []
        assert secrets.leaked([frame._jdf.queryExecution().toString()]) == []


def test_options_of_a_catalog_win_over_settings_for_hadoop_s_own_client(
    spark: SparkSession, server: Server, graph: og.Graph
) -> None:
    nowhere = {"fs.s3a.endpoint": "http://127.0.0.1:1", "fs.s3a.access.key": "nobody"}
    with said_to_hadoop(spark, "session", {**nowhere, "fs.s3a.secret.key": "nothing"}):
        name = catalog(spark, server, graph.root)
        assert count(spark, f"{name}.nodes.Person") == 3


def test_no_key_is_in_a_plan_a_description_or_a_setting(
    spark: SparkSession, server: Server, graph: og.Graph
) -> None:
    """Nor in the event log and in what is printed, which is looked at after all tests."""
    name = catalog(spark, server, graph.root)
    people = f"{name}.nodes.Person"
    shown = [
        *rows(spark, f"EXPLAIN EXTENDED SELECT * FROM {people} WHERE age > 3"),
        *rows(spark, f"EXPLAIN FORMATTED SELECT count(*) FROM {people}"),
        *rows(spark, f"DESCRIBE EXTENDED {people}"),
        *rows(spark, f"SHOW TBLPROPERTIES {people}"),
        *rows(spark, "SET spark.sql.catalog.og.storage.aws_secret_access_key"),
        *rows(spark, "SET"),
    ]
    assert any(people in str(row) for row in shown)
    assert secrets.leaked(map(str, shown)) == []


#: On a busy machine; alone it is a tenth of this.
SECONDS = 60.0


def test_what_is_wrong_is_told_within_seconds(
    spark: SparkSession, server: Server, graph: og.Graph
) -> None:
    def told(name: str) -> str:
        began = time.monotonic()
        text = failure(lambda: rows(spark, f"SELECT * FROM {name}.nodes.Person"))
        assert time.monotonic() - began < SECONDS
        assert "[OMNIGRAPH_STORAGE]" in text
        assert secrets.leaked([text]) == []
        return text

    nowhere = told(catalog(spark, server, graph.root, aws_endpoint="http://127.0.0.1:1"))
    assert "cannot be reached" in nowhere
    assert "http://127.0.0.1:1" in nowhere
    missing = told(catalog(spark, server, "s3://no-such-bucket-here/g"))
    assert "'no-such-bucket-here'" in missing
    assert server.endpoint in missing
    if not isinstance(server, S3Server):
        # moto takes every key.
        wrong = f"{secrets.__name__}:{secrets.moto_keys.__name__}"
        assert "keys" in told(catalog(spark, server, graph.root, credentials=wrong))


def test_a_running_session_takes_keys_and_hides_them(
    spark: SparkSession, server: Server, graph: og.Graph, event_log: Path
) -> None:
    """As it does with those it was started with; whatever else is set later is in its event log."""
    options = {f"storage.{key}": value for key, value in server.storage_options.items()}
    name = f"attached_{'moto' if isinstance(server, S3Server) else 'gateway'}"
    og.attach(spark, options=options, **{name: graph.root})
    people = f"{name}.nodes.Person"
    assert rows(spark, f"SELECT id FROM {people} WHERE age > 35") == [("Bob",)]
    # Rows through a job of Spark's, whose settings the event log has.
    assert rows(
        spark, f"SELECT count(DISTINCT p.id) FROM {people} p JOIN {people} q ON p.age = q.age"
    )
    shown = [
        *rows(spark, "SET"),
        *rows(spark, f"DESCRIBE EXTENDED {people}"),
        *rows(spark, f"SHOW TBLPROPERTIES {people}"),
        *rows(spark, f"EXPLAIN EXTENDED SELECT * FROM {people} WHERE age > 3"),
        *rows(spark, f"EXPLAIN FORMATTED SELECT count(*) FROM {people}"),
        *rows(spark, f"EXPLAIN EXTENDED INSERT INTO {people} (name) VALUES ('Eve')"),
    ]
    assert secrets.leaked(map(str, shown)) == []
    logged = [path.read_text(encoding="latin-1") for path in event_log.rglob("*") if path.is_file()]
    assert any(name in text for text in logged)
    assert secrets.leaked(logged) == []


def test_a_function_that_fetches_keys_goes_by_its_name() -> None:
    known = catalog_settings({"og": "s3://b/g"}, {"storage.credentials": secrets.moto_keys})
    named = f"{secrets.__name__}:{secrets.moto_keys.__name__}"
    assert known["spark.sql.catalog.og.storage.credentials"] == named
    keys = secrets.moto_keys()
    with pytest.raises(InvalidOptionError, match="import"):
        catalog_settings({"og": "s3://b/g"}, {"storage.credentials": lambda: keys})
