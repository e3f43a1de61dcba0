"""One table of works: what a process does when it is cut, and the graph it begins with.

A further kind of work is one more line of `WORKS`. Everything here runs in a process of its own,
on the root it is given; values that come back are plain.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lance
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph_spark as og
from omnigraph_spark import compaction, failpoints
from omnigraph_spark.errors import ConflictError, ConstraintViolationError
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.given_rows import stage_rows
from omnigraph_spark.names import SCHEMA_APPLY_LOCK
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.fence import FenceRefusedError, LandedVersion
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.writing import landing
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.terms import WriteTerms
from omnigraph_spark.writing.write import Write
from tests.helpers import crashes, golden
from tests.helpers.builder import GraphBuilder

BRANCH = "dev"

# -- graphs to begin with --------------------------------------------------------------------------


def nothing(root: str) -> None:
    """No graph at all."""


def social(root: str) -> None:
    """Alice and Bob, who know each other, and where they work."""
    crashes.write_social(root)


def branched(root: str) -> None:
    """The same, and a branch that wrote nothing."""
    crashes.write_social(root).create_branch(BRANCH)


def empty_branched(root: str) -> None:
    """A graph without a row, and a branch."""
    og.create(root, crashes.SOCIAL).create_branch(BRANCH)


def grown(root: str) -> None:
    """The same, and a branch with rows of its own in all types."""
    branched(root)
    with og.open(root, branch=BRANCH).transaction() as tx:
        tx.append("Person", pa.table({"name": ["Dora"], "age": [50]}))
        tx.append("Company", pa.table({"name": ["Dorado"]}))
        tx.append("Knows", pa.table({"id": ["k5"], "src": ["Dora"], "dst": ["Bob"]}))


def diverged(root: str) -> None:
    """The same, and main has rows of its own since, of one type that the branch wrote too."""
    grown(root)
    with og.open(root).transaction() as tx:
        tx.merge("Person", pa.table({"name": ["Alice", "Erik"], "age": [31, 9]}))


def ahead(root: str) -> None:
    """A branch that wrote nothing, and main with rows in two types since."""
    branched(root)
    crashes.load(og.open(root))


def half_ahead(root: str) -> None:
    """A branch with people of its own, and main with people and firms since."""
    branched(root)
    og.open(root, branch=BRANCH).write(pa.table({"name": ["Dora"], "age": [50]}), "Person")
    with og.open(root).transaction() as tx:
        tx.append("Person", pa.table({"name": ["Erik"], "age": [9]}))
        tx.append("Company", pa.table({"name": ["Umbra"]}))


def drifted(root: str) -> None:
    """The same rows as ever, and a firm that somebody wrote past the graph."""
    social(root)
    GraphBuilder.open(Path(root)).append("node:Company", [{"name": "Umbra"}])


def locked(root: str) -> None:
    """A graph whose schema was about to be changed by a process that died."""
    social(root)
    lance.dataset(f"{root}/__manifest").create_branch(SCHEMA_APPLY_LOCK)


def unnamed(root: str) -> None:
    """Take the branch away while a write on it is unfinished, which only others do."""
    lance.dataset(f"{root}/__manifest").branches.delete(BRANCH)


def golden_case(case: str) -> Callable[[str], None]:
    """Return what puts a graph there as a writer of the engine left it."""

    def begin(root: str) -> None:
        golden.unpack(case, Path(root).parent).rename(root)

    return begin


def scattered(root: str) -> None:
    """The same rows as ever, in several files, with one deleted."""
    social(root)
    append(root)
    og.open(root).write(pa.table({"name": ["Dan"]}), "Company")
    og.open(root).delete("Person", ids=["Alice"])


# -- works -----------------------------------------------------------------------------------------


def create(root: str) -> None:
    og.create(root, crashes.SOCIAL, actor="ann")


def append(root: str) -> None:
    og.open(root).write(pa.table({"name": ["Carol"], "age": [7]}), "Person", mode="append")


def merge(root: str) -> None:
    rows = pa.table({"name": ["Bob", "Carol"], "age": [42, 7]})
    og.open(root).write(rows, "Person", mode="merge")


def overwrite(root: str) -> None:
    crashes.overwrite(og.open(root))


def delete(root: str) -> None:
    """A node, and the edge that ends at it."""
    crashes.delete(og.open(root))


def transact(root: str) -> None:
    """Three types at once."""
    with og.open(root).transaction() as tx:
        tx.merge("Person", pa.table({"name": ["Bob", "Carol"], "age": [42, 7]}))
        tx.append("Company", pa.table({"name": ["Umbra"]}))
        tx.append("Knows", pa.table({"id": ["k2"], "src": ["Carol"], "dst": ["Alice"]}))


def lose_once(root: str) -> None:
    """Three types at once; the second one meets another writer, so all is undone and done again."""
    commit, tried = landing.commit_fenced, []

    def lose(address: DatasetAddress, base_version: int, *given: Any) -> LandedVersion:
        tried.append(address)
        if len(tried) == 2:
            raise FenceRefusedError(address.uri, base_version, base_version + 1)
        return commit(address, base_version, *given)

    with patch.object(landing, "commit_fenced", lose):
        transact(root)


def first_touch(root: str) -> None:
    """Two types of a branch that has written none: they are forked first."""
    crashes.load(og.open(root, branch=BRANCH))


def first_rows(root: str) -> None:
    """The first rows of a type, on a branch: an empty dataset is forked."""
    rows = pa.table({"name": ["Carol"], "age": [7]})
    og.open(root, branch=BRANCH).write(rows, "Person")


def write_on_new_branch(root: str) -> None:
    """Rows for a branch that is made for them; half of one that is left is deleted first."""
    rows = pa.table({"name": ["Bob", "Carol"], "age": [42, 7]})
    graph = og.open(root)
    try:
        graph.write(rows, "Person", mode="merge", branch=BRANCH, create_from="main")
    except ConflictError:
        graph.delete_branch(BRANCH)
        graph.write(rows, "Person", mode="merge", branch=BRANCH, create_from="main")


def create_branch(root: str) -> None:
    """Make a branch; half of one that a dead process left is deleted first, as the error says."""
    graph = og.open(root)
    try:
        graph.create_branch(BRANCH)
    except ConflictError:
        graph.delete_branch(BRANCH)
        graph.create_branch(BRANCH)


def delete_branch(root: str) -> None:
    og.open(root).delete_branch(BRANCH)


def merge_branches(root: str) -> None:
    """Rows of both branches come together: two types are rewritten, one is only added to."""
    og.open(root).merge(BRANCH, into="main", actor="ann")


def take_over(root: str) -> None:
    """A branch that wrote nothing takes over what main did: no row is copied."""
    og.open(root).merge("main", into=BRANCH, actor="ann")


def take_some_over(root: str) -> None:
    """One dataset is rewritten, and another one taken over, in one commit."""
    og.open(root).merge("main", into=BRANCH, actor="ann")


def import_files(root: str) -> None:
    """Rows of two files, read where they are staged."""
    lake = Path(root).with_name("lake")
    lake.mkdir(exist_ok=True)
    for number, name in enumerate(["Carol", "Dan"]):
        pq.write_table(pa.table({"name": [name], "age": [number]}), lake / f"{number}.parquet")
    og.open(root).import_parquet(str(lake), type="Person")


def create_in_vain(root: str) -> None:
    """Make a graph of rows that break a rule: it is taken back."""
    person = pa.table({"name": ["Ann"], "age": pa.array([1], pa.int32())})
    astray = pa.table({"id": ["k1"], "src": ["Ann"], "dst": ["nobody"]})
    with suppress(ConstraintViolationError):
        og.create_from_frames(
            root,
            nodes={"Person": person, "Company": pa.table({"name": ["Acme"]})},
            edges={"Knows": (astray, "Person", "Person")},
            keys={"Person": "name", "Company": "name"},
        )
        raise AssertionError("an edge to nobody was taken")


def write_back(root: str) -> None:
    """One column of rows that exist, on a branch that has written nothing."""
    ages = pa.table({"name": ["Alice", "Bob"], "age": [1, 2]})
    og.open(root).write_back(ages, "Person", ["age"], branch=BRANCH)


def mix(root: str) -> None:
    """What a statement of SQL does: rows of one type replaced, added and deleted at once."""
    write = Write(GraphReader.open(root, StorageSettings()), "main", WriteTerms(), mixed=True)
    rows = {
        WriteMode.MERGE: pa.table({"name": ["Alice"], "age": [31]}),
        WriteMode.APPEND: pa.table({"name": ["Carol"], "age": [7]}),
        WriteMode.DELETE: pa.table({"id": ["Bob"]}),
    }
    for mode, given in rows.items():
        task = write.task("Person", mode)
        write.add("Person", task, stage_rows(task, given))
    write.commit_or_abort()


def build_indexes(root: str) -> None:
    og.open(root).build_indexes()


def optimize(root: str) -> None:
    """Files are put together and indexes built; no row changes."""
    og.open(root).optimize()


def compact(root: str) -> None:
    """A write whose publish finds the manifest due for a compaction."""
    with patch.object(compaction, "FRAGMENTS_KEPT", 2):
        append(root)


def repair(root: str) -> None:
    """What was written past the graph becomes a part of it."""
    og.open(root).repair(force=True)


def release(root: str) -> None:
    og.open(root).release_schema_lock()


def recover(root: str) -> None:
    """Open, which warns of what is in the way, and recover, which raises it."""
    og.open(root).recover()


# -- graphs that a recovery begins with ------------------------------------------------------------


def dies(work: Callable[[str], None], point: Failpoint, at: int = 1) -> Callable[[str], None]:
    """Return what ends this process at a point of a work."""

    def run(root: str) -> None:
        failpoints.arm(point, lambda: os._exit(0), at)
        work(root)
        raise AssertionError(f"{point.name} was not reached {at} times")

    return run


@dataclass(frozen=True)
class Work:
    """A piece of work, and the graph it begins with: the steps that make that graph, in order."""

    name: str
    run: Callable[[str], None]
    begin: tuple[Callable[[str], None], ...] = (social,)
    #: It changes how rows lie, and none of them.
    keeps_rows: bool = False
    #: What it does first, in a step of its own that stays when the rest is undone.
    first: Callable[[str], None] | None = None
    #: Whether the engine can be asked about what is left: it would refuse to write, or go to the
    #: place that its sidecar names.
    engine: bool = True
    #: Nothing but the work itself, done again, settles what it begins with.
    repairs: bool = False
    #: What kind of finding stays for a person to deal with.
    leaves: str = ""


P = failpoints
WORKS = {
    work.name: work
    for work in (
        Work("create", create, (nothing,)),
        Work("creation that is taken back", create_in_vain, (nothing,), first=create),
        Work("append", append),
        Work("merge", merge),
        Work("overwrite", overwrite),
        Work("delete with cascade", delete),
        Work("transaction of three types", transact),
        Work("write that undoes itself", lose_once),
        Work("first touch of a branch", first_touch, (branched,)),
        Work("first rows of a type on a branch", first_rows, (empty_branched,)),
        Work("write that makes its branch", write_on_new_branch, first=create_branch),
        Work("branch create", create_branch),
        Work("branch delete", delete_branch, (grown,)),
        Work("merge of branches", merge_branches, (diverged,)),
        Work("merge that takes datasets over", take_over, (ahead,)),
        Work("merge that takes a dataset over", take_some_over, (half_ahead,)),
        Work("write back", write_back, (branched,)),
        Work("import of files", import_files),
        Work("mixed change", mix),
        Work("build indexes", build_indexes, keeps_rows=True),
        Work("optimize", optimize, (scattered,), keeps_rows=True),
        Work("manifest compaction", compact),
        Work("repair", repair, (drifted,), engine=False, repairs=True),
        Work("release of a schema lock", release, (locked,), True, engine=False, repairs=True),
        Work("recovery, nothing moved", recover, (social, dies(transact, P.SIDECAR_WRITTEN))),
        Work("recovery, half moved", recover, (social, dies(transact, P.DATASET_COMMITTED, 2))),
        Work("recovery, all moved", recover, (social, dies(transact, P.BEFORE_PUBLISH))),
        Work("recovery, published", recover, (social, dies(transact, P.AFTER_PUBLISH))),
        Work(
            "recovery of a first touch, half moved",
            recover,
            (branched, dies(first_touch, P.DATASET_COMMITTED)),
        ),
        Work(
            "recovery of a first touch, all moved",
            recover,
            (branched, dies(first_touch, P.BEFORE_PUBLISH)),
        ),
        Work(
            "recovery of a merge, not confirmed",
            recover,
            (diverged, dies(merge_branches, P.DATASET_COMMITTED, 2)),
        ),
        Work(
            "recovery of a merge, confirmed",
            recover,
            (diverged, dies(merge_branches, P.MERGE_CONFIRMED)),
        ),
        Work(
            "recovery of a branch that is gone",
            recover,
            (branched, dies(first_touch, P.BEFORE_PUBLISH), unnamed),
        ),
        Work(
            "recovery of a schema, a type more",
            recover,
            (golden_case("crashed-apply-staged"),),
            engine=False,
        ),
        Work(
            "recovery of a schema, a column more",
            recover,
            (golden_case("crashed-apply-property-staged"),),
            engine=False,
        ),
        Work(
            "recovery of a schema, undone",
            recover,
            (golden_case("crashed-apply-unstaged"),),
            engine=False,
            leaves="orphan_folder",
        ),
        Work(
            "recovery of an optimize",
            recover,
            (scattered, dies(optimize, P.DATASET_COMMITTED)),
            keeps_rows=True,
        ),
    )
}


def begin(root: str, name: str, step: int) -> None:
    """Take one step towards the graph that a work begins with; it may end this process."""
    WORKS[name].begin[step](root)


def run_first(root: str, name: str) -> None:
    """Do the first step of a work that stays when the rest is undone; most have none."""
    step = WORKS[name].first
    if step is not None:
        step(root)


def run(root: str, name: str, plant: str = "") -> None:
    """Do a work, with a bug planted if one is named."""
    from tests.faults.plants import planted

    with planted(plant):
        WORKS[name].run(root)
