"""The core of reading, writing, branching and recovering in buckets, on every server we have."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import (
    ConstraintViolationError,
    GraphExistsError,
    HeadMovedError,
    KeyConflictError,
    StorageError,
)
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.recovery import observe
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from tests.engine.graphs import ages
from tests.engine.object_stores import NAMES, Server, running
from tests.engine.recovering import POST, PRE
from tests.faults.s3graphs import assert_settled, copy_social, state_of
from tests.faults.s3proxy import Fault, always, s3_proxy
from tests.helpers import secrets
from tests.helpers.crashes import WORKS, crashing, load, write_dev
from tests.helpers.engine import run_engine
from tests.helpers.exported import exported_rows
from tests.helpers.s3 import S3Server
from tests.helpers.versitygw import Gateway

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=NAMES)
def server(request: pytest.FixtureRequest, s3: S3Server) -> Iterator[Server]:
    with running(request.param, s3) as found:
        yield found


@pytest.fixture
def graph(server: Server) -> og.Graph:
    return og.open(copy_social(server), storage=server.storage_options)


def again(graph: og.Graph, server: Server, branch: str = "main") -> og.Graph:
    """The same graph as another process opens it, long after any writer died."""
    return og.open(graph.root, branch=branch, storage=server.storage_options)


# -- reading and writing -------------------------------------------------------------------------


def test_every_mode_of_writing_is_there_for_the_next_reader(
    graph: og.Graph, server: Server
) -> None:
    load(graph)
    graph.write(pa.table({"name": ["Umbra", "Vita"]}), "Company", mode="overwrite")
    graph.delete("Person", ids=["Bob"])
    state = state_of(again(graph, server))
    assert {name: row["age"] for name, row in state["node:Person"].items()} == {
        "Alice": 30,
        "Carol": 7,
    }
    assert set(state["node:Company"]) == {"Umbra", "Vita"}
    assert set(state["edge:Knows"]) == {"k2"}
    assert_settled(graph, server.storage_options)


def test_a_snapshot_stays_while_others_write(graph: og.Graph, server: Server) -> None:
    before = graph.snapshot()
    load(again(graph, server))
    assert ages(before) == PRE
    assert ages(graph.refresh()) == POST
    assert ages(graph.at(version=before.manifest_version)) == PRE


def test_what_breaks_a_rule_leaves_nothing(graph: og.Graph, server: Server) -> None:
    before = state_of(graph)
    with pytest.raises(KeyConflictError):
        graph.write(pa.table({"name": ["Alice"]}), "Person")

    def with_a_dangling_edge() -> None:
        with graph.transaction() as tx:
            tx.append("Person", pa.table({"name": ["Dora"]}))
            tx.append("Knows", pa.table({"id": ["k9"], "src": ["Alice"], "dst": ["Nobody"]}))

    with pytest.raises(ConstraintViolationError):
        with_a_dangling_edge()
    assert state_of(again(graph, server)) == before
    assert_settled(graph, server.storage_options)


def test_of_two_overwrites_planned_on_one_commit_one_wins(graph: og.Graph, server: Server) -> None:
    """RS-26: nothing but the store decides."""
    other = again(graph, server)
    first = graph.transaction(on_conflict="fail")
    second = other.transaction(on_conflict="fail")
    with first as tx:
        tx.overwrite("Company", pa.table({"name": ["first"]}))
    with pytest.raises((HeadMovedError, og.errors.ConflictError)), second as tx:
        tx.overwrite("Company", pa.table({"name": ["second"]}))
    assert set(state_of(again(graph, server))["node:Company"]) == {"first"}


def test_a_repeated_piece_of_work_is_done_once(graph: og.Graph, server: Server) -> None:
    """RS-16."""
    rows = pa.table({"name": ["Dora"]})
    terms = {"txn_app_id": "job", "txn_version": 1}
    done = graph.write(rows, "Person", **terms)
    repeated = again(graph, server).write(rows, "Person", **terms)
    assert done is not None
    assert repeated is not None
    assert repeated.id == done.id


def test_a_second_graph_at_the_same_place_is_refused(graph: og.Graph, server: Server) -> None:
    with pytest.raises(GraphExistsError):
        og.create(graph.root, "node A { name: String @key }", storage=server.storage_options)
    assert ages(again(graph, server)) == PRE


# -- branches ------------------------------------------------------------------------------------


def test_branches_are_written_apart_and_go_again(graph: og.Graph, server: Server) -> None:
    graph.create_branch("dev")
    load(graph.as_branch("dev"))
    assert ages(again(graph, server, "dev")) == POST
    assert ages(again(graph, server)) == PRE
    assert_settled(graph.as_branch("dev"), server.storage_options)
    graph.delete_branch("dev")
    assert [branch.name for branch in again(graph, server).branches()] == ["main"]


def test_two_first_writers_of_a_branch_share_its_fork(graph: og.Graph, server: Server) -> None:
    """RS-41."""
    graph.create_branch("dev")
    one, two = (again(graph, server, "dev") for _ in range(2))
    with one.transaction() as first, two.transaction() as second:
        first.append("Person", pa.table({"name": ["One"]}))
        second.append("Person", pa.table({"name": ["Two"]}))
    dev = again(graph, server, "dev")
    assert set(ages(dev)) == {"Alice", "Bob", "One", "Two"}
    assert_settled(dev, server.storage_options)


def test_branches_are_compared_merged_and_their_changes_told(
    graph: og.Graph, server: Server
) -> None:
    graph.create_branch("dev")
    load(graph.as_branch("dev"))
    graph.write(pa.table({"name": ["Alice"], "age": [31]}), "Person", mode="merge")
    counts = graph.diff("main", "dev", type="Person").counts
    assert counts == {"node:Person": {"added": 1, "removed": 0, "changed": 2}}
    merged = graph.merge("dev", into="main")
    assert merged is not None
    main = again(graph, server)
    assert ages(main) == {**POST, "Alice": 31}
    changed = pa.Table.from_batches(
        main.changes(since=main.history()[1].id, type="Person").batches()
    )
    assert sorted(changed["_change_type"].to_pylist()) == [
        "insert",
        "update_postimage",
        "update_preimage",
    ]
    assert_settled(main, server.storage_options)


def test_upkeep_changes_no_row(graph: og.Graph, server: Server) -> None:
    for number in range(3):
        graph.write(pa.table({"name": [f"p{number}"]}), "Person")
    before = state_of(graph)
    graph.build_indexes()
    graph.optimize()
    main = again(graph, server)
    assert state_of(main) == before
    assert main.health() == []
    assert_settled(main, server.storage_options)


# -- dying ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "at", "visible"),
    [
        (points.BEFORE_SIDECAR, 1, PRE),  # RS-10
        (points.SIDECAR_WRITTEN, 1, PRE),  # RS-11
        (points.DATASET_COMMITTED, 1, PRE),  # RS-13
        (points.DATASET_COMMITTED, 2, POST),  # RS-14
        (points.BEFORE_PUBLISH, 1, POST),  # RS-15
        (points.PUBLISH_LANDED, 1, POST),  # RS-16
        (points.AFTER_PUBLISH, 1, POST),  # RS-17
    ],
    ids=lambda value: value.name if isinstance(value, Failpoint) else "",
)
def test_a_writer_that_dies_leaves_all_or_nothing(
    graph: og.Graph,
    server: Server,
    point: Failpoint,
    at: int,
    visible: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RS-10 … RS-17, RS-19: at every point where something became durable."""
    monkeypatch.setattr(observe, "_LEASE_US", 0)
    with crashing(point, at):
        load(graph)
    after = again(graph, server)
    assert ages(after) == visible
    assert_settled(after, server.storage_options)
    after.write(pa.table({"name": ["Zoe"]}), "Person")
    assert len(ages(after)) == len(visible) + 1


