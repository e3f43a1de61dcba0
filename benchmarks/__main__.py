"""``make bench``: measure, print ratios and what of the targets is reached, keep the results.

``make bench ARGS="--rows 10M --only scans 'point lookup'"`` takes groups or single works.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import gettempdir
from types import ModuleType

from benchmarks import commits, loads, lookups, scans, statements, upkeep, writes
from benchmarks.measure import Work, measure
from benchmarks.report import Results, table, verdicts
from benchmarks.stage import CONTESTANTS, Stage, open_stage

GROUPS: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (scans, lookups, writes, commits, loads, statements, upkeep)
}
RESULTS = Path(__file__).parent / "results"
_UNITS = {"k": 1_000, "M": 1_000_000}


def rows_of(text: str) -> int:
    """Read a number of rows.

    >>> rows_of("10M"), rows_of("500k"), rows_of("1234")
    (10000000, 500000, 1234)
    """
    unit = _UNITS.get(text[-1:], 1)
    return int(text[:-1] if unit > 1 else text) * unit


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--rows", type=rows_of, default="1M", help="1M, 10M, 100M or any number")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help=f"of {', '.join(GROUPS)}; or works"
    )
    parser.add_argument(
        "--with", dest="contestants", nargs="+", default=CONTESTANTS, choices=CONTESTANTS
    )
    parser.add_argument("--data", type=Path, default=Path(gettempdir()) / "omnigraph-bench")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cores", default="*")
    parser.add_argument("--memory", default="4g", help="of the JVM")
    given = parser.parse_args(arguments)
    known = {*GROUPS, *(name for module in GROUPS.values() for name in module.NAMES)}
    if unknown := set(given.only or ()) - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    results = Results.load(given.results, given.rows) or Results(given.rows, machine(), versions())
    with open_stage(given.data, given.rows, given.contestants, given.cores, given.memory) as stage:
        for work in chosen(stage, given.only):
            timings = measure(work, given.repeats)
            print(*table(work.name, timings), sep="\n", flush=True)
            results = results.with_work(work.name, timings)
            # After each, so that a run that is ended early keeps what it has.
            results.save(given.results)
    print("targets", *verdicts(results), sep="\n")


def chosen(stage: Stage, only: Sequence[str] | None) -> Iterator[Work]:
    """Yield the works of the groups or names that are asked for."""
    for group, module in GROUPS.items():
        if only is None or group in only:
            yield from module.works(stage)
        elif wanted := set(only) & set(module.NAMES):
            yield from (work for work in module.works(stage) if work.name in wanted)


def machine() -> str:
    """Describe this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores, {memory:.0f} GiB"


def versions() -> dict[str, str]:
    """Return the versions of what is compared."""
    names = {"Spark": "pyspark", "Delta": "delta-spark", "Lance": "pylance"}
    return {label: version(name) for label, name in names.items()}


if __name__ == "__main__":
    main()
