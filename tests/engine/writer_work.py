"""What racing writers do in a round, each in a process of its own: see `tests.helpers.racers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import omnigraph_spark as og
from tests.engine.writing import edges, people

#: The answer of a write that landed; nothing to do is `None`, any other is the code of the error.
LANDED = "landed"
_GRAPHS: dict[str, og.Graph] = {}

Storage = Mapping[str, str] | None


def insert_same(root: str, storage: Storage, me: int, first: int, number: int) -> str | None:
    """Append the row that everybody appends in this round."""
    return _append(root, storage, f"same{first + number}", me)


def insert_own(root: str, storage: Storage, me: int, first: int, number: int) -> str | None:
    """Append a row that nobody else appends."""
    return _append(root, storage, f"r{first + number}w{me}", me)


def insert_on_new_branch(
    root: str, storage: Storage, me: int, first: int, number: int
) -> str | None:
    """Append a row of one's own to a branch that the first of all writers makes."""
    branch = f"b{first + number}"
    return _append(root, storage, f"w{me}", me, branch=branch, create_from="main")


def insert_on_own_branch(
    root: str, storage: Storage, me: int, first: int, number: int
) -> str | None:
    """Make a branch of one's own and write to it."""
    name = f"r{first + number}w{me}"
    return _append(root, storage, name, me, branch=f"own/{name}", create_from="main")


def merge_same(root: str, storage: Storage, me: int, first: int, number: int) -> str | None:
    """Replace the row that everybody replaces, and insert one of one's own."""
    rows = people(Ann=me, **{f"r{first + number}w{me}": me})
    return _outcome(lambda: _graph(root, storage).write(rows, "Person", mode="merge"))


def overwrite(root: str, storage: Storage, me: int, first: int, number: int) -> str | None:
    """Replace all edges by one that says who did."""
    rows = edges(**{f"r{first + number}w{me}": "Ann-Bob"})
    return _outcome(lambda: _graph(root, storage).write(rows, "Knows", mode="overwrite"))


def add_edge_or_delete_node(
    root: str, storage: Storage, me: int, first: int, number: int
) -> str | None:
    """Add an edge to the node of this round, or delete it: every fourth writer does."""
    name = f"target{first + number}"
    graph = _graph(root, storage)
    if me % 4:
        rows = edges(**{f"e{first + number}w{me}": f"Ann-{name}"})
        return _outcome(lambda: graph.write(rows, "Knows"))
    told = "rebase" if me % 8 else "fail"
    return _outcome(lambda: graph.delete("Person", ids=[name], on_conflict=told))


def _append(root: str, storage: Storage, name: str, age: int, **terms: str) -> str | None:
    rows = people(**{name: age})
    return _outcome(lambda: _graph(root, storage).write(rows, "Person", **terms))


def _outcome(write: Callable[[], og.Commit | None]) -> str | None:
    try:
        return None if write() is None else LANDED
    except og.OmnigraphError as error:
        return error.code


def _graph(root: str, storage: Storage) -> og.Graph:
    """Open the graph once per process."""
    if root not in _GRAPHS:
        _GRAPHS[root] = og.open(root, actor="racer", storage=storage)
    return _GRAPHS[root]
