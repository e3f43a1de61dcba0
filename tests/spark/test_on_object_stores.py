"""Spark on buckets: the core of reading, writing, branching, merging and recovering; keys; faults.

Every test runs on each server there is. Executors are processes of their own, so what they read and
write proves that settings and keys reached them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.recovery import observe
from tests.engine.object_stores import NAMES, Server, hadoop_settings, running
from tests.faults.s3graphs import assert_settled, state_of
from tests.faults.s3proxy import Call, Fault, S3Proxy, always, s3_proxy
from tests.helpers import rotating
from tests.helpers.crashes import SOCIAL, crashing
from tests.helpers.s3 import S3Server
from tests.helpers.sources import failure, read
from tests.helpers.versitygw import Gateway

pytestmark = pytest.mark.slow

#: The longest anything may take, on a busy machine; alone it is a tenth of this.
SECONDS = 60.0


@pytest.fixture(scope="module", params=NAMES)
def server(request: pytest.FixtureRequest, s3: S3Server) -> Iterator[Server]:
    with running(request.param, s3) as found:
        yield found


@pytest.fixture(scope="module")
def proxy(server: Server) -> Iterator[S3Proxy]:
    with s3_proxy(server.endpoint) as running:
        yield running


def people(spark: SparkSession, start: int, end: int, age: str = "id") -> DataFrame:
    rows = spark.range(start, end, 1, 2)
    return rows.selectExpr("concat('p', id) AS name", f"cast({age} AS int) AS age")


def ring(spark: SparkSession, count: int) -> DataFrame:
    rows = spark.range(0, count, 1, 2)
    return rows.selectExpr("concat('p', id) AS src", f"concat('p', (id + 1) % {count}) AS dst")


def write_ring(graph: og.Graph, spark: SparkSession, count: int = 20) -> None:
    with graph.transaction() as tx:
        tx.append("Person", people(spark, 0, count))
        tx.append("Knows", ring(spark, count))


@pytest.fixture
def graph(server: Server, spark: SparkSession) -> og.Graph:
    """An empty graph, with Hadoop's name for its place."""
    root = f"s3a://{server.make_bucket()}/graphs/social"
    return og.create(root, SOCIAL, storage=server.storage_options, spark=spark)


@pytest.fixture(scope="module")
def filled(server: Server, spark: SparkSession) -> og.Graph:
    """A graph for tests that only read: twenty persons in a ring."""
    root = f"s3://{server.make_bucket()}/graphs/social"
    graph = og.create(root, SOCIAL, storage=server.storage_options, spark=spark)
    write_ring(graph, spark)
    return graph


def options(server: Server, **changed: str) -> dict[str, str]:
    """Settings of the object store as options of a reader or writer."""
    return {f"storage.{key}": value for key, value in {**server.storage_options, **changed}.items()}


def ages(frame: DataFrame) -> dict[str, int]:
    rows = [(row["name"], row["age"]) for row in frame.collect()]
    assert len(rows) == len(dict(rows))
    return dict(rows)


RING = {f"p{n}": n for n in range(20)}


# -- reading and writing -------------------------------------------------------------------------


def test_types_are_read_and_joined_at_one_snapshot(
    filled: og.Graph, server: Server, spark: SparkSession
) -> None:
    frame = read(spark, filled.root, type="Person", where="age >= 15", **options(server))
    assert ages(frame) == {name: age for name, age in RING.items() if age >= 15}
    assert filled.triplets("Knows").where("src.age + 1 = dst.age").count() == 19
    assert filled.at(version=filled.history()[-1].manifest_version).nodes("Person").count() == 0
    table = read(spark, filled.root, table="commits", **options(server))
    assert table.count() == len(filled.history())


def test_every_mode_of_writing_is_there_for_the_next_reader(
    graph: og.Graph, server: Server, spark: SparkSession
) -> None:
    def save(frame: DataFrame, **wanted: str) -> None:
        writer = frame.write.format("omnigraph").mode("append").options(**options(server), **wanted)
        writer.save(graph.root.replace("s3://", "s3a://"))

    save(people(spark, 0, 20), type="Person")
    save(people(spark, 10, 30, "-id"), type="Person", writeMode="merge")
    save(ring(spark, 30), type="Knows")
    graph.refresh().delete("Person", where="age = 0")
    left = {f"p{n}": n if n < 10 else -n for n in range(1, 30)}
    assert ages(graph.nodes("Person")) == left
    assert graph.edges("Knows").count() == 28
    graph.write(people(spark, 0, 5).select("name"), "Company", mode="overwrite")
    assert len(state_of(graph)["node:Company"]) == 5
    assert_settled(graph, server.storage_options)


