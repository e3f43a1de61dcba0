"""Works and how they are measured: contestants take turns, and every repeat counts wall and CPU.

A `Work` is one thing to do, with one way for each contestant. What the ways answer must agree, so
that nobody wins by doing something else.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.processes import Peaks, cpu_between, forget_peaks, peaks, usage

#: Does the work once; it is told how often it was done before, from 0 on.
Way = Callable[[int], Any]


def nothing(_: int) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Work:
    """One thing to do, and each contestant's way to do it."""

    name: str
    ways: Mapping[str, Way]
    #: Done before each repeat, by contestant; it is not measured.
    before: Mapping[str, Way] = field(default_factory=dict)
    #: Whether the ways answer with values that must agree.
    agree: bool = True
    #: Repeats that are not counted: they pay for code that is loaded and compiled.
    warm_ups: int = 1
    #: How often, where the usual number of repeats does not fit.
    repeats: int | None = None


@dataclass(frozen=True)
class Sample:
    """What one repeat took."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Timing:
    """What all repeats of one contestant took."""

    samples: tuple[Sample, ...]
    peaks: Peaks | None = None

    @property
    def wall_s(self) -> float:
        """Median of the wall times."""
        return statistics.median(sample.wall_s for sample in self.samples)

    @property
    def cpu_s(self) -> float:
        """Median of the CPU times, all processes together."""
        return statistics.median(sample.cpu_s for sample in self.samples)

    @property
    def best_s(self) -> float:
        """The shortest wall time: what others on the machine disturbed least."""
        return min(sample.wall_s for sample in self.samples)

    @property
    def p95_s(self) -> float:
        """The wall time that 95 of 100 repeats keep."""
        walls = sorted(sample.wall_s for sample in self.samples)
        return walls[math.ceil(0.95 * len(walls)) - 1]

    @property
    def spread(self) -> float:
        """How far wall times lie apart, as a share of their median."""
        walls = [sample.wall_s for sample in self.samples]
        return (max(walls) - min(walls)) / self.wall_s if self.wall_s else 0.0


class DisagreementError(AssertionError):
    """Two contestants gave different answers to one work."""


def measure(work: Work, repeats: int) -> dict[str, Timing]:
    """Let the contestants take turns and return what each took."""
    samples: dict[str, list[Sample]] = {name: [] for name in work.ways}
    highest: dict[str, Peaks] = {}
    answers: dict[str, Any] = {}
    names = list(work.ways)
    for turn in range(work.warm_ups + (work.repeats or repeats)):
        # Another one begins each time: what runs after a hungry neighbour is not always the same.
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            work.before.get(name, nothing)(turn)
            sample, answer, peak = _once(work.ways[name], turn)
            answers[name] = answer
            highest[name] = peak if name not in highest else _higher(highest[name], peak)
            if turn >= work.warm_ups:
                samples[name].append(sample)
        if work.agree:
            _compare(work.name, answers)
    return {name: Timing(tuple(samples[name]), highest[name]) for name in names}


def _once(way: Way, turn: int) -> tuple[Sample, Any, Peaks]:
    gc.collect()
    forget_peaks()
    before, start = usage(), time.perf_counter()
    answer = way(turn)
    wall = time.perf_counter() - start
    return Sample(wall, cpu_between(before, usage())), answer, peaks()


def _higher(one: Peaks, other: Peaks) -> Peaks:
    return Peaks(
        max(one.driver, other.driver), max(one.java, other.java), max(one.worker, other.worker)
    )


def _compare(work: str, answers: Mapping[str, Any]) -> None:
    (first, expected), *others = answers.items()
    for name, answer in others:
        if not same(expected, answer):
            raise DisagreementError(f"{work}: {first} says {expected!r}, {name} says {answer!r}")


def same(one: Any, other: Any) -> bool:
    """Compare answers; sums of floats depend on the order of the rows.

    >>> same([(1, 0.1 + 0.2)], [(1, 0.3)]), same([(1,)], [(2,)])
    (True, False)
    """
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    if _is_rows(one) and _is_rows(other):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _is_rows(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
