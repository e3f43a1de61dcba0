"""``make bench-quick``: a few works on few rows, for continuous integration; minutes, not hours.

Fails (exit code 1) when something takes more than twice as long beside Spark's Parquet as was
recorded. The shortest of several turns is compared, which other programs on the machine disturb
least, and what seems slow is measured once more before it counts. ``--record`` writes new bounds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir

from benchmarks import scans, writes
from benchmarks.measure import Timing, Work, measure
from benchmarks.report import table
from benchmarks.stage import Stage, open_stage

BOUNDS = Path(__file__).parent / "results" / "quick.json"
ROWS = 500_000
_REPEATS = 3
_CONTESTANTS = ("omnigraph", "pip", "parquet")
_SCANS = ("count", "sum of one column", "filter 1%, sum", "group by kind", "all 12 columns")
#: Generous: sessions differ by a third from run to run on machines that others use as well.
_TIMES_SLOWER = 2.0

Ratios = dict[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare with what was recorded, and return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.quick", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep the ratios as new bounds")
    parser.add_argument("--data", type=Path, default=Path(gettempdir()) / "omnigraph-bench")
    given = parser.parse_args(arguments)
    recorded: Ratios = json.loads(BOUNDS.read_text()) if BOUNDS.exists() else {}
    found: Ratios = {}
    with open_stage(given.data, ROWS, _CONTESTANTS) as stage:
        for work in _works(stage):
            ratios = _measured(work)
            if slower(ratios, recorded):
                print(f"{work.name} once more", flush=True)
                again = _measured(work)
                ratios = {name: min(ratio, again[name]) for name, ratio in ratios.items()}
            found |= ratios
    if given.record:
        rounded = {name: round(ratio, 2) for name, ratio in found.items()}
        BOUNDS.parent.mkdir(exist_ok=True)
        BOUNDS.write_text(json.dumps(rounded, indent=1) + "\n")
        return 0
    if not recorded:
        print("nothing is recorded yet, so nothing can be too slow: run with --record")
    late = slower(found, recorded)
    for name, ratio in found.items():
        verdict = "TOO SLOW" if name in late else "fine"
        print(
            f"{name:<40}{ratio:>8.2f}  recorded {recorded.get(name, float('nan')):.2f}  {verdict}"
        )
    return 1 if late else 0


def slower(found: Mapping[str, float], recorded: Mapping[str, float]) -> list[str]:
    """Return what takes more than twice what was recorded.

    >>> slower({"count": 0.5, "sum": 0.5, "new": 9.0}, {"count": 0.2, "sum": 0.3})
    ['count']
    """
    return [
        name
        for name, ratio in found.items()
        if name in recorded and ratio > _TIMES_SLOWER * recorded[name]
    ]


def _works(stage: Stage) -> Iterator[Work]:
    yield from (work for work in scans.works(stage) if work.name in _SCANS)
    yield from (work for work in writes.works(stage) if work.name == "bulk write")


def _measured(work: Work) -> Ratios:
    timings = measure(work, _REPEATS)
    print(*table(work.name, timings), sep="\n", flush=True)
    return dict(_ratios(work.name, timings))


def _ratios(work: str, timings: Mapping[str, Timing]) -> Iterator[tuple[str, float]]:
    base = timings["parquet"].best_s
    for who, timing in timings.items():
        if who != "parquet":
            yield f"{work} [{who}]", timing.best_s / base


if __name__ == "__main__":
    sys.exit(main())