def test_a_transaction_is_one_commit_and_sees_its_own_rows(
    graph: og.Graph, server: Server, spark: SparkSession
) -> None:
    with graph.transaction() as tx:
        tx.append("Person", people(spark, 0, 20))
        tx.append("Knows", ring(spark, 20))
        assert tx.nodes("Person").count() == 20
        assert og.open(graph.root, storage=server.storage_options).snapshot().rows("Person") == 0
    assert len(graph.history()) == 2
    assert graph.triplets("Knows").count() == 20
    assert_settled(graph, server.storage_options)


def test_branches_are_compared_and_merged(
    graph: og.Graph, server: Server, spark: SparkSession
) -> None:
    write_ring(graph, spark)
    more = people(spark, 15, 25, "100 + id").write.format("omnigraph").mode("append")
    more = more.options(type="Person", branch="dev", createBranchFrom="main", writeMode="merge")
    more.options(**options(server)).save(graph.root)
    diff = graph.diff("main", "dev", type="Person")
    assert diff.groupBy("change").count().collect()
    assert diff.counts == {"node:Person": {"added": 5, "removed": 0, "changed": 5}}
    graph.write(people(spark, 0, 2, "7"), "Person", mode="merge")
    merged = graph.merge("dev", into="main")
    assert merged is not None
    after = {**RING, "p0": 7, "p1": 7, **{f"p{n}": 100 + n for n in range(15, 25)}}
    assert ages(graph.refresh().nodes("Person")) == after
    changes = graph.changes(since=graph.history()[1].id, type="Person")
    assert changes.where("_change_type = 'insert'").count() == 5
    assert_settled(graph, server.storage_options)


