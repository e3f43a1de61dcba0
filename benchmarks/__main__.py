"""``make bench``: measure, print ratios and what of the targets is reached, keep the results.

``make bench ARGS="--rows 10M --only scans 'point lookup'"`` takes groups or single works.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from types import ModuleType

from benchmarks import commits, loads, lookups, scans, statements, upkeep, writes
from benchmarks.command import chosen, options, parsed, run
from benchmarks.stage import CONTESTANTS, open_stage

GROUPS: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (scans, lookups, writes, commits, loads, statements, upkeep)
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = options("benchmarks", __doc__, GROUPS)
    parser.add_argument(
        "--with", dest="contestants", nargs="+", default=CONTESTANTS, choices=CONTESTANTS
    )
    given = parsed(parser, arguments, GROUPS)
    with open_stage(given.data, given.rows, given.contestants, given.cores, given.memory) as stage:
        run(chosen(GROUPS, stage, given.only), given, versions())


def versions() -> dict[str, str]:
    """Return the versions of what is compared."""
    names = {"Spark": "pyspark", "Delta": "delta-spark", "Lance": "pylance"}
    return {label: version(name) for label, name in names.items()}


if __name__ == "__main__":
    main()
