"""The laws: what a graph must look like after a process died in it, and after the next one came.

A state is the rows of every type on every branch, in the shape of the engine's export; None where
there is no graph. These functions run in processes that have seen nothing of the graph before.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph_spark as og
from omnigraph_spark.errors import DamagedGraphError, GraphExistsError, GraphNotFoundError
from omnigraph_spark.formats.v4.recoveries import read_recoveries
from omnigraph_spark.health import FindingKind
from omnigraph_spark.storage.datasets import DatasetAddress, open_handle, probe_version
from omnigraph_spark.storage.settings import StorageSettings
from tests.faults.works import BRANCH, WORKS, create_branch
from tests.helpers.exported import exported_rows
from tests.helpers.files import listing

Rows = list[dict[str, Any]]
State = dict[str, dict[str, Rows]]
_LOCAL = StorageSettings()
#: The row of the next write, as it is exported.
NEWCOMER: dict[str, Any] = {"type": "Person", "data": {"id": "Zoe", "age": 2, "name": "Zoe"}}


#: What is found in a healthy graph, too: indexes are built on request, forks are reclaimed.
HARMLESS = frozenset({FindingKind.MISSING_INDEX, FindingKind.ORPHAN_FORK})


class Violation(AssertionError):
    """A law is broken."""


def law(holds: bool, text: str) -> None:
    """Raise what says that a law is broken, unless it holds."""
    if not holds:
        raise Violation(text)


# -- what is there ---------------------------------------------------------------------------------


def look(root: str) -> State | None:
    """Read everything as one who never writes, and check what holds of any graph at any time."""
    try:
        graph = og.open(root, mode="r")
    except (GraphNotFoundError, DamagedGraphError):
        # What a creation left behind before the graph was there.
        versions = [*Path(root, "__manifest/_versions").glob("*.manifest")]
        law(not versions, f"{root} has a manifest and no reader")
        return None
    return {branch.name: look_at(graph.as_branch(branch.name)) for branch in graph.branches()}


def look_at(graph: og.Graph) -> dict[str, Rows]:
    """Read a branch: no id comes twice, no edge lacks an end, the manifest counts what is there."""
    snapshot = graph.snapshot()
    tables = {key: snapshot.arrow(key) for key in snapshot.entries}
    for key, table in tables.items():
        ids = table.column("id").to_pylist()
        law(len(set(ids)) == len(ids), f"{key} on {graph.branch} has an id twice: {ids}")
        counted = snapshot.rows(key)
        law(counted == len(ids), f"{key} on {graph.branch} has {len(ids)} rows, not {counted}")
    for edge in snapshot.schema.edges:
        ends = tables[str(edge.type_key)]
        for column, node in (("src", edge.from_type), ("dst", edge.to_type)):
            there = set(tables[f"node:{node}"].column("id").to_pylist())
            lost = set(ends.column(column).to_pylist()) - there
            law(not lost, f"edges of {edge.name} on {graph.branch} dangle: {sorted(lost)}")
    return {key: exported_rows(key, table) for key, table in tables.items()}


def check_indexes(root: str) -> None:
    """Found by the index of ids, where there is one, are all rows and none that is gone."""
    graph = og.open(root, mode="r")
    for branch in graph.branches():
        snapshot = graph.as_branch(branch.name).snapshot()
        for key in snapshot.entries:
            ids, found = (
                sorted(snapshot.arrow(key, columns=["id"], where=where).column("id").to_pylist())
                for where in (None, "id >= ''")
            )
            law(found == ids, f"{key} on {branch.name} has {ids}, and its index finds {found}")


def check_settled(root: str, engine_forks: bool = False) -> None:
    """Nothing is pending, no dataset stands elsewhere than it is pinned, history is one line.

    Where the engine makes a branch of an empty dataset (`engine_forks`), it loses the stable row
    ids: engine 0.8.0 does so on a graph of its own as well.
    """
    graph = og.open(root, mode="r")
    law(not list(Path(root).glob("__recovery/*.json")), "a sidecar is left")
    law(not list(Path(root).glob("*.staging")), "a staged schema file is left")
    for branch in graph.branches():
        at = graph.as_branch(branch.name)
        own = None if branch.name == "main" else branch.name
        for key, entry in at.entries.items():
            if entry.dataset_branch != own:
                continue
            address = DatasetAddress(root, entry.path, own)
            found = probe_version(address, _LOCAL)
            head = None if found is None else found.number
            place = f"{key} on {branch.name}"
            law(head == entry.dataset_version, f"{place}: {entry.dataset_version} but at {head}")
            stable = open_handle(address, entry.dataset_version, _LOCAL).has_stable_row_ids
            law(stable or (engine_forks and own is not None), f"{place} lost its stable row ids")
        commits = at.history()
        parents = [commit.parent_id for commit in commits[:-1]]
        law(parents == [commit.id for commit in commits[1:]], f"{branch.name} is not one line")
        # The second half of an id names the piece of work: it is done once.
        law(len({c.id[10:] for c in commits}) == len(commits), f"work twice on {branch.name}")


def recoveries(root: str) -> list[str]:
    """The audit rows, oldest first; an operation has one."""
    records = list(read_recoveries(root, _LOCAL))
    operations = [record.operation_id for record in records]
    law(len(set(operations)) == len(operations), f"an operation was recovered twice: {records}")
    return [str(record.kind) for record in records]


# -- after a process died --------------------------------------------------------------------------


def judge(root: str, name: str, undone: list[State | None], post: State | None) -> dict[str, Any]:
    """Go through all that must hold after a work was cut; what was seen, and what it ended in."""
    seen = look(root)
    law(seen in [*undone, post], f"a reader sees neither the state before nor after: {seen}")
    if seen is None:
        check_creation_can_be_repeated(root, name, post)
        return {"seen": "before", "ended": "before", "recoveries": []}
    earlier = len(recoveries(root))
    og.open(root)
    ended = look(root)
    law(ended in [*undone, post], f"recovery ends in neither state: {ended}")
    law(seen != post or ended == post, "what was visible is gone after recovery")
    done = recoveries(root)[earlier:]
    files = listing(Path(root))
    law(og.open(root).recover() == [], "a second recovery found something to do")
    law(listing(Path(root)) == files, "a second recovery changed files")
    if not WORKS[name].repairs:
        check_settled(root)
    if post is not None and (ended != post or WORKS[name].keeps_rows):
        WORKS[name].run(root)
        law(look(root) == post, "the work, done again, does not end in the state after it")
    check_next_writes(root)
    check_health(root, name)
    word = {True: "after", False: "before"}
    return {"seen": word[seen == post], "ended": word[ended == post], "recoveries": done}


def check_creation_can_be_repeated(root: str, name: str, post: State | None) -> None:
    """What half a creation left is refused with the reason, or of no importance."""
    try:
        WORKS[name].run(root)
    except GraphExistsError:
        shutil.rmtree(root)
        WORKS[name].run(root)
    law(look(root) == post, "the graph, created again, is not the one to be created")
    if post is not None:
        check_next_writes(root)
        check_health(root, name)


def check_health(root: str, name: str) -> None:
    """Nothing is found on any branch but what nobody, or only a person, can do anything about."""
    check_indexes(root)
    graph = og.open(root, mode="r")
    fine = {*HARMLESS, WORKS[name].leaves}
    for branch in graph.branches():
        found = [each for each in graph.as_branch(branch.name).health() if each.kind not in fine]
        law(found == [], f"{branch.name} is not healthy: {found}")


def check_next_writes(root: str) -> None:
    """Every branch takes the next write, one of the name that works use too, and only that."""
    if BRANCH not in {branch.name for branch in og.open(root).branches()}:
        create_branch(root)
    before = look(root)
    assert before is not None
    rows = pa.table({"name": ["Zoe"], "age": [2]})
    for branch in before:
        # Merged, because the engine may have written it before us.
        og.open(root, branch=branch).write(rows, "Person", mode="merge")
        people = before[branch]["node:Person"]
        columns = {name: None for row in people for name in row["data"]}
        zoe = {"type": "Person", "data": columns | NEWCOMER["data"]}
        before[branch]["node:Person"] = [*(row for row in people if row != zoe), zoe]
    law(look(root) == before, "a write after the recovery changed something else")
    check_settled(root)
