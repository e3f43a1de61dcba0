"""What reading costs in requests to the object store, and that it stays so as history grows.

Numbers are exact: a request more is found here before it is found on a bill.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import FormatTooNewError
from omnigraph_spark.scan import ScanPlan, ScanRequest, plan_scan, read_all
from omnigraph_spark.scan_source import ScanSource
from tests.helpers.builder import MANIFEST_SCHEMA, STAMP, GraphBuilder
from tests.helpers.rows import new_ulid
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.slow

SOCIAL = """
node Person { name: String @key age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""
PERSON, COMPANY, KNOWS = "node:Person", "node:Company", "edge:Knows"

T = TypeVar("T")


class Bill:
    """Runs something and says what it cost."""

    def __init__(self, server: S3Server) -> None:
        self.server = server

    def of(self, action: Callable[[], T]) -> tuple[T, Counter[str], str]:
        """The answer, the requests by kind, and all of them as text for a failing assertion."""
        self.server.reset()
        answer = action()
        requests = "\n".join(map(str, self.server.requests()))
        return answer, self.server.counts(), f"requests:\n{requests}"

    def paths(self, kind: str) -> list[str]:
        """The objects asked for since the last action began, without bucket and prefix."""
        requests = (request for request in self.server.requests() if request.kind == kind)
        return [request.path.split("/", 3)[-1] for request in requests]


@pytest.fixture
def bill(s3: S3Server) -> Bill:
    return Bill(s3)


def write_graph(root: Path) -> GraphBuilder:
    graph = GraphBuilder.create(root, SOCIAL)
    graph.write(
        {
            PERSON: [{"name": "Alice", "age": 30}, {"name": "Bob", "age": 41}],
            COMPANY: [{"name": "Acme"}],
            KNOWS: [{"id": "k1", "src": "Alice", "dst": "Bob"}],
        }
    )
    return graph


def publish_many(graph: GraphBuilder, count: int) -> None:
    """Publish commits without a change, quickly: one manifest version each, with its commit row.

    The head row is left to the last publish, so none of these has to look for a row to replace.
    """
    manifest = graph.manifest()
    for _ in range(count):
        row = {
            "object_id": new_ulid(),
            "object_type": "graph_commit",
            "metadata": json.dumps({"created_at": graph.clock_us()}),
            "table_key": "",
            "table_version": manifest.version + 1,
        }
        manifest = lance.write_dataset(
            pa.Table.from_pylist([row], schema=MANIFEST_SCHEMA), manifest, mode="append"
        )


def keep_newest_data(graph: GraphBuilder) -> None:
    """Drop what only older manifest versions read: there is less to upload, nothing else."""
    manifest = graph.root / "__manifest"
    used = {
        file.path
        for fragment in graph.manifest().get_fragments()
        for file in fragment.metadata.files
    }
    for file in (manifest / "data").iterdir():
        if file.name not in used:
            file.unlink()
    shutil.rmtree(manifest / "_transactions")


@pytest.fixture
def upload(s3: S3Server) -> Callable[[GraphBuilder], str]:
    return lambda graph: s3.upload(graph.root, f"s3://{s3.make_bucket()}/graphs/social")


@pytest.fixture
def open_graph(s3: S3Server) -> Callable[..., og.Graph]:
    return lambda uri, branch="main": og.open(
        uri, branch=branch, mode="r", storage=s3.storage_options
    )


def plan(graph: og.Graph | og.Snapshot, key: str = PERSON, where: str | None = None) -> ScanPlan:
    snapshot = graph.snapshot() if isinstance(graph, og.Graph) else graph
    return plan_scan(ScanSource.of(snapshot._state, key), ScanRequest(where=where))


# -- history -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def histories(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The same graph after 10 and after 500 commits, its manifest compacted as `optimize` does."""
    uris = {}
    for commits in (10, 500):
        graph = write_graph(tmp_path_factory.mktemp("history") / "graph")
        publish_many(graph, commits - 3)  # besides genesis, the rows and the last one
        graph.publish()
        graph.compact_manifest()
        keep_newest_data(graph)
        uris[commits] = s3.upload(graph.root, f"s3://{s3.make_bucket()}/graphs/{commits}")
    return uris


def test_opening_and_planning_cost_the_same_after_10_and_after_500_commits(
    bill: Bill, histories: dict[int, str], open_graph: Callable[..., og.Graph]
) -> None:
    for commits, uri in histories.items():
        graph, opening, requests = bill.of(partial(open_graph, uri))
        # Which version is newest, that version, its rows; three schema files and their lock.
        assert opening == {"LIST": 1, "HEAD": 1, "GET": 2 + 4}, (commits, opening, requests)

        tasks, planning, requests = bill.of(partial(plan, graph))
        assert planning == {"HEAD": 1, "GET": 1}, (commits, planning, requests)
        assert len(tasks.tasks) == 1
        rows, scanning, requests = bill.of(lambda tasks=tasks: list(read_all(tasks)))
        # The one file there is, in one piece: it is small.
        assert scanning == {"GET": 1}, (commits, scanning, requests)
        assert sum(batch.num_rows for batch in rows) == 2
        assert len(graph.history()) == commits


def copied(s3: S3Server, uri: str) -> str:
    """The same graph in a bucket of its own, to be written to."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    client, own = s3.client(), s3.make_bucket()
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for found in page["Contents"]:
            source = {"Bucket": bucket, "Key": found["Key"]}
            client.copy_object(Bucket=own, Key=found["Key"], CopySource=source)
    return f"s3://{own}/{prefix}"


def test_a_small_commit_costs_the_same_after_10_and_after_500_commits(
    bill: Bill, s3: S3Server, histories: dict[int, str]
) -> None:
    costs = {}
    for commits, uri in histories.items():
        graph = og.open(copied(s3, uri), storage=s3.storage_options)
        # Opens what any first write of a process opens.
        add_one_of_each(graph, 0)
        _, counts, requests = bill.of(partial(add_one_of_each, graph, 1))
        assert counts.total() <= 40, (commits, counts, requests)
        costs[commits] = counts
    assert costs[10] == costs[500]


def test_a_second_plan_in_the_same_process_costs_one_probe(
    bill: Bill, histories: dict[int, str], open_graph: Callable[..., og.Graph]
) -> None:
    for commits, uri in histories.items():
        plan(open_graph(uri))

        graph, opening, requests = bill.of(partial(open_graph, uri))
        assert opening == {"LIST": 1}, (commits, opening, requests)
        for where in (None, "age > 30", "name = 'Alice'"):
            _, planning, requests = bill.of(partial(plan, graph, where=where))
            assert planning == {}, (commits, planning, requests)


# -- one snapshot --------------------------------------------------------------------------------


def test_every_dataset_of_a_snapshot_is_opened_once(
    bill: Bill,
    tmp_path: Path,
    upload: Callable[[GraphBuilder], str],
    open_graph: Callable[..., og.Graph],
) -> None:
    graph = open_graph(upload(write_graph(tmp_path / "graph")))
    snapshot = graph.snapshot()

    def read_all_types_twice() -> None:
        for _ in range(2):
            for key in snapshot.entries:
                snapshot.arrow(key)
                snapshot.arrow(key, columns=["id"], where="id = 'Alice'", limit=1)
                list(read_all(plan(snapshot, key)))

    _, counts, requests = bill.of(read_all_types_twice)

    assert (counts["HEAD"], counts["LIST"]) == (3, 0), requests
    # Three versions; what was read of a file is fetched again by whoever filters it.
    assert counts.total() <= 3 + 3 + 8, requests
    opened = [path for path in bill.paths("GET") if "/_versions/" in path]
    assert len(opened) == len(set(opened)) == 3, requests


def test_publishing_one_type_opens_only_that_type_again(
    bill: Bill, s3: S3Server, tmp_path: Path, open_graph: Callable[..., og.Graph]
) -> None:
    builder = write_graph(tmp_path / "graph")
    uri = s3.upload(builder.root, f"s3://{s3.make_bucket()}/graphs/social")
    graph = open_graph(uri)
    for key in graph.entries:
        graph.snapshot().arrow(key)
    builder.write({PERSON: [{"name": "Carol"}]})
    s3.upload(builder.root, uri)

    def refresh_and_read() -> None:
        snapshot = graph.refresh().snapshot()
        for key in snapshot.entries:
            plan(snapshot, key)

    _, counts, requests = bill.of(refresh_and_read)

    opened = [path for path in bill.paths("HEAD") if not path.startswith("social/__manifest")]
    assert len(opened) == 1, requests
    assert opened[0].startswith("social/nodes/"), requests
    assert counts["LIST"] == 1, requests


def test_nothing_but_the_version_is_read_before_a_wrong_stamp(
    bill: Bill,
    tmp_path: Path,
    upload: Callable[[GraphBuilder], str],
    open_graph: Callable[..., og.Graph],
) -> None:
    builder = write_graph(tmp_path / "graph")
    builder.manifest().update_schema_metadata({STAMP: "6"})
    uri = upload(builder)

    def refused() -> None:
        with pytest.raises(FormatTooNewError, match=r"^\[OMNIGRAPH_FORMAT_TOO_NEW\]"):
            open_graph(uri)

    _, counts, requests = bill.of(refused)

    assert counts == {"LIST": 1, "HEAD": 1, "GET": 1}, requests
    assert all("/__manifest/_versions/" in path for path in bill.paths("GET")), requests


# -- branches ------------------------------------------------------------------------------------


def test_a_warm_plan_on_a_branch_of_a_branch_is_one_probe_too(
    bill: Bill,
    tmp_path: Path,
    upload: Callable[[GraphBuilder], str],
    open_graph: Callable[..., og.Graph],
) -> None:
    builder = write_graph(tmp_path / "graph")
    builder.create_index(PERSON, "id")
    builder.publish()
    builder.create_branch("dev")
    builder.write({PERSON: [{"name": "Carol"}]}, branch="dev")
    builder.create_branch("sub", source="dev")
    builder.write({PERSON: [{"name": "Dave"}]}, branch="sub")
    uri = upload(builder)

    graph = open_graph(uri, "sub")
    _, cold, requests = bill.of(lambda: plan(graph, where="id = 'Dave'"))
    # Read, rebased to this root (Lance looks again), and asked once where its index is.
    assert cold == {"HEAD": 2, "GET": 1, "LIST": 1}, requests

    _, warm, requests = bill.of(lambda: plan(open_graph(uri, "sub"), where="id = 'Alice'"))
    assert warm == {"LIST": 1}, requests
    entity, found, requests = bill.of(lambda: graph.entity(PERSON, "Dave"))
    assert entity is not None
    assert (found["LIST"], found["HEAD"]) == (0, 0), requests


# -- writing -------------------------------------------------------------------------------------


def add_one_of_each(graph: og.Graph, number: int) -> None:
    """The smallest commit of two types: a person, and an edge to somebody who was there."""
    with graph.transaction() as tx:
        tx.append(PERSON, pa.table({"name": [f"n{number}"]}))
        tx.append(KNOWS, pa.table({"src": [f"n{number}"], "dst": ["Alice"]}))


@pytest.fixture
def written(s3: S3Server) -> og.Graph:
    """A graph that was compacted, in a process that has used its indexes."""
    root = f"s3://{s3.make_bucket()}/graphs/social"
    graph = og.create(root, SOCIAL, storage=s3.storage_options)
    graph.write(pa.table({"name": ["Alice", "Bob"]}), PERSON)
    for number in range(3):
        add_one_of_each(graph, number)
    graph.optimize()
    for key in (PERSON, KNOWS):
        assert graph.entity(key, "nobody") is None
    return graph


def test_a_small_commit_takes_at_most_forty_requests(bill: Bill, written: og.Graph) -> None:
    _, counts, requests = bill.of(lambda: add_one_of_each(written, 10))
    # Once: sidecars and the newest manifest, before and in the window; the lock, the sidecar and
    # the change of schema; the publish, which Lance reads and writes; the new manifest.
    # Per type: its rows written, what they refer to looked up, its head, its commit.
    assert counts == {"LIST": 9, "GET": 7, "PUT": 14, "DELETE": 4}, requests
    assert counts.total() <= 40, requests


FIRST_COMMIT = """
import json, sys
import omnigraph_spark as og
from tests.cost.test_requests import add_one_of_each
graph = og.open(sys.argv[1], storage=json.loads(sys.argv[2]))
print("opened", flush=True)
sys.stdin.readline()
add_one_of_each(graph, 10)
print("done", flush=True)
"""


def test_the_first_commit_of_a_process_takes_at_most_forty_requests_too(
    bill: Bill, s3: S3Server, written: og.Graph
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FIRST_COMMIT]
    with subprocess.Popen(
        [*command, written.root, json.dumps(s3.storage_options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "opened\n"

        def commit() -> None:
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "done\n"

        _, counts, requests = bill.of(commit)
    # Besides: both datasets are opened, and of both indexes the pages looked up.
    assert counts == {"LIST": 9, "HEAD": 2, "GET": 11, "PUT": 14, "DELETE": 4}, requests
    assert counts.total() <= 40, requests
    assert len(written.refresh().snapshot().arrow(PERSON)) == 6


def test_what_a_commit_costs_more_after_others_is_a_fragment_of_the_manifest_each(
    bill: Bill, written: og.Graph
) -> None:
    """Until the manifest is compacted, which happens by itself."""
    totals = []
    for number in range(10, 16):
        _, counts, _ = bill.of(partial(add_one_of_each, written, number))
        totals.append(counts.total())
    growth = [after - before for before, after in pairwise(totals[2:])]
    assert max(growth) <= 2, totals
    written.optimize()
    for key in (PERSON, KNOWS):
        written.entity(key, "nobody")
    _, counts, requests = bill.of(lambda: add_one_of_each(written, 99))
    assert counts.total() <= 40, requests


def test_what_this_process_published_is_not_read_again(bill: Bill, written: og.Graph) -> None:
    add_one_of_each(written, 10)
    _, counts, requests = bill.of(written.refresh)
    assert counts == {"LIST": 1}, requests
    fresh, counts, requests = bill.of(
        lambda: og.open(written.root, mode="r", storage=dict(written._state.settings.given))
    )
    assert counts.total() <= 3, requests
    assert fresh.history() == written.history()
    assert fresh.entries == written.entries


# -- time travel ---------------------------------------------------------------------------------


def test_what_time_travel_costs(
    bill: Bill,
    tmp_path: Path,
    upload: Callable[[GraphBuilder], str],
    open_graph: Callable[..., og.Graph],
) -> None:
    builder = write_graph(tmp_path / "graph")
    builder.write({PERSON: [{"name": "Carol"}]})
    builder.create_branch("dev")
    on_dev = builder.write({PERSON: [{"name": "Dave"}]}, branch="dev")
    uri = upload(builder)
    graph = open_graph(uri)
    newest, older, _ = graph.history()

    _, cold, requests = bill.of(lambda: graph.at(version=4))
    # One probe, the old version, its two fragments; what was deleted of the first is known.
    assert cold == {"LIST": 1, "HEAD": 1, "GET": 1 + 2}, requests

    costs: dict[str, Callable[[], object]] = {
        "version": lambda: graph.at(version=4),
        "commit": lambda: graph.at(commit=older.id),
        "head": lambda: graph.at(commit=newest.id),
        "timestamp": lambda: graph.at(timestamp=older.created_at),
        "branch": lambda: graph.at(branch="main"),
        "history": graph.history,
        "refresh": graph.refresh,
    }
    for name, action in costs.items():
        _, warm, requests = bill.of(action)
        assert warm == {"LIST": 1}, (name, requests)

    graph.at(branch="dev")
    _, elsewhere, requests = bill.of(lambda: graph.at(commit=on_dev))
    # Not on main: the list of branches, then the other branch.
    assert elsewhere == {"LIST": 3}, requests

    old = graph.at(version=4)
    plan(old)
    _, again, requests = bill.of(lambda: plan(graph.at(version=4)))
    assert again == {"LIST": 1}, requests
