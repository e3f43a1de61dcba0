"""What commands share: the options of a run, the works that are asked for, the run itself."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Protocol

from benchmarks.measure import Work, measure
from benchmarks.report import Results, table, verdicts

RESULTS = Path(__file__).parent / "results"
_UNITS = {"k": 1_000, "M": 1_000_000}


class Group(Protocol):
    """Works that belong together: a module."""

    NAMES: Sequence[str]

    def works(self, stage: Any) -> Iterator[Work]:
        """Yield them all, in the order of their names."""
        ...


def rows_of(text: str) -> int:
    """Read a number of rows.

    >>> rows_of("10M"), rows_of("500k"), rows_of("1234")
    (10000000, 500000, 1234)
    """
    unit = _UNITS.get(text[-1:], 1)
    return int(text[:-1] if unit > 1 else text) * unit


def options(prog: str, description: str | None, groups: Iterable[str]) -> argparse.ArgumentParser:
    """Return the options of a run."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--rows", type=rows_of, default="1M", help="1M, 10M, 100M or any number")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"{', '.join(groups)}; or works")
    parser.add_argument("--data", type=Path, default=Path(gettempdir()) / "omnigraph-bench")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cores", default="*")
    parser.add_argument("--memory", default="4g", help="of the JVM")
    return parser


def parsed(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, groups: Mapping[str, Group]
) -> argparse.Namespace:
    """Read the options; a group or a work that there is not ends the command."""
    given = parser.parse_args(arguments)
    known = {*groups, *(name for group in groups.values() for name in group.NAMES)}
    if unknown := set(given.only or ()) - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    return given


def chosen(groups: Mapping[str, Group], stage: Any, only: Sequence[str] | None) -> Iterator[Work]:
    """Yield the works of the groups or names that are asked for."""
    for name, group in groups.items():
        if only is None or name in only:
            yield from group.works(stage)
        elif wanted := set(only) & set(group.NAMES):
            yield from (work for work in group.works(stage) if work.name in wanted)


def run(works: Iterable[Work], given: argparse.Namespace, versions: Mapping[str, str]) -> None:
    """Measure works, print each, keep the results, and judge all that is known of this size."""
    results = Results.load(given.results, given.rows) or Results(given.rows, machine(), {})
    results = results.with_versions(versions)
    for work in works:
        timings = measure(work, given.repeats)
        print(*table(work.name, timings), sep="\n", flush=True)
        results = results.with_work(work.name, timings)
        # After each, so that a run that is ended early keeps what it has.
        results.save(given.results)
    print("targets", *verdicts(results), sep="\n")


def machine() -> str:
    """Describe this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores, {memory:.0f} GiB"
