"""Where failpoints stand among the changes to files: what a work reaches, told into the same log.

What a work makes durable is found by watching the kernel, so a step that nobody named shows up as a
deciding change without a point behind it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from omnigraph_spark.failpoints import Failpoint, all_failpoints, arm
from tests.faults.processes import Processes
from tests.faults.shim import Cut, Event, How
from tests.faults.sweep import decides
from tests.faults.works import WORKS

_POINT = "point"


def run_telling(root: str, name: str, log: str) -> None:
    """Do a work, and tell every point it reaches into the log of its changes."""

    def told(point: Failpoint) -> None:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{_POINT}\t0\t{point.name}\t\n")

    with patch.object(Failpoint, "reached", told):
        WORKS[name].run(root)


def run_to(root: str, name: str, point: str, at: int) -> None:
    """Do a work in a process that ends when it reaches a point for the `at`-th time."""
    [armed] = [each for each in all_failpoints() if each.name == point]
    arm(armed, lambda: os._exit(0), at)
    WORKS[name].run(root)


def told_events(root: Path, work: str, processes: Processes) -> tuple[Event, ...]:
    """Do a work on what is there; its changes and the points it reached, in order."""
    ended = processes.call(
        "tests.faults.points:run_telling", root, work, str(processes.log), cut=Cut(How.COUNT)
    )
    assert not ended.error, ended.text
    return ended.events


def points_of(events: Sequence[Event]) -> list[tuple[str, list[str]]]:
    """Return each point a work reached, with the deciding changes since the one before it.

    What comes after the last point has the empty name.
    """
    found: list[tuple[str, list[str]]] = []
    decided: list[str] = []
    for event in events:
        if event.name == _POINT:
            found.append((event.path, decided))
            decided = []
        elif decides(event):
            decided.append(str(event))
    return [*found, ("", decided)]
