"""Answers lost at the worst moment: what may have happened is neither repeated, denied nor undone.

Requests are lost here where a writer decides something by them: the last step of a creation, the
ref of a branch, the fork of a type, the rewriting of the manifest, a conditional put that met
another one.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.compaction import compact_manifest
from omnigraph_spark.errors import ConflictError, OutcomeUnknownError, StorageError
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.publish import LineageIntent, publish
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage import fresh_rows, leases
from omnigraph_spark.storage.branches import read_branch
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.manifest_writer import LostRace
from omnigraph_spark.storage.objects import IN_DOUBT, objects_at
from omnigraph_spark.storage.s3_objects import S3Objects
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.slot import Slot
from omnigraph_spark.writing import forks
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.terms import WriteTerms
from omnigraph_spark.writing.workspace import Workspace
from omnigraph_spark.writing.write import Write
from tests.faults.s3graphs import Place, assert_settled, outcome, place_social, state_of
from tests.faults.s3proxy import Call, Fault, S3Proxy, always, once, s3_proxy
from tests.helpers.crashes import SOCIAL, load
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def proxy(s3: S3Server) -> Iterator[S3Proxy]:
    with s3_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits half a minute for a writer that died with its lease."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.3)


@pytest.fixture
def place(s3: S3Server, proxy: S3Proxy) -> Place:
    return place_social(s3, proxy)


def new_version(call: Call) -> bool:
    """The conditional put that makes a version of the manifest."""
    return call.conditional and "/__manifest/_versions/" in call.path


def new_ref(call: Call) -> bool:
    """The conditional put that makes a branch known."""
    return call.kind == "PUT" and "/_refs/branches/" in call.path


def then_unseen(decisive: Callable[[Call], bool]) -> Callable[[Call], Fault | None]:
    """Lose the answers of a request; after it the manifest can be written and not be read."""
    lost = [False]

    def plan(call: Call) -> Fault | None:
        if decisive(call):
            lost[0] = True
            return Fault.LOST_ANSWER
        reads = call.kind in ("GET", "LIST", "HEAD") and "__manifest" in call.path + call.query
        return Fault.SLOW_DOWN if lost[0] and reads else None

    return plan


# -- creating --------------------------------------------------------------------------------------


def test_a_graph_whose_creation_may_have_come_true_is_left_whole(
    s3: S3Server, proxy: S3Proxy
) -> None:
    """The manifest is there: without its schema files it would be damaged for good."""
    root = f"s3://{s3.make_bucket()}/g"
    storage = {**s3.storage_options, "aws_endpoint": proxy.endpoint, "client_max_retries": "0"}
    with proxy.faults(then_unseen(new_version)), pytest.raises(OutcomeUnknownError):
        og.create(root, SOCIAL, storage=storage)
    graph = og.open(root, storage=s3.storage_options)
    graph.write(pa.table({"name": ["Alice"]}), "Person")
    assert_settled(graph, s3.storage_options)


def test_a_creation_that_was_refused_leaves_nothing(s3: S3Server, proxy: S3Proxy) -> None:
    """Who may not write the last file may try again elsewhere, or with other keys."""
    bucket = s3.make_bucket()
    storage = {**s3.storage_options, "aws_endpoint": proxy.endpoint, "client_max_retries": "0"}

    def denied(call: Call) -> Fault | None:
        manifest = "__manifest" in call.path + call.query and call.kind != "DELETE"
        return Fault.DENIED if manifest and new_version_seen(call) else None

    seen = [False]

    def new_version_seen(call: Call) -> bool:
        seen[0] = seen[0] or new_version(call)
        return seen[0]

    with proxy.faults(denied), pytest.raises(StorageError):
        og.create(f"s3://{bucket}/g", SOCIAL, storage=storage)
    left = s3.client().list_objects_v2(Bucket=bucket).get("Contents", [])
    assert [found["Key"] for found in left if "__manifest" not in found["Key"]] == []


# -- branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 1])
def test_a_branch_whose_ref_is_not_acknowledged_is_made_and_not_refused(
    place: Place, proxy: S3Proxy, retries: int
) -> None:
    """Nobody else made it: `exists already` would send its maker away from its own branch."""
    with proxy.faults(once(Fault.LOST_ANSWER, new_ref)) as faults:
        made = place.open(retries=retries).create_branch("dev")
    assert len(faults) == 1
    assert made.name == "dev"
    place.open("dev").write(pa.table({"name": ["Dora"]}), "Person")
    assert "Dora" in state_of(place.recovered("dev"))["node:Person"]


@pytest.mark.parametrize("last", ["DELETE", "LIST"])
def test_a_branch_that_was_made_and_cannot_be_looked_at_is_not_called_a_failure(
    place: Place, proxy: S3Proxy, last: str
) -> None:
    made = [False]

    def then_denied(call: Call) -> Fault | None:
        denied = made[0] and call.kind == last
        made[0] = made[0] or new_ref(call)
        return Fault.DENIED if denied else None

    with proxy.faults(then_denied) as faults, pytest.raises(StorageError) as raised:
        place.open().create_branch("dev")
    assert faults
    assert raised.value.kind == IN_DOUBT
    place.open("dev").write(pa.table({"name": ["Dora"]}), "Person")
    assert "Dora" in state_of(place.recovered("dev"))["node:Person"]


def test_a_ref_that_arrives_late_finds_its_branch(place: Place, proxy: S3Proxy) -> None:
    """Whoever made it was told of a doubt; the folder it needs was not thrown away."""
    late = always(Fault.DELAYED, new_ref)
    with proxy.faults(late) as faults, pytest.raises(StorageError) as raised:
        place.open(retries=0).create_branch("dev")
    assert faults
    assert raised.value.kind == IN_DOUBT
    proxy.arrived()
    place.open("dev").write(pa.table({"name": ["Dora"]}), "Person")
    assert "Dora" in state_of(place.recovered("dev"))["node:Person"]


@pytest.mark.parametrize("step", ["reserved", "copied"])
def test_half_a_fork_of_a_dead_writer_is_made_whole_by_the_next_one(
    place: Place, proxy: S3Proxy, step: str
) -> None:
    """RS-12 on S3: it belongs to nobody once it outlived a lease."""
    graph = og.open(place.root, storage=place.direct)
    graph.create_branch("dev")
    dead = [False]

    def dies(call: Call) -> Fault | None:
        fork = "/nodes/" in call.path and "/tree/dev/" in call.path and call.conditional
        last = "_reservation" if step == "reserved" else "_versions"
        dies_now, dead[0] = dead[0], dead[0] or (fork and last in call.path)
        return Fault.RESET if dies_now else None

    writer = place.open("dev", retries=0)
    with proxy.faults(dies), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(lambda: load(writer)) != "landed"
    assert dead == [True]
    load(graph.as_branch("dev"))
    assert "Carol" in state_of(place.recovered("dev"))["node:Person"]
    assert "Carol" not in place.state()["node:Person"]


# -- writes that are given up ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.OVERWRITE])
def test_a_write_that_spark_gives_up_while_it_commits_names_no_deleted_file(
    place: Place, monkeypatch: pytest.MonkeyPatch, mode: WriteMode
) -> None:
    """A cancelled statement is aborted in another process, while its commit still runs in one."""
    before = place.state()
    reader = GraphReader.open(place.root, StorageSettings.resolve(place.direct))
    write = Write(reader, "main", WriteTerms())
    task = write.task("Company", mode)
    results = [task.run(pa.table({"name": ["Umbra"]}).to_batches())]
    # They come from a worker.
    monkeypatch.setattr(fresh_rows, "_kept", type(fresh_rows._kept)())
    given_up = pickle.loads(pickle.dumps(write))
    write.add("Company", task, results)
    inspected = Write._inspected

    def then_given_up(self: Write, space: Workspace) -> list[Pending]:
        pending = inspected(self, space)
        given_up.discard_unowned(task, results)
        return pending

    monkeypatch.setattr(Write, "_inspected", then_given_up)
    with pytest.raises(ConflictError, match="given up"):
        write.commit_or_abort()
    assert place.state() == before
    assert_settled(place.recovered(), place.direct)


def test_a_write_that_is_landing_is_not_given_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives it up waits for its lock, and then finds its version."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 30.0)
    reader = GraphReader.open(place.root, StorageSettings.resolve(place.direct))
    write = Write(reader, "main", WriteTerms())
    task = write.task("Company", WriteMode.APPEND)
    results = [task.run(pa.table({"name": ["Umbra"]}).to_batches())]
    given_up = pickle.loads(pickle.dumps(write))
    write.add("Company", task, results)
    with ThreadPoolExecutor(1) as pool:
        tried: list[Future[None]] = []
        points.arm(
            points.BEFORE_SIDECAR,
            lambda: tried.append(pool.submit(given_up.discard_unowned, task, results)),
        )
        try:
            assert write.commit_or_abort() is not None
        finally:
            points.disarm()
        [giving_up] = tried
        giving_up.result()
    assert set(place.state()["node:Company"]) == {"Acme", "Umbra"}


# -- the manifest ----------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 9])
def test_a_compaction_whose_acknowledgement_is_lost_deletes_no_file_that_counts(
    place: Place, proxy: S3Proxy, times: int
) -> None:
    """It happened: the files it wrote are the manifest now."""
    before = place.state()
    manifest = Manifest(place.root, StorageSettings.resolve(place.proxied))
    with proxy.faults(once(Fault.LOST_ANSWER, new_version, times)) as faults:
        # Lance looks whose version is there.
        assert compact_manifest(manifest)
    assert faults
    assert place.state() == before
    load(og.open(place.root, storage=place.direct))
    assert_settled(place.recovered(), place.direct)


def test_a_publish_that_lost_and_cannot_look_again_does_not_say_that_nothing_happened(
    place: Place,
) -> None:
    """What it lost to may have been its own request, carried out and not acknowledged."""
    manifest = Manifest(place.root, StorageSettings.resolve(place.direct))
    state = manifest.head()
    broken = StorageError("transient", place.root, "the connection broke off")
    lineage = LineageIntent("01M7PQSKBKFPJHGQAYC4G2M5TD", 1)
    with (
        patch("omnigraph_spark.publish.merge_rows", return_value=LostRace()),
        patch.object(Manifest, "head", side_effect=broken),
        pytest.raises(OutcomeUnknownError, match=lineage.commit_id),
    ):
        publish(manifest, "main", [], {}, lineage, seen=state)


# -- conditional puts ------------------------------------------------------------------------------


def test_a_conditional_put_stays_in_doubt_when_a_later_try_is_refused(
    place: Place, proxy: S3Proxy
) -> None:
    """The first try may have been carried out, whatever is said about the second."""
    address = f"{place.root}/claim"
    storage = StorageSettings.resolve({**place.proxied, "client_max_retries": "1"})
    answers = iter([Fault.LOST_ANSWER, Fault.CONFLICT, Fault.DENIED])

    def plan(call: Call) -> Fault | None:
        return next(answers, None) if call.conditional else None

    with proxy.faults(plan), pytest.raises(StorageError) as raised:
        objects_at(place.root, storage).put_new(address, b"mine")
    assert raised.value.kind == IN_DOUBT
    assert objects_at(place.root, storage).read(address) == b"mine"


def test_a_version_that_may_be_taken_stays_in_doubt_when_lance_asks_again(place: Place) -> None:
    address = DatasetAddress(place.root, "nodes/any")
    slot = Slot(address, 3, "a transaction", StorageSettings.resolve(place.direct))
    answers = [StorageError(kind, place.root, "") for kind in (IN_DOUBT, "permission")]
    with patch.object(S3Objects, "place", side_effect=answers):
        for _ in answers:
            with pytest.raises(StorageError):
                slot.create_table_version({"version": 4, "manifest_path": "nodes/any/staged"})
    assert slot.failure is not None
    assert slot.failure.kind == IN_DOUBT


def test_a_fork_that_is_published_while_it_is_looked_at_is_not_taken_for_debris(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-41 without a lock: a lease that ran out lets two first writers in at once."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.2)
    og.open(place.root, storage=place.direct).create_branch("dev")
    first, second = (og.open(place.root, branch="dev", storage=place.direct) for _ in range(2))
    looks = 0

    def after_the_first(*about: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 1:
            first.write(pa.table({"name": ["first"]}), "Person")
        return read_branch(*about)

    monkeypatch.setattr(forks, "read_branch", after_the_first)
    second.write(pa.table({"name": ["second"]}), "Person")
    assert looks > 1
    people = state_of(place.recovered("dev"))["node:Person"]
    assert set(people) == {"Alice", "Bob", "first", "second"}