@pytest.mark.parametrize(
    ("point", "rows"), [(points.SIDECAR_WRITTEN, 0), (points.BEFORE_PUBLISH, 20)]
)
def test_a_driver_that_dies_leaves_all_or_nothing(
    graph: og.Graph,
    server: Server,
    spark: SparkSession,
    point: Failpoint,
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RS-11, RS-14."""
    monkeypatch.setattr(observe, "_LEASE_US", 0)
    with crashing(point):
        write_ring(graph, spark)
    after = og.open(graph.root, storage=server.storage_options, spark=spark)
    assert (after.nodes("Person").count(), after.edges("Knows").count()) == (rows, rows)
    assert_settled(after, server.storage_options)


# -- where settings and keys come from -----------------------------------------------------------


def test_settings_of_the_session_for_hadoop_s_own_client_suffice(
    filled: og.Graph, server: Server, spark: SparkSession
) -> None:
    hadoop = hadoop_settings(server)
    for key, value in hadoop.items():
        spark.conf.set(key, value)
    try:
        graph = og.open(filled.root.replace("s3://", "s3a://"), mode="r")
        assert ages(graph.nodes("Person")) == RING
    finally:
        for key in hadoop:
            spark.conf.unset(key)


def test_keys_of_a_function_that_only_the_driver_has_reach_the_executors(
    filled: og.Graph, server: Server
) -> None:
    known = dict(server.storage_options)
    pair = {name: known.pop(f"aws_{name}") for name in ("access_key_id", "secret_access_key")}
    graph = og.open(filled.root, mode="r", storage={**known, "credentials": lambda: pair})
    assert ages(graph.nodes("Person")) == RING


def keys_used(proxy: S3Proxy) -> set[str]:
    return {call.access_key for call in proxy.calls}


def test_keys_that_expire_are_renewed_by_tasks_that_were_planned_with_the_old_ones(
    s3: S3Server, spark: SparkSession
) -> None:
    """RS-65: one DataFrame, used for longer than its keys live, and rows that it writes."""
    with s3_proxy(s3.endpoint) as proxy:
        storage = {
            "aws_endpoint": proxy.endpoint,
            "allow_http": "true",
            "aws_virtual_hosted_style_request": "false",
            "credentials": f"{rotating.__name__}:{rotating.keys.__name__}",
        }
        root = f"s3://{s3.make_bucket()}/g"
        with proxy.faults(rotating.refuse_old) as refused:
            graph = og.create(root, SOCIAL, storage=storage, spark=spark)
            write_ring(graph, spark)
            frame = graph.nodes("Person")
            planned = keys_used(proxy)
            deadline = time.monotonic() + SECONDS
            rounds = 0
            # Until those that it was planned with are refused.
            while len(keys_used(proxy) - planned) < 3 and time.monotonic() < deadline:
                assert ages(frame) == RING
                rounds += 1
                graph.write(people(spark, 100 * rounds, 100 * rounds + 5), "Person")
            # Asked while the network is there: a graph reads again what it wrote itself.
            assert graph.snapshot().rows("Person") == 20 + 5 * rounds
    assert refused == []
    assert len(keys_used(proxy) - planned) > 2


def test_keys_that_expired_end_a_job_cleanly(
    filled: og.Graph, server: Server, proxy: S3Proxy, spark: SparkSession
) -> None:
    """RS-65: the tasks of a DataFrame that was planned in time are refused, and so is a write."""
    through = options(server, aws_endpoint=proxy.endpoint, client_max_retries="1")
    frame = read(spark, filled.root, type="Person", **through)
    commits = len(filled.refresh().history())
    with proxy.faults(always(Fault.EXPIRED, lambda call: True)):
        assert "expired" in failure(frame.collect)
        writer = people(spark, 50, 60).write.format("omnigraph").mode("append")
        assert "expired" in failure(
            lambda: writer.options(type="Person", **through).save(filled.root)
        )
    # Spark keeps a plan that failed, so the old frame goes on failing.
    assert ages(read(spark, filled.root, type="Person", **through)) == RING
    assert len(filled.refresh().history()) == commits


# -- what is wrong is told within seconds --------------------------------------------------------


def told(action: Callable[[], Any], *names: str) -> str:
    """What Spark says of a failing action, which takes seconds and names these."""
    began = time.monotonic()
    text = failure(action)
    assert time.monotonic() - began < SECONDS
    assert "[OMNIGRAPH_STORAGE]" in text
    for name in names:
        assert name in text
    return text


def test_the_driver_names_what_it_cannot_reach(
    filled: og.Graph, server: Server, spark: SparkSession
) -> None:
    nowhere = options(server, aws_endpoint="http://127.0.0.1:1")
    text = told(lambda: read(spark, filled.root, type="Person", **nowhere), "http://127.0.0.1:1")
    assert "cannot be reached" in text
    missing = "s3://no-such-bucket-here/g"
    text = told(
        lambda: read(spark, missing, type="Person", **options(server)),
        "'no-such-bucket-here'",
        server.endpoint,
    )
    assert "no such bucket" in text


def test_the_driver_tells_of_keys_without_printing_them(
    filled: og.Graph, server: Server, spark: SparkSession
) -> None:
    if not isinstance(server, Gateway):
        pytest.skip("moto takes every key; versitygw, which `make s3-server` installs, does not")
    wrong = options(server, aws_secret_access_key="wrong-7c1f3a")
    text = told(lambda: read(spark, filled.root, type="Person", **wrong), server.endpoint)
    assert "keys" in text
    assert "wrong-7c1f3a" not in text


@pytest.mark.parametrize("fault", [Fault.DENIED, Fault.RESET, Fault.SLOW_DOWN], ids=str)
def test_a_task_names_server_and_bucket_when_it_may_not_or_cannot_read(
    filled: og.Graph, server: Server, proxy: S3Proxy, spark: SparkSession, fault: Fault
) -> None:
    through = options(server, aws_endpoint=proxy.endpoint, client_max_retries="1")
    frame = read(spark, filled.root, type="Person", **through)

    def of_data(call: Call) -> bool:
        return call.kind == "GET" and "/data/" in call.path

    bucket = filled.root.split("/")[2]
    with proxy.faults(always(fault, of_data)):
        told(frame.collect, proxy.endpoint, bucket)
    assert ages(frame) == RING
