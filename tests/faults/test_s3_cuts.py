"""Writers on S3 that die after every single change they make there: before or after, never between.

To the store a process that died and a network that is gone for good are the same: so many changes
arrived, and nothing after them. OMNIGRAPH_CUTS=all takes every cut, otherwise some of each work.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.recovery import observe
from omnigraph_spark.storage import leases
from tests.faults.s3graphs import Place, State, outcome, place_social, state_of
from tests.faults.s3proxy import Call, Fault, Plan, S3Proxy, s3_proxy
from tests.helpers.crashes import WORKS, crashing, load, write_dev
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.slow

#: One cut of so many; the next run of a work takes others only when its number of changes differs.
EVERY = 1 if os.environ.get("OMNIGRAPH_CUTS") == "all" else 6
_CHANGES = ("PUT", "POST", "DELETE")


def first_touch(graph: og.Graph) -> None:
    """The first write to a branch, which forks two types."""
    load(graph.as_branch("dev"))


def merge_back(graph: og.Graph) -> None:
    """A branch into main, which has moved on."""
    graph.merge("dev", into="main", actor="act-crash")


def with_branch(graph: og.Graph) -> None:
    graph.create_branch("dev")


def with_two_lines(graph: og.Graph) -> None:
    write_dev(graph)
    graph.write(pa.table({"name": ["Zed"]}), "Person")


def append(graph: og.Graph) -> None:
    """One type, a row more."""
    graph.write(pa.table({"name": ["Carol"], "age": [7]}), "Person", actor="act-crash")


#: Name: what comes before, the work, and the branch it changes.
CASES: dict[str, tuple[Callable[[og.Graph], object], Callable[[og.Graph], object], str]] = {
    "append": (lambda graph: None, append, "main"),
    "load": (lambda graph: None, load, "main"),
    "overwrite": (lambda graph: None, WORKS["overwrite"], "main"),
    "delete": (lambda graph: None, WORKS["delete"], "main"),
    "first touch": (with_branch, first_touch, "dev"),
    "merge": (with_two_lines, merge_back, "main"),
}


@pytest.fixture(scope="module")
def proxy(s3: S3Server) -> Iterator[S3Proxy]:
    with s3_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits half a minute for a writer that died with its lease."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.3)


def dead_after(changes: int) -> Plan:
    """Let so many changes through, and nothing after them."""
    lock, left = threading.Lock(), changes

    def plan(call: Call) -> Fault | None:
        nonlocal left
        with lock:
            if left <= 0:
                return Fault.RESET
            left -= call.kind in _CHANGES
            return None

    return plan


def prepared(s3: S3Server, proxy: S3Proxy, before: Callable[[og.Graph], object]) -> Place:
    place = place_social(s3, proxy)
    before(og.open(place.root, storage=place.direct))
    return place


def judged(place: Place, branch: str, pre: State, told: str) -> str:
    """Recover as others do; tell whether it is as before or after, and that it is whole."""
    graph = place.recovered(branch)
    post = place.state(branch) != pre
    assert told != "landed" or post
    assert told != "OMNIGRAPH_STORAGE" or not post
    work = [commit for commit in graph.history() if commit.actor == "act-crash"]
    assert len(work) <= 1
    other = "main" if branch == "dev" else "dev"
    if other in [found.name for found in graph.branches()]:
        place.recovered(other)
    # The type whose fork was perhaps left half made.
    og.open(place.root, branch=branch, storage=place.direct).write(
        pa.table({"name": ["Zoe"]}), "Person"
    )
    return "after" if post else "before"


@pytest.mark.parametrize("name", CASES)
def test_a_writer_that_dies_after_any_change_leaves_all_or_nothing(
    s3: S3Server, proxy: S3Proxy, name: str
) -> None:
    """RS-10 … RS-19: with `-s` it prints how each cut ended."""
    before, work, branch = CASES[name]
    place = prepared(s3, proxy, before)
    pre = place.state(branch)
    with proxy.faults(lambda call: None):
        seen = len(proxy.calls)
        work(place.open())
        changes = sum(call.kind in _CHANGES for call in proxy.calls[seen:])
    post = place.state(branch)
    assert post != pre
    ends = []
    for cut in range(changes % EVERY, changes, EVERY):
        place = prepared(s3, proxy, before)
        graph = place.open(retries=0)
        with proxy.faults(dead_after(cut)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = outcome(lambda graph=graph: work(graph))
        ends.append((cut, told, judged(place, branch, pre, told)))
    print(f"\n{name}: {changes} changes, cuts {ends}")
    assert {end for _, _, end in ends} <= {"before", "after"}
    assert "before" in {end for _, _, end in ends}


def crashed(s3: S3Server, proxy: S3Proxy, point: Failpoint) -> Place:
    """A graph whose writer died at a point, longer ago than a lease lasts."""
    place = place_social(s3, proxy)
    with crashing(point):
        load(og.open(place.root, storage=place.direct))
    return place


@pytest.mark.parametrize(
    ("point", "finished"), [(points.DATASET_COMMITTED, False), (points.BEFORE_PUBLISH, True)]
)
def test_a_recovery_that_dies_after_any_change_is_carried_on_by_the_next(
    s3: S3Server,
    proxy: S3Proxy,
    point: Failpoint,
    finished: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RS-18: undoing and finishing end where one that nobody disturbed ends, and only once."""
    monkeypatch.setattr(observe, "_LEASE_US", 0)
    place = crashed(s3, proxy, point)
    pre = place.state()
    with proxy.faults(lambda call: None):
        seen = len(proxy.calls)
        place.open().recover()
        changes = sum(call.kind in _CHANGES for call in proxy.calls[seen:])
    expected = place.state()
    assert (expected != pre) is finished
    assert changes > 2
    for cut in range(changes % EVERY, changes, EVERY):
        place = crashed(s3, proxy, point)
        with proxy.faults(dead_after(cut)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome(lambda place=place: place.open(retries=0).recover())
        graph = place.recovered()
        assert state_of(graph) == expected, cut
        work = [commit for commit in graph.history() if commit.actor == "act-crash"]
        recoveries = [c for c in graph.history() if c.actor == "omnigraph:recovery"]
        assert len(work) + len(recoveries) <= 1, cut
        assert og.open(place.root, storage=place.direct).recover() == []
