"""A snapshot is one commit: whoever joins types read from it never sees half of a write."""

from __future__ import annotations

import itertools
import time
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

import omnigraph_spark as og
from omnigraph_spark.scan import ScanRequest, plan_scan, read_all
from omnigraph_spark.scan_source import ScanSource
from tests.engine.graphs import KNOWS, PERSON, SOCIAL
from tests.helpers.builder import GraphBuilder

pytestmark = pytest.mark.slow

JOINS = 50
#: Enough commits to see, few enough to be there before the reader is through.
COMMITS_SEEN = 5
#: Far above what it takes; a hanging writer fails the test instead of the whole run.
PATIENCE_S = 60


def write_pairs(root: str, number: int, branch: str = "main") -> None:
    """One commit: three people of this number, and edges among them and to the one before.

    People come first, so between the two datasets' commits there are nodes without their edges, and
    every third commit deletes the edges and people of an older one, edges last: then there are
    edges without their nodes. Only a reader of unpublished versions would see either.
    """
    graph = GraphBuilder.open(Path(root))
    names = [f"{number}-{letter}" for letter in "abc"]
    graph.append(PERSON, [{"name": name, "age": number} for name in names], branch=branch)
    ends = list(itertools.pairwise([*names, names[0]]))
    graph.append(
        KNOWS, [{"id": f"{src}>{dst}", "src": src, "dst": dst} for src, dst in ends], branch=branch
    )
    if number % 3 == 0:
        gone = number - 2
        graph.delete(PERSON, f"age = {gone}", branch=branch)
        graph.delete(KNOWS, f"src like '{gone}-%'", branch=branch)
    graph.publish(branch=branch)
    if number % 10 == 0:
        graph.compact_manifest(branch=branch)


def keep_writing(root: str, branch: str, enough: Event) -> None:
    """Publish one commit after another until the reader has seen enough."""
    for number in itertools.count(2):
        if enough.is_set():
            return
        write_pairs(root, number, branch)


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_every_join_sees_one_commit_while_a_writer_publishes(tmp_path: Path, branch: str) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", SOCIAL)
    root = str(graph.root)
    if branch != "main":
        graph.create_branch(branch)
    write_pairs(root, 1, branch)
    spawn = get_context("spawn")
    enough = spawn.Event()
    writer = spawn.Process(target=keep_writing, args=(root, branch, enough))
    writer.start()
    try:
        seen: set[str] = set()
        reader = og.open(root, branch=branch)
        joins, deadline = 0, time.monotonic() + PATIENCE_S
        while joins < JOINS or len(seen) < COMMITS_SEEN:
            snapshot = reader.refresh().snapshot()
            seen.add(snapshot.commit.id)
            assert_joins_within_one_commit(snapshot, edges_first=joins % 2 == 0)
            # The writer takes its time to start; what counts is read while it writes.
            joins += len(seen) > 1
            assert writer.is_alive(), "the writer died"
            assert time.monotonic() < deadline, "the writer hangs"
    finally:
        enough.set()
        writer.join()
    assert writer.exitcode == 0


def assert_joins_within_one_commit(snapshot: og.Snapshot, edges_first: bool) -> None:
    """Read both types, in either order, in small tasks, and join them."""
    keys = [KNOWS, PERSON] if edges_first else [PERSON, KNOWS]
    rows = {}
    for key in keys:
        plan = plan_scan(ScanSource.of(snapshot._state, key), ScanRequest(split_bytes=2_000))
        rows[key] = [row for batch in read_all(plan) for row in batch.to_pylist()]
    people = {person["id"]: person["age"] for person in rows[PERSON]}

    dangling = [e["id"] for e in rows[KNOWS] if not {e["src"], e["dst"]} <= people.keys()]
    assert dangling == []
    assert len(people) == len(rows[PERSON]) == len(rows[KNOWS]) == snapshot.rows(PERSON)
    assert snapshot.rows(PERSON) == snapshot.rows(KNOWS)
    newest = max(people.values())
    assert {people[edge["src"]] for edge in rows[KNOWS]} == set(people.values())
    # The newest tells which commit it is, and that who must be there.
    alive = {n for n in range(1, newest + 1) if not (n % 3 == 1 and n + 2 <= newest)}
    assert set(people.values()) == alive
