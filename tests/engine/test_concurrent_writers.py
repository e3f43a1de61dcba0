"""Sixteen processes write to one graph at once: every row once, every refusal clear, one history.

One round by default; OMNIGRAPH_ROUNDS=200 runs as many. With `-s` each test prints what became of
the writes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph_spark as og
from tests.engine.object_stores import NAMES, running
from tests.engine.writer_work import (
    LANDED,
    add_edge_or_delete_node,
    insert_on_new_branch,
    insert_on_own_branch,
    insert_own,
    insert_same,
    merge_same,
    overwrite,
)
from tests.engine.writing import ages, assert_whole, ids, people, write_staffed
from tests.faults.s3graphs import assert_settled
from tests.helpers.engine import engine_export, engine_json
from tests.helpers.racers import Racers, waiting_racers
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("OMNIGRAPH_ROUNDS", "1"))
WRITERS = 16
#: Sixteen processes on a busy machine of two cores take minutes to start, and half a minute for a
#: round: each answers after every round, so that is all this has to last for.
_PATIENCE_S = 600.0

Work = Callable[[str, dict[str, str] | None, int, int, int], str | None]
KEY_CONFLICT, CONFLICT = "OMNIGRAPH_KEY_CONFLICT", "OMNIGRAPH_CONFLICT"
HEAD_MOVED, EXPECTED = "OMNIGRAPH_HEAD_MOVED", "OMNIGRAPH_EXPECTED_VERSION"
VIOLATION = "OMNIGRAPH_CONSTRAINT_VIOLATION"


@pytest.fixture(scope="module")
def crowd() -> Iterator[Racers]:
    """Sixteen processes, started once."""
    with waiting_racers(WRITERS, _PATIENCE_S) as racers:
        yield racers


def race(
    racers: Racers,
    work: Work,
    graph: og.Graph,
    writers: int = WRITERS,
    rounds: int = ROUNDS,
    storage: dict[str, str] | None = None,
) -> list[Counter[str | None]]:
    """Let all writers do their work in every round; what became of it, round by round."""
    outcomes: list[Counter[str | None]] = []
    for number in range(rounds):
        args = [(graph.root, storage, me, number) for me in range(writers)]
        answers = racers.run(work, *args, rounds=1)
        outcomes.append(Counter(found for [found] in answers))
    print(f"\n{work.__name__}, {rounds} rounds of {writers}: {dict(sum(outcomes, Counter()))}")
    return outcomes


def assert_one_line(graph: og.Graph, commits: int, since: int = 2) -> None:
    """There are so many new commits, and each is the parent of the next."""
    history = graph.refresh().history()
    assert len(history) == since + commits
    assert [commit.parent_id for commit in history[:-1]] == [commit.id for commit in history[1:]]
    versions = [commit.manifest_version for commit in history]
    assert versions == sorted(set(versions), reverse=True)


def test_of_sixteen_that_insert_the_same_key_one_wins(graph: og.Graph, crowd: Racers) -> None:
    """RS-23."""
    outcomes = race(crowd, insert_same, graph)
    assert outcomes == [Counter({LANDED: 1, KEY_CONFLICT: WRITERS - 1})] * ROUNDS
    assert len(ids(graph.refresh(), "Person")) == 3 + ROUNDS
    assert_one_line(graph, ROUNDS)
    assert_whole(graph)


def test_sixteen_that_insert_keys_of_their_own_all_succeed(graph: og.Graph, crowd: Racers) -> None:
    """RS-23, RS-26."""
    outcomes = race(crowd, insert_own, graph)
    assert outcomes == [Counter({LANDED: WRITERS})] * ROUNDS
    names = {f"r{number}w{me}" for number in range(ROUNDS) for me in range(WRITERS)}
    assert set(ids(graph.refresh(), "Person")) == {"Ann", "Bob", "Cid"} | names
    assert_one_line(graph, ROUNDS * WRITERS)
    assert_whole(graph)


def test_a_row_that_sixteen_replace_is_there_once(graph: og.Graph, crowd: Racers) -> None:
    outcomes = race(crowd, merge_same, graph)
    assert outcomes == [Counter({LANDED: WRITERS})] * ROUNDS
    found = ages(graph)
    assert len(found) == 3 + ROUNDS * WRITERS
    assert found["Ann"] in range(WRITERS)
    assert_one_line(graph, ROUNDS * WRITERS)
    assert_whole(graph)


def test_an_overwrite_is_whole_and_was_planned_on_what_it_replaced(
    graph: og.Graph, crowd: Racers
) -> None:
    outcomes = race(crowd, overwrite, graph)
    landed = sum(found[LANDED] for found in outcomes)
    for found in outcomes:
        assert found[LANDED] >= 1
        assert found.keys() <= {LANDED, HEAD_MOVED, EXPECTED}
    assert len(ids(graph.refresh(), "Knows")) == 1
    assert_one_line(graph, landed)
    assert_whole(graph)


def test_an_edge_never_outlives_its_node(graph: og.Graph, crowd: Racers) -> None:
    """RS-22: some add edges to a node while others delete it."""
    names = [f"target{number}" for number in range(ROUNDS)]
    graph.write(people(**dict.fromkeys(names, 1)), "Person")
    outcomes = race(crowd, add_edge_or_delete_node, graph)
    refusals = {HEAD_MOVED, EXPECTED, VIOLATION, CONFLICT}
    for found in outcomes:
        assert found.keys() <= {LANDED, None, *refusals}
        assert found[LANDED] >= 1
    snapshot = graph.refresh().snapshot()
    alive = set(ids(snapshot, "Person"))
    ends = snapshot.arrow("Knows", columns=["dst"]).column("dst").to_pylist()
    assert {end for end in ends if str(end).startswith("target")} <= alive
    assert_one_line(graph, sum(found[LANDED] for found in outcomes), since=3)
    assert_whole(graph)


def test_the_first_writers_of_a_branch_make_one_branch_and_one_fork(
    graph: og.Graph, crowd: Racers
) -> None:
    """RS-41."""
    outcomes = race(crowd, insert_on_new_branch, graph)
    assert outcomes == [Counter({LANDED: WRITERS})] * ROUNDS
    names = {"Ann", "Bob", "Cid", *(f"w{me}" for me in range(WRITERS))}
    for number in range(ROUNDS):
        branch = graph.as_branch(f"b{number}")
        assert set(ids(branch, "Person")) == names
        assert_one_line(branch, WRITERS)
        assert_whole(branch)
    assert ids(graph.refresh(), "Person") == ["Ann", "Bob", "Cid"]


def test_writers_of_different_branches_do_not_meet(graph: og.Graph, crowd: Racers) -> None:
    outcomes = race(crowd, insert_on_own_branch, graph)
    assert outcomes == [Counter({LANDED: WRITERS})] * ROUNDS
    branches = [branch.name for branch in graph.branches() if branch.name != "main"]
    assert len(branches) == ROUNDS * WRITERS
    for name in branches[:: max(1, len(branches) // 8)]:
        branch = graph.as_branch(name)
        assert ids(branch, "Person") == ["Ann", "Bob", "Cid", name.removeprefix("own/")]
        assert_whole(branch)
    assert_whole(graph)


@pytest.mark.engine
def test_the_engine_reads_what_sixteen_wrote(graph: og.Graph, crowd: Racers) -> None:
    race(crowd, insert_own, graph, rounds=1)
    race(crowd, overwrite, graph, rounds=1)
    root = Path(graph.root)
    people_there = [row for row in engine_export(root) if row.get("type") == "Person"]
    assert len(people_there) == 3 + WRITERS
    tables = engine_json("repair", root)["tables"]
    assert {table["classification"] for table in tables} == {"no_drift"}


# -- where a lease is the lock -------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_sixteen_writers_of_an_object_store_keep_the_same_laws(
    crowd: Racers, s3: S3Server, name: str
) -> None:
    """RS-23, RS-26, RS-41: leases keep writers apart, fences and the manifest decide."""
    rounds = min(ROUNDS, 20)
    with running(name, s3) as server:
        root, storage = f"s3://{server.make_bucket()}/g", dict(server.storage_options)
        write_staffed(root, storage)
        graph = og.open(root, storage=storage)
        same = race(crowd, insert_same, graph, WRITERS, rounds, storage)
        own = race(crowd, insert_own, graph, WRITERS, rounds, storage)
        first = race(crowd, insert_on_new_branch, graph, WRITERS, rounds, storage)
        for found in same:
            assert found == {LANDED: 1, KEY_CONFLICT: WRITERS - 1}
        assert own == first == [Counter({LANDED: WRITERS})] * rounds
        assert len(ids(graph.refresh(), "Person")) == 3 + rounds * (1 + WRITERS)
        assert_one_line(graph, rounds * (1 + WRITERS))
        assert_settled(graph, storage)
        for number in range(rounds):
            assert_settled(graph.as_branch(f"b{number}"), storage)
