"""Random histories: writers, crashes, a second writer, the engine, over two branches.

A history is drawn from its seed. A plain model follows it, and the laws are looked at after every
step. An unacknowledged write leaves the model with two possible states of its branch until whoever
comes next has recovered it; everything else has exactly one.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import (
    ConflictError,
    ConstraintViolationError,
    DriftError,
    MergeConflictsError,
)
from omnigraph_spark.names import Ref
from omnigraph_spark.writing.pending import WriteMode
from tests.engine.recovering import reached
from tests.engine.reference import (
    COLUMNS,
    EMPTY,
    ENDS,
    SCHEMA,
    Reference,
    Refused,
    Row,
    State,
    Step,
    table_of,
)
from tests.faults.judging import Rows, Violation, check_indexes, check_settled, law, look_at
from tests.faults.plants import planted
from tests.faults.processes import Ended, Processes, waiting_process
from tests.faults.shim import Cut, How
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder
from tests.helpers.engine import engine_binary, engine_export, run_engine

MAIN, DEV = "main", "dev"
#: As many changes to files as a large write makes; smaller ones are sometimes not cut at all.
_MOST_CHANGES = 80
_ADDITIVE = frozenset({WriteMode.APPEND, WriteMode.MERGE})
#: Refusals because of what rows hold, not because somebody was faster.
_RULES = ("ConstraintViolationError", "KeyConflictError")

# -- what processes do -----------------------------------------------------------------------------


def begin(root: str) -> None:
    """The graph that every history begins with: two people, their firms, one who knows another."""
    write_steps(og.create(root, SCHEMA), _BEGINNING)


def write(root: str, branch: str, steps: list[list[Any]], once: str | None) -> str:
    """Take steps given as plain values."""
    graph = og.open(root, branch=branch)
    given = [Step(type, WriteMode(mode), rows) for type, mode, rows in steps]
    return write_steps(graph, given, once)


def write_steps(graph: og.Graph, steps: Sequence[Step], once: str | None = None) -> str:
    """Take steps in one transaction; the kind of the refusal, if it was refused."""
    try:
        with graph.transaction(txn_app_id=once and "history", txn_version=once) as tx:
            apply(tx, steps)
    except (ConstraintViolationError, ConflictError, DriftError) as error:
        return type(error).__name__
    return ""


def apply(tx: og.Transaction, steps: Sequence[Step]) -> None:
    """Take steps, and leave the end to the caller."""
    for step in steps:
        tx.apply(step.mode, step.type, table_of(step))


def create_branch(root: str) -> None:
    """Make the branch; half of one that a dead process left is deleted first."""
    graph = og.open(root)
    try:
        graph.create_branch(DEV)
    except ConflictError:
        graph.delete_branch(DEV)
        graph.create_branch(DEV)


def delete_branch(root: str) -> None:
    og.open(root).delete_branch(DEV)


def merge(root: str, source: str, target: str) -> str:
    """Merge a branch into another one; the kind of the refusal, if it was refused."""
    try:
        og.open(root).merge(source, into=target)
    except (MergeConflictsError, ConstraintViolationError) as error:
        return type(error).__name__
    return ""


def recover(root: str) -> None:
    og.open(root)


def upkeep(root: str, branch: str, what: str) -> None:
    """Put files together or build indexes: no row changes."""
    getattr(og.open(root, branch=branch), what)()


# -- what is drawn ---------------------------------------------------------------------------------


def _person(name: str, mail: str | None = None, a: int | None = None, b: int | None = None) -> Row:
    return {"id": name, "name": name, "mail": mail, "a": a, "b": b}


def _firm(name: str) -> Row:
    return {"id": name, "name": name}


_BEGINNING = [
    Step("Person", WriteMode.APPEND, [_person("p1"), _person("p2")]),
    Step("Firm", WriteMode.APPEND, [_firm("f1"), _firm("f2")]),
    Step("Knows", WriteMode.APPEND, [{"id": "k1", "src": "p1", "dst": "p2"}]),
    Step("Owns", WriteMode.APPEND, [{"id": "o1", "src": "p1", "dst": "f1", "share": 1}]),
]


def drawn_row(rng: random.Random, type: str) -> Row:
    """A row of a type; ids are few, so that writes meet."""
    person, firm = f"p{rng.randint(1, 5)}", f"f{rng.randint(1, 3)}"
    small = rng.choice([None, 0, 1, 2])
    match type:
        case "Person":
            mail = rng.choice([None, None, "m1", "m2"])
            return _person(person, mail, small, rng.choice([None, 0, 1]))
        case "Firm":
            return _firm(firm)
        case "Knows":
            return {"id": f"k{rng.randint(1, 4)}", "src": person, "dst": f"p{rng.randint(1, 5)}"}
        case _:
            return {"id": f"o{rng.randint(1, 3)}", "src": person, "dst": firm, "share": small}


def drawn_steps(rng: random.Random, modes: Sequence[WriteMode] = ()) -> list[Step]:
    """One transaction: a few types, a few rows each."""
    deletes = not modes and rng.random() < 0.2
    steps = []
    for type in rng.sample(sorted(COLUMNS), rng.randint(1, 3)):
        mode = rng.choice(modes or [WriteMode.MERGE, WriteMode.MERGE, WriteMode.APPEND, *WriteMode])
        if deletes or mode is WriteMode.DELETE:
            mode = WriteMode.DELETE if deletes else WriteMode.MERGE
        rows = {row["id"]: row for row in (drawn_row(rng, type) for _ in range(rng.randint(1, 3)))}
        steps.append(Step(type, mode, list(rows.values())))
    return steps


def merged(base: State, ours: State, theirs: State) -> State | None:
    """What a merge of two branches that were one at the base is; None where it is refused."""
    rows: dict[str, dict[str, Row]] = {type: {} for type in COLUMNS}
    touched: dict[str, set[str]] = {edge: set() for edge in ENDS}
    for type in COLUMNS:
        for id_ in {**ours[type], **theirs[type], **base[type]}:
            was, our, their = (state[type].get(id_) for state in (base, ours, theirs))
            if their not in (was, our) and our != was:
                return None
            row = our if their in (was, our) else their
            if row is not None:
                rows[type][id_] = row
            if type in ENDS and row != our:
                touched[type] |= {each["src"] for each in (row, our) if each is not None}
    try:
        Reference(rows, touched).check()
    except Refused:
        return None
    return rows


def touched_by(steps: Sequence[Step]) -> set[str]:
    """The types that a transaction may move."""
    types = {step.type for step in steps}
    if steps[0].mode is WriteMode.DELETE:
        types |= {edge for edge, ends in ENDS.items() if types.intersection(ends)}
    return types


# -- the history -----------------------------------------------------------------------------------


@dataclass
class History:
    """One graph, what may be in it, and what happened to it."""

    root: Path
    seed: int
    processes: Processes
    #: Whether the engine takes its turns too.
    engine: bool = False
    #: The name of a bug to plant in every write.
    plant: str = ""
    #: Whether branches are merged; what a seed draws depends on it.
    merges: bool = True
    trace: list[str] = field(default_factory=list)
    crashes: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        first = Reference.after(EMPTY, _BEGINNING)
        assert first is not None
        #: What each branch may hold.
        self.possible: dict[str, list[State]] = {MAIN: [first]}
        #: What both branches held when they were made, or merged the last time.
        self.base: State = first
        #: Commits, and what they held when they were new; live snapshots of the same.
        self.pinned: list[tuple[str, str, State, og.Snapshot]] = []
        self.steps: list[tuple[int, Callable[[], None]]] = [
            (30, self.step_write),
            (24, self.step_crash),
            (8, self.step_crash_and_repeat),
            (8, self.step_interleave),
            (8, self.step_other_writer_beside),
            (6, self.step_other_writer_deletes),
            (4, self.step_stray_commit),
            (8, self.step_branch),
            (6, self.step_crashed_recovery),
            (5, self.step_upkeep),
            *([(8, self.step_merge)] if self.merges else []),
            *([(5, self.step_engine_load), (3, self.step_engine_recovers)] if self.engine else []),
        ]

    def run(self, length: int) -> History:
        """Take that many steps; a `Violation` tells the seed and the way."""
        weights, steps = zip(*self.steps, strict=True)
        try:
            for _ in range(length):
                [step] = self.rng.choices(steps, weights)
                self.trace.append(step.__name__.removeprefix("step_"))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    step()
                    self.look()
            self.end()
        except (AssertionError, og.OmnigraphError) as broken:
            # An error that no step expects breaks a law as well.
            way = "\n  ".join(self.trace)
            text = f"seed {self.seed}, step {len(self.trace)}: {broken}\n  {way}"
            raise Violation(text) from None if isinstance(broken, Violation) else broken
        return self

    # -- steps -------------------------------------------------------------------------------------

    def step_write(self) -> None:
        branch, steps = self.branch(), drawn_steps(self.rng)
        self.note(branch, steps)
        with planted(self.plant):
            refusal = write_steps(self.graph(branch), steps)
        self.acknowledged(branch, steps, refusal)

    def step_crash(self) -> None:
        branch, steps = self.branch(), drawn_steps(self.rng)
        ended = self.crashed_write(branch, steps, None)
        if ended.died:
            self.unacknowledged(branch, steps)
            if self.rng.random() < 0.5:
                og.open(self.root)
        else:
            self.acknowledged(branch, steps, ended.value)

    def step_crash_and_repeat(self) -> None:
        """A piece of work with a name, which is done again until it is known to be done."""
        branch, steps = self.branch(), drawn_steps(self.rng)
        self.collapse(branch)
        once = f"{len(self.trace)}"
        for _ in range(2):
            if not self.crashed_write(branch, steps, once).died:
                break
        refusal = write_steps(self.graph(branch), steps, once)
        self.acknowledged(branch, steps, refusal)

    def step_interleave(self) -> None:
        """A transaction is open while another one begins and ends."""
        branch, first, second = self.branch(), drawn_steps(self.rng), drawn_steps(self.rng)
        self.collapse(branch)
        self.note(branch, first, second)
        refusal = ""
        before: Sequence[State] = ()
        graph = self.graph(branch)
        try:
            with planted(self.plant), graph.transaction() as tx:
                apply(tx, first)
                # A commit that leaves every row as it was overtakes the other one as well.
                if not (refused := write_steps(self.graph(branch), second)):
                    before = self.possible[branch]
                self.acknowledged(branch, second, refused)
        except (ConstraintViolationError, ConflictError) as error:
            refusal = type(error).__name__
        self.acknowledged(branch, first, refusal, before)

    def step_other_writer_beside(self) -> None:
        """Somebody who takes no locks adds a firm while our datasets move."""
        steps = drawn_steps(self.rng)
        windows = [points.SIDECAR_WRITTEN]
        if "Firm" not in touched_by(steps):
            windows += [points.DATASET_COMMITTED, points.BEFORE_PUBLISH]
        firm = _firm(f"other{len(self.trace)}")
        added = [Step("Firm", WriteMode.APPEND, [firm])]
        self.in_window(
            self.rng.choice(windows), steps, added, lambda other: other.write({"node:Firm": [firm]})
        )

    def step_other_writer_deletes(self) -> None:
        """Somebody deletes a person just as we write an edge that ends there."""
        self.collapse(MAIN)
        lonely = f"x{len(self.trace)}"
        came = [Step("Person", WriteMode.APPEND, [_person(lonely)])]
        self.acknowledged(MAIN, came, write_steps(self.graph(MAIN), came))
        gone = [Step("Person", WriteMode.DELETE, [{"id": lonely}])]
        edge = {"id": f"e{len(self.trace)}", "src": lonely, "dst": lonely}

        def delete(other: GraphBuilder) -> None:
            other.delete("node:Person", f"id = '{lonely}'")
            other.publish()

        windows = [points.SIDECAR_WRITTEN, points.DATASET_COMMITTED, points.BEFORE_PUBLISH]
        steps = [Step("Knows", WriteMode.APPEND, [edge])]
        self.in_window(self.rng.choice(windows), steps, gone, delete)

    def in_window(
        self,
        point: points.Failpoint,
        steps: Sequence[Step],
        theirs: Sequence[Step],
        act: Callable[[GraphBuilder], object],
    ) -> None:
        """Write on main while another writer acts at a point, if the write gets there."""
        self.collapse(MAIN)
        self.note(MAIN, steps, theirs)
        acted: list[bool] = []

        def other() -> None:
            points.disarm()
            act(GraphBuilder.open(self.root))
            acted.append(True)

        with reached(point, other), planted(self.plant):
            refusal = write_steps(self.graph(MAIN), steps)
        before = self.possible[MAIN]
        if acted:
            self.acknowledged(MAIN, theirs, "")
        self.acknowledged(MAIN, steps, refusal, before if acted else ())

    def step_stray_commit(self) -> None:
        """Somebody writes to a dataset of ours and publishes nothing, until it is repaired."""
        self.collapse(MAIN)
        firm = _firm(f"stray{len(self.trace)}")
        ours = [Step("Firm", WriteMode.APPEND, [_firm(f"ours{len(self.trace)}")])]
        self.note(MAIN, ours)
        acted: list[bool] = []

        def stray() -> None:
            points.disarm()
            GraphBuilder.open(self.root).append("node:Firm", [firm])
            acted.append(True)

        with reached(points.SIDECAR_WRITTEN, stray), planted(self.plant):
            refusal = write_steps(self.graph(MAIN), ours)
        law(acted == [True], "the write did not begin")
        law(refusal == "DriftError", f"a stray commit was written over: {refusal!r}")
        self.look()
        og.open(self.root).repair(force=True)
        self.acknowledged(MAIN, [Step("Firm", WriteMode.APPEND, [firm])], "")

    def step_branch(self) -> None:
        """Make the branch, or delete it; now and then in a process that dies."""
        exists = DEV in self.possible
        work = "delete_branch" if exists else "create_branch"
        self.collapse(MAIN)
        if exists:
            self.collapse(DEV)
        cut = Cut(How.KILL, self.rng.randint(0, 40)) if self.rng.random() < 0.5 else None
        ended = self.call(work, cut=cut)
        there = DEV in {branch.name for branch in og.open(self.root, mode="r").branches()}
        self.trace[-1] += f" {work} {'died' if ended.died else ''}"
        law(ended.died or there != exists, f"{work} did nothing")
        if there and not exists:
            self.possible[DEV] = list(self.possible[MAIN])
            [self.base] = self.possible[MAIN]
        if exists and not there:
            del self.possible[DEV]
            self.pinned = [pin for pin in self.pinned if pin[0] != DEV]

    def step_merge(self) -> None:
        """One branch takes over what the other one did since; now and then in a process that dies.

        Whether it is there afterwards, its commit tells: the rows may be those of before.
        """
        if DEV not in self.possible:
            return
        source, target = self.rng.sample([MAIN, DEV], 2)
        self.collapse(source)
        self.collapse(target)
        [theirs], [ours] = self.possible[source], self.possible[target]
        expected = merged(self.base, ours, theirs)
        cut = Cut(How.KILL, self.rng.randint(0, 100)) if self.rng.random() < 0.6 else None
        ended = self.call("merge", source, target, cut=cut)
        self.crashes += ended.died
        self.note(source, target, "died" if ended.died else ended.value)
        if ended.died:
            if expected is not None:
                self.possible[target].append(expected)
            self.look()
            og.open(self.root)
            head = self.graph(source).snapshot().commit.id
            history = self.graph(target).history()
            is_there = any(commit.merged_parent_id == head for commit in history)
        else:
            is_there = not ended.value
            law(is_there == (expected is not None), f"{ended.value or 'no refusal'}: {expected}")
        if is_there:
            assert expected is not None
            self.possible[target] = [expected]
            self.base = theirs
        else:
            self.possible[target] = [ours]

    def step_crashed_recovery(self) -> None:
        ended = self.call("recover", cut=Cut(How.KILL, self.rng.randint(0, 60)))
        self.crashes += ended.died

    def step_upkeep(self) -> None:
        """Files are put together or indexes built; now and then in a process that dies."""
        branch, what = self.branch(), self.rng.choice(["optimize", "build_indexes"])
        cut = Cut(How.KILL, self.rng.randint(0, 300)) if self.rng.random() < 0.5 else None
        ended = self.call("upkeep", branch, what, cut=cut)
        self.crashes += ended.died
        self.note(branch, what, "died" if ended.died else "")

    def step_engine_load(self) -> None:
        branch, steps = self.branch(), drawn_steps(self.rng, [WriteMode.MERGE])
        self.note(branch, steps)
        rows = self.root.with_suffix(".jsonl")
        rows.write_text("\n".join(json.dumps(line) for line in interchange(steps)), "utf-8")
        load = ("load", self.root, "--data", rows, "--mode", "merge", "--branch", branch)
        if run_engine(*load).returncode == 0:
            self.acknowledged(branch, steps, "")

    def step_engine_recovers(self) -> None:
        run_engine("snapshot", self.root, check=True)

    # -- what is known -----------------------------------------------------------------------------

    def branch(self) -> str:
        return self.rng.choice(sorted(self.possible))

    def graph(self, branch: str) -> og.Graph:
        return og.open(self.root, branch=branch)

    def note(self, *facts: object) -> None:
        self.trace[-1] += f" {facts}"

    def call(self, work: str, *args: Any, cut: Cut | None = None) -> Ended:
        ended = self.processes.call(f"tests.faults.histories:{work}", self.root, *args, cut=cut)
        law(not ended.error, f"{work}: {ended.error} {ended.text}")
        return ended

    def crashed_write(self, branch: str, steps: Sequence[Step], once: str | None) -> Ended:
        at = self.rng.randint(0, _MOST_CHANGES)
        plain = [[step.type, str(step.mode), list(step.rows)] for step in steps]
        ended = self.call("write", branch, plain, once, cut=Cut(How.KILL, at))
        self.crashes += ended.died
        self.note(branch, steps, f"cut {at}", "died" if ended.died else ended.value)
        return ended

    def unacknowledged(self, branch: str, steps: Sequence[Step]) -> None:
        """A write may be there or not."""
        after = [Reference.after(state, steps) for state in self.possible[branch]]
        self.possible[branch] += [state for state in after if state is not None]

    def acknowledged(
        self, branch: str, steps: Sequence[Step], refusal: str, overtaken: Sequence[State] = ()
    ) -> None:
        """A write is there, or was refused for a reason that holds in a state the branch may have.

        One that was planned on states that were overtaken since may give up, if it overwrites or
        deletes, and for a rule that it would have broken there: it did not look any further.
        """
        if refusal in _RULES and any(Reference.after(state, steps) is None for state in overtaken):
            return
        may_give_up = overtaken and any(step.mode not in _ADDITIVE for step in steps)
        if refusal and may_give_up and refusal != "ConstraintViolationError":
            return
        left = []
        for state in self.possible[branch]:
            after = Reference.after(state, steps)
            if (after is None) == bool(refusal):
                left.append(state if after is None else after)
        if not refusal and any(Reference.after(state, steps) == state for state in overtaken):
            # It found nothing to do, so it made no commit: it came before the other one.
            left += self.possible[branch]
        law(
            bool(left), f"{refusal or 'no refusal'} of {steps} on {branch}: {self.possible[branch]}"
        )
        self.possible[branch] = left

    def collapse(self, branch: str) -> None:
        """Recover, so that there is one state."""
        og.open(self.root)
        self.look()
        self.possible[branch] = self.possible[branch][-1:]

    # -- laws --------------------------------------------------------------------------------------

    def look(self) -> None:
        """A fresh reader sees on every branch what it may hold, and in a commit what it held."""
        pending = list((self.root / "__recovery").glob("*.json"))
        graph = og.open(self.root, mode="r")
        there = {branch.name for branch in graph.branches()}
        law(there == set(self.possible), f"the branches are {there}, not {set(self.possible)}")
        for branch in sorted(there):
            at = graph.as_branch(branch)
            seen = state_of(look_at(at))
            law(seen in self.possible[branch], f"{branch} holds {seen}")
            if not pending:
                self.possible[branch] = [seen]
                if self.rng.random() < 0.2:
                    snapshot = at.snapshot()
                    self.pinned.append((branch, snapshot.commit.id, seen, snapshot))
        if self.pinned:
            self.look_back(*self.rng.choice(self.pinned))
        if len(self.trace) % 4 == 0:
            check_indexes(str(self.root))

    def look_back(self, branch: str, commit: str, held: State, snapshot: og.Snapshot) -> None:
        """A pinned snapshot, live or by its commit, returns the same rows for ever."""
        by_commit = og.open(self.root, branch=branch, mode="r").snapshot(Ref.commit(commit))
        for found in (snapshot, by_commit):
            rows = {type: found.arrow(type).to_pylist() for type in COLUMNS}
            state = {type: {row["id"]: row for row in of} for type, of in rows.items()}
            law(state == held, f"commit {commit} of {branch} held {held} and holds {state}")

    def end(self) -> None:
        """In the end all is settled, every old commit is as it was, and the engine agrees."""
        og.open(self.root)
        self.look()
        check_settled(str(self.root), engine_forks=self.engine)
        for pin in self.pinned:
            self.look_back(*pin)
        if self.engine:
            for branch in self.possible:
                told = golden.by_type(engine_export(self.root, branch))
                rows = look_at(og.open(self.root, branch=branch, mode="r"))
                ours = {key: found for key, found in rows.items() if found}
                law(told == ours, f"the engine exports other rows of {branch}")


def state_of(rows: dict[str, Rows]) -> State:
    """Turn exported rows into those of the model."""
    state: dict[str, dict[str, Row]] = {}
    for key, of_type in rows.items():
        kind, _, name = key.partition(":")
        ends = [{"src": row["from"], "dst": row["to"]} if kind == "edge" else {} for row in of_type]
        plain = [{**row["data"], **end} for row, end in zip(of_type, ends, strict=True)]
        state[name] = {row["id"]: row for row in plain}
    return state


def interchange(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Rows as the engine loads them."""
    lines: list[dict[str, Any]] = []
    for step in steps:
        for row in step.rows:
            data = {name: value for name, value in row.items() if name not in ("src", "dst")}
            if step.type in ENDS:
                ends = {"from": row["src"], "to": row["dst"]}
                lines.append({"edge": step.type, **ends, "data": data})
            else:
                del data["id"]
                lines.append({"type": step.type, "data": data})
    return lines


def run_histories(folder: Path, seeds: range, length: int) -> list[str]:
    """Run the histories of these seeds; what broke."""
    broken = []
    own = Path(tempfile.mkdtemp(dir=folder))
    with waiting_process() as processes:
        processes.value("tests.faults.histories:begin", own / "original")
        for seed in seeds:
            root = Path(shutil.copytree(own / "original", own / f"h{seed}"))
            # Every fourth one with the engine, which takes most of the time.
            engine = seed % 4 == 0 and engine_binary() is not None
            try:
                done = History(root, seed, processes, engine=engine).run(length)
                print(
                    f"history {seed}: {len(done.trace)} steps, {done.crashes} crashes", flush=True
                )
            except Violation as violation:
                print(f"history {seed}: VIOLATION {violation}", flush=True)
                broken.append(str(violation))
            shutil.rmtree(root)
    return broken