@pytest.mark.parametrize("work", ["overwrite", "delete", "merge"])
def test_other_works_that_die_halfway_leave_all_or_nothing(
    graph: og.Graph, server: Server, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-19."""
    monkeypatch.setattr(observe, "_LEASE_US", 0)
    if work == "merge":
        write_dev(graph)
        # So that it is no fast-forward.
        graph.write(pa.table({"name": ["Zed"]}), "Person")
    before = state_of(graph)
    with crashing(points.SIDECAR_WRITTEN):
        WORKS[work](graph)
    assert state_of(again(graph, server)) == before
    with crashing(points.BEFORE_PUBLISH):
        WORKS[work](graph.refresh())
    after = again(graph, server)
    assert state_of(after) != before
    assert_settled(after, server.storage_options)


def test_a_fork_without_a_write_is_used_by_the_next_writer(
    graph: og.Graph, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-12."""
    monkeypatch.setattr(observe, "_LEASE_US", 0)
    graph.create_branch("dev")
    with crashing(points.FORK_CREATED):
        load(graph.as_branch("dev"))
    dev = again(graph, server, "dev")
    assert ages(dev) == PRE
    load(dev)
    assert ages(again(graph, server, "dev")) == POST
    assert_settled(dev, server.storage_options)


@pytest.mark.parametrize("point", [points.DATASET_RESTORED, points.RECOVERY_PUBLISHED])
def test_a_recovery_that_dies_is_recovered_and_dies_again(
    graph: og.Graph, server: Server, point: Failpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-18: it converges, and a second crash adds nothing."""
    monkeypatch.setattr(observe, "_LEASE_US", 0)
    with crashing(points.DATASET_COMMITTED):
        load(graph)
    with crashing(point):
        again(graph, server)
    with crashing(points.RECOVERY_AUDITED):
        again(graph, server)
    after = again(graph, server)
    assert ages(after) == PRE
    assert_settled(after, server.storage_options)


# -- nothing is a folder -------------------------------------------------------------------------


def mark_folders(graph: og.Graph, server: Server) -> None:
    """Leave an empty object for every folder, as a console or a copy by Hadoop does."""
    client = boto3.client("s3", **StorageSettings.resolve(server.storage_options).for_boto3())
    bucket, _, prefix = graph.root.removeprefix("s3://").partition("/")
    keys = [found["Key"] for found in client.list_objects_v2(Bucket=bucket)["Contents"]]
    folders = {key[: at + 1] for key in keys for at, letter in enumerate(key) if letter == "/"}
    more = ("__recovery", "__manifest/_refs/branches", "__manifest/_refs/tags")
    for folder in folders | {f"{prefix}/{name}/" for name in more}:
        client.put_object(Bucket=bucket, Key=folder, Body=b"")


def test_objects_that_stand_for_folders_are_in_nobody_s_way(
    graph: og.Graph, server: Server
) -> None:
    mark_folders(graph, server)
    assert graph.recover() == []
    load(graph)
    graph.create_branch("dev")
    mark_folders(graph, server)
    graph.as_branch("dev").write(pa.table({"name": ["Dora"], "age": [1]}), "Person")
    mark_folders(graph, server)
    graph.merge("dev", into="main")
    graph.delete_branch("dev")
    graph.create_branch("dev")
    graph.build_indexes()
    mark_folders(graph, server)
    graph.optimize()
    main = again(graph, server)
    assert ages(main) == {**POST, "Dora": 1}
    assert main.health() == []
    assert_settled(main, server.storage_options)


def test_a_graph_is_made_where_folders_were_marked_and_nothing_is(server: Server) -> None:
    bucket = server.make_bucket()
    client = boto3.client("s3", **StorageSettings.resolve(server.storage_options).for_boto3())
    for folder in ("g/", "g/nodes/", "g/__manifest/", "g/__recovery/"):
        client.put_object(Bucket=bucket, Key=folder, Body=b"")
    schema = "node A { name: String @key }"
    graph = og.create(f"s3://{bucket}/g", schema, storage=server.storage_options)
    graph.write(pa.table({"name": ["a"]}), "A")
    assert again(graph, server).snapshot().rows("A") == 1


def test_rows_and_control_files_are_in_one_bucket_however_it_is_named(server: Server) -> None:
    """Else Lance takes the first part of the path for the name of a bucket, and writes there."""
    bucket, other = server.make_bucket(), server.make_bucket()
    storage = {**server.storage_options, "aws_virtual_hosted_style_request": "true"}
    graph = og.create(f"s3://{bucket}/{other}/g", "node A { name: String @key }", storage=storage)
    graph.write(pa.table({"name": ["a"]}), "A")
    assert again(graph, server).snapshot().rows("A") == 1
    client = boto3.client("s3", **StorageSettings.resolve(server.storage_options).for_boto3())
    assert client.list_objects_v2(Bucket=other)["KeyCount"] == 0


# -- what is wrong is told within seconds --------------------------------------------------------

#: On a busy machine; alone it is a tenth of this.
SECONDS = 40.0


def refusal(root: str, storage: dict[str, str]) -> StorageError:
    began = time.monotonic()
    with pytest.raises(StorageError) as refused:
        og.open(root, storage=storage)
    assert time.monotonic() - began < SECONDS
    return refused.value


def test_a_server_that_cannot_be_reached_is_named(server: Server) -> None:
    storage = {**server.storage_options, "aws_endpoint": "http://127.0.0.1:1"}
    error = refusal("s3://some-bucket/g", storage)
    assert error.kind == "configuration"
    assert "cannot be reached" in str(error)
    assert "http://127.0.0.1:1" in str(error)
    assert "some-bucket" in str(error)


def test_a_bucket_that_is_not_there_is_named(server: Server) -> None:
    error = refusal("s3://no-such-bucket-here/g", server.storage_options)
    assert error.kind == "configuration"
    assert "no such bucket" in str(error)
    assert "'no-such-bucket-here'" in str(error)
    assert server.endpoint in str(error)


def test_keys_that_the_server_does_not_know_are_told_and_not_printed(server: Server) -> None:
    """moto takes every key, so this is for the gateway."""
    if not isinstance(server, Gateway):
        pytest.skip("moto takes every key")
    root = f"s3://{server.make_bucket()}/g"
    for setting in ("aws_access_key_id", "aws_secret_access_key"):
        wrong = "wrong-7c1f3a"
        error = refusal(root, {**server.storage_options, setting: wrong})
        assert error.kind in ("configuration", "permission")
        assert "keys" in str(error)
        assert server.endpoint in str(error)
        assert wrong not in str(error)


def test_what_the_keys_do_not_permit_is_named(graph: og.Graph, server: Server) -> None:
    """Listing, reading and writing, each refused alone."""
    bucket = graph.root.split("/")[2]
    with s3_proxy(server.endpoint) as proxy:
        storage = {**server.storage_options, "aws_endpoint": proxy.endpoint}
        for kind in ("LIST", "GET"):
            with proxy.faults(always(Fault.DENIED, lambda call, kind=kind: call.kind == kind)):
                error = refusal(graph.root, storage)
            assert error.kind == "permission", kind
            assert proxy.endpoint in str(error), kind
            assert bucket in str(error), kind
        writer = og.open(graph.root, storage=storage)
        began = time.monotonic()
        with (
            proxy.faults(always(Fault.DENIED, lambda call: call.kind == "PUT")),
            pytest.raises(StorageError) as refused,
        ):
            load(writer)
        assert time.monotonic() - began < SECONDS
        assert refused.value.kind == "permission"
        assert proxy.endpoint in str(refused.value)
    assert ages(again(graph, server)) == PRE


def test_a_place_without_a_graph_is_no_failure_of_storage(server: Server) -> None:
    with pytest.raises(og.errors.GraphNotFoundError):
        og.open(f"s3://{server.make_bucket()}/nothing", storage=server.storage_options)


# -- the engine ----------------------------------------------------------------------------------


def engine_at(root: str, server: Server, command: str | Path, *arguments: str | Path) -> str:
    """What the engine prints, reaching the server by the same variables as we do."""
    path_style = {"AWS_ENDPOINT_URL_S3": server.endpoint, "AWS_S3_FORCE_PATH_STYLE": "true"}
    variables = {**server.environment, **path_style}
    return run_engine(command, root, *arguments, settings=variables, check=True).stdout


@pytest.mark.engine
@pytest.mark.parametrize(
    ("point", "people"), [(points.DATASET_COMMITTED, PRE), (points.BEFORE_PUBLISH, POST)]
)
def test_the_engine_finishes_or_undoes_what_a_dead_writer_of_ours_left(
    graph: og.Graph, server: Server, point: Failpoint, people: dict[str, int], tmp_path: Path
) -> None:
    """RS-11, RS-14: opened for writing it recovers, and both read the same rows then."""
    with crashing(point):
        load(graph)
    records = tmp_path / "more.jsonl"
    records.write_text('{"type":"Company","data":{"name":"Umbra"}}\n')
    engine_at(graph.root, server, "load", "--data", records, "--mode", "merge")
    after = og.open(graph.root, mode="r", storage=server.storage_options)
    assert ages(after) == people
    snapshot = after.snapshot()
    ours = [row for key in snapshot.entries for row in exported_rows(key, snapshot.arrow(key))]
    theirs = [json.loads(line) for line in engine_at(graph.root, server, "export").splitlines()]
    assert sorted(map(json.dumps, theirs)) == sorted(map(json.dumps, ours))
    assert_settled(after, server.storage_options)


@pytest.mark.engine
def test_the_engine_opens_exports_and_writes_what_we_wrote(
    graph: og.Graph, server: Server, tmp_path: Path
) -> None:
    """Pointed at the same bucket by the same variables, and we go on after it."""
    load(graph)

    def engine(*command: str | Path) -> str:
        return engine_at(graph.root, server, *command)

    assert engine("export").count('"Person"') == 3
    records = tmp_path / "more.jsonl"
    records.write_text(
        '{"type":"Person","data":{"name":"Erin","age":5}}\n'
        '{"edge":"Knows","from":"Erin","to":"Alice","data":{}}\n'
    )
    engine("load", "--data", records, "--mode", "merge")
    engine("load", "--data", records, "--mode", "merge", "--branch", "dev", "--from", "main")
    assert ages(graph.refresh()) == {**POST, "Erin": 5}
    graph.write(pa.table({"name": ["Dora"]}), "Person")
    graph.as_branch("dev").delete("Person", ids=["Erin"])
    exported = [json.loads(line) for line in engine("export").splitlines()]
    names = {row["data"]["name"] for row in exported if row.get("type") == "Person"}
    assert names == {*POST, "Erin", "Dora"}
    assert '"Erin"' not in engine("export", "--branch", "dev")
    assert "no_drift" in engine("repair", "--json")
    assert_settled(graph, server.storage_options)


# -- what is left in the bucket ------------------------------------------------------------------


def test_no_secret_is_in_any_object_of_a_graph(graph: og.Graph, server: Server) -> None:
    """Also not in what a writer leaves that dies with its sidecar written."""
    with crashing(points.BEFORE_PUBLISH):
        load(graph)
    client = boto3.client("s3", **StorageSettings.resolve(server.storage_options).for_boto3())
    bucket = graph.root.split("/")[2]
    keys = [found["Key"] for found in client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert any("/__recovery/" in key for key in keys)
    bodies = (client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys)
    assert secrets.leaked(body.decode("latin-1") for body in bodies) == []
    assert secrets.leaked([repr(graph), repr(graph.snapshot()), str(graph._state)]) == []


def test_folders_of_more_than_a_page_are_listed_and_deleted_whole(server: Server) -> None:
    store = objects_at("s3://b/g", StorageSettings.resolve(server.storage_options))
    root = f"s3://{server.make_bucket()}/g"
    names = [f"{number:04}" for number in range(1001)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.write(f"{root}/many/{name}", b""), names))
        list(pool.map(lambda name: store.write(f"{root}/deep/{name}/x", b""), names))
    assert [found.name for found in store.listing(f"{root}/many")] == names
    assert store.folders(f"{root}/deep") == names
    store.delete_below(f"{root}/many", keep=[f"{root}/many/kept"])
    assert list(store.listing(f"{root}/many")) == []
    store.delete_below(f"{root}/deep", keep=[f"{root}/deep/0003"])
    assert store.folders(f"{root}/deep") == ["0003"]
