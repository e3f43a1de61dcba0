"""The sweep: a work is done in a process that is killed after every change to a file, in turn.

Every graph lies at the same place, because branches and sidecars name it: the original of a work is
put there, cut, judged by us, and once more by the engine.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.engine.graphs import PERSON_FOLDER
from tests.faults.judging import NEWCOMER, State, Violation, law
from tests.faults.processes import Ended, Processes
from tests.faults.shim import Cut, Event, How
from tests.faults.works import WORKS
from tests.helpers import golden
from tests.helpers.engine import engine_export, run_engine

#: The changes that decide something: a version, a sidecar, a branch, a schema file by its own name.
_DECIDING = re.compile(
    r"(_versions/\d+\.manifest|__recovery/\w+\.json|_refs/branches/[^/]+\.json|^_+schema[\w.]+)$"
)


@dataclass(frozen=True)
class Line:
    """One line of the ledger: where a work was cut, and what it ended in."""

    work: str
    cut: str
    #: The last thing that became durable.
    durable: str
    seen: str
    ended: str
    recovery: str = ""
    #: What the engine's recovery ended in, where it was asked.
    engine: str = ""
    violation: str = ""

    def __str__(self) -> str:
        ended = f"{self.seen} -> {self.ended}" if self.seen else self.ended
        parts = [f"{self.work:38}", f"{self.cut:>9}", f"{ended:18}"]
        parts += [f"{self.recovery or '-':14}", f"{self.engine or '-':7}", self.durable]
        return " ".join(parts) + (f"\n    VIOLATION: {self.violation}" if self.violation else "")


class Place:
    """The one place where graphs of a work are put, cut and judged."""

    def __init__(self, folder: Path, processes: Processes, work: str) -> None:
        self.root = folder / "g"
        self.work = work
        self._original, self._crashed = folder / "original", folder / "crashed"
        self.processes = processes
        self._make_original()
        self.put()
        self.pre: State | None = self.look()
        self.processes.value("tests.faults.works:run_first", self.root, work)
        #: What is there before the work, and what is there when only its first step stays.
        self.undone = [self.pre, self.look()]
        done = self.run(Cut(How.COUNT))
        assert not done.error, f"{work}: {done.text}"
        self.events = done.events
        log = replayed(sizes(self._original), self.events)
        law(log == sizes(self.root), "a file was changed past the counter")
        self.post: State | None = self.look()

    def _make_original(self) -> None:
        for folder in (self.root, self._original):
            shutil.rmtree(folder, ignore_errors=True)
        for step in range(len(WORKS[self.work].begin)):
            made = self.processes.call("tests.faults.works:begin", self.root, self.work, step)
            assert not made.error, made.text
        # Where a work makes the graph, the place is there and empty.
        self.root.mkdir(exist_ok=True)
        self.root.rename(self._original)

    def look(self) -> State | None:
        """What a fresh reader sees; a graph that cannot be read breaks a law."""
        looked = self.processes.call("tests.faults.judging:look", self.root)
        law(not looked.error, f"it cannot be read: {looked.text}")
        state: State | None = looked.value
        return state

    def put(self) -> None:
        """Put the original in its place."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self._original, self.root)

    def run(self, cut: Cut, plant: str = "", *, anew: bool = True) -> Ended:
        """Do the work on the original, or on what is there, and cut it."""
        if anew:
            self.put()
        return self.processes.call("tests.faults.works:run", self.root, self.work, plant, cut=cut)

    def judge(self, with_engine: bool = False) -> dict[str, Any]:
        """Let us recover what was left, and the engine a copy of it; what each ended in."""
        if with_engine:
            shutil.rmtree(self._crashed, ignore_errors=True)
            shutil.copytree(self.root, self._crashed)
        args = (self.root, self.work, self.undone, self.post)
        judged = self.processes.call("tests.faults.judging:judge", *args)
        if judged.error or judged.died:
            raise Violation(judged.text or "the judging process died")
        found: dict[str, Any] = judged.value
        if with_engine and self.is_a_graph(self._crashed):
            shutil.rmtree(self.root)
            self._crashed.rename(self.root)
            found["engine"] = self.judge_engine(found["ended"])
        return found

    @staticmethod
    def is_a_graph(root: Path) -> bool:
        return any(root.glob("__manifest/_versions/*.manifest"))

    def judge_engine(self, ours: str) -> str:
        """The engine recovers to the same state, exports its rows, and goes on writing."""
        run_engine("snapshot", self.root, check=True)
        state = self.look()
        ended = "after" if state == self.post else "before"
        law(state in [*self.undone, self.post], f"the engine ends in neither state: {state}")
        law(self.pre == self.post or ended == ours, f"the engine ends {ended}, we {ours}")
        assert state is not None
        self._compare_exports(state)
        rows = self.root.with_name("rows.jsonl")
        rows.write_text(json.dumps(NEWCOMER), encoding="utf-8")
        for branch in state:
            load = ("load", self.root, "--data", rows, "--mode", "merge", "--branch", branch)
            if self._half_fork(branch):
                # Lance makes a fork in two steps and cannot get rid of half of one. The engine says
                # so and changes nothing; our next write on the branch makes the fork anew.
                law(run_engine(*load).returncode != 0, "the engine wrote to half a fork")
                law(self.look() == state, "the engine failed, and changed something")
                self.processes.value("tests.faults.judging:check_next_writes", self.root)
                run_engine(*load, check=True)
                return f"{ended}, after us"
            run_engine(*load, check=True)
            state[branch]["node:Person"].append(NEWCOMER)
        law(self.look() == state, "what the engine wrote next is not all that changed")
        self.processes.value("tests.faults.judging:check_next_writes", self.root)
        return ended

    def _half_fork(self, branch: str) -> bool:
        """Whether the dataset of people has a version on a branch, and no ref that says so."""
        people = self.root / PERSON_FOLDER
        versions = people / "tree" / branch / "_versions"
        return (
            any(versions.glob("*.manifest"))
            and not (people / "_refs" / "branches" / f"{branch}.json").exists()
        )

    def _compare_exports(self, state: State) -> None:
        for branch, rows in state.items():
            told = golden.by_type(engine_export(self.root, branch))
            ours = {key: found for key, found in rows.items() if found}
            law(told == ours, f"the engine exports other rows of {branch} than we read")


