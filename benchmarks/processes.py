"""What processes cost: CPU time and peak memory of this process and of all that it started.

Spark is a tree: this process, the JVM below it, Python workers below that. Read from `/proc`, so
Linux only. CPU of children that ended is counted with their parent, as the kernel does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Written to a process's `clear_refs`, this makes its peak what it uses now.
_RESET_PEAK = "5"


@dataclass(frozen=True)
class Process:
    """One process of the tree; times are user and system time together, in seconds."""

    id: int
    parent: int
    command: str
    own_s: float
    #: Of children that ended and that it waited for.
    children_s: float


@dataclass(frozen=True)
class Peaks:
    """Most memory that was in use, in MiB: this process, the JVM, the largest Python worker."""

    driver: float
    java: float
    worker: float


Usage = dict[int, Process]


def usage() -> Usage:
    """Return what every process of the tree used so far."""
    return {process.id: process for process in tree()}


def cpu_between(before: Usage, after: Usage) -> float:
    """Return the CPU time of the whole tree between two moments.

    The time of a process that ended is its parent's, with what it had used before; where nobody
    waited for it the kernel forgets it, and so it is left out here.
    """
    spent = sum(process.own_s + process.children_s for process in after.values())
    for id_, process in before.items():
        used = process.own_s + process.children_s
        if id_ in after or _inherited(process.parent, before, after) >= used:
            spent -= used
    return spent


def _inherited(parent: int, before: Usage, after: Usage) -> float:
    """Return what a process got from children that ended between two moments."""
    if parent not in before or parent not in after:
        return 0.0
    return after[parent].children_s - before[parent].children_s


def forget_peaks() -> None:
    """Let peaks begin anew."""
    for process in tree():
        try:
            Path(f"/proc/{process.id}/clear_refs").write_text(_RESET_PEAK)
        except OSError:
            # It ended since the listing.
            continue


def peaks() -> Peaks:
    """Return the peaks since `forget_peaks`, or since the processes began."""
    java, worker = 0.0, 0.0
    for process in tree():
        if process.id == os.getpid():
            continue
        if "java" in process.command:
            java = max(java, peak_mib(process.id))
        else:
            worker = max(worker, peak_mib(process.id))
    return Peaks(peak_mib(os.getpid()), java, worker)


def tree(root: int | None = None) -> list[Process]:
    """Return this process, or another, and all processes that it started, directly or not."""
    found = {process.id: process for process in _all()}
    below = {root or os.getpid()}
    while more := {each.id for each in found.values() if each.parent in below} - below:
        below |= more
    return [found[id_] for id_ in below if id_ in found]


def _all() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        # The command is in parentheses, and may hold any character.
        command, rest = stat[stat.index("(") + 1 :].rsplit(")", 1)
        fields = rest.split()
        # See proc(5): the parent is the second field here; utime to cstime are the 12th to 15th.
        own, children = (sum(map(int, fields[at : at + 2])) for at in (11, 13))
        yield Process(
            int(entry.name), int(fields[1]), command, own / _TICKS_PER_S, children / _TICKS_PER_S
        )


def peak_mib(process: int) -> float:
    """Return the most memory a process has had, 0 when it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