def decides(event: Event) -> bool:
    """Tell whether a change decides something."""
    return _DECIDING.search(event.path) is not None


def deciding_cuts(events: Sequence[Event]) -> list[int]:
    """The cuts right after every change that decides something, and before any change."""
    after = (at for at, event in enumerate(events, 1) if decides(event))
    return [0, *after]


def sizes(root: Path) -> dict[str, int]:
    """How long each file is."""
    return {
        str(path.relative_to(root)): path.stat().st_size
        for path in root.rglob("*")
        if path.is_file()
    }


def replayed(files: dict[str, int], events: Iterable[Event]) -> dict[str, int]:
    """What files there are after these changes, and how long: the log, taken at its word."""
    files = dict(files)
    for event in events:
        match event.name:
            case "create":
                files[event.path] = 0
            case "write":
                files[event.path] += event.size
            case "link":
                files[event.path] = files[event.source]
            case "rename":
                files[event.path] = files.pop(event.source)
            case "unlink":
                files.pop(event.path, None)
            case "mkdir":
                pass
            case _:
                raise AssertionError(f"nobody expected {event}")
    return files


def sweep(
    place: Place, cuts: Iterable[int], plant: str = "", engine: Callable[[int], bool] | None = None
) -> Iterator[Line]:
    """Cut a work after each of these many changes, and judge what it left."""
    for at in cuts:
        ended = place.run(Cut(How.KILL, at), plant)
        if ended.error:
            raise AssertionError(f"{place.work}, cut {at}: {ended.text}")
        law(not ended.died or len(ended.events) == at, f"{place.work} was not cut at {at}")
        yield judged_line(place, str(at), ended, engine is not None and engine(at))


def sweep_twice(place: Place, pairs: Iterable[tuple[int, int]]) -> Iterator[Line]:
    """Cut a work, let it be begun again and cut that as well, and judge what is left then."""
    for first, second in pairs:
        events = place.run(Cut(How.KILL, first)).events
        ended = place.run(Cut(How.KILL, second), anew=False)
        ended = replace(ended, events=events + ended.events)
        yield judged_line(place, f"{first}, {second}", ended, False)


def judged_line(place: Place, cut: str, ended: Ended, with_engine: bool) -> Line:
    """Judge what is there now; what is wrong is written down and not raised."""
    durable = str(ended.events[-1]) if ended.events else "nothing"
    try:
        found = place.judge(with_engine)
    except AssertionError as broken:
        return Line(place.work, cut, durable, "", "?", violation=str(broken))
    recovery = ", ".join(found["recoveries"])
    return Line(
        place.work, cut, durable, found["seen"], found["ended"], recovery, found.get("engine", "")
    )
