"""`make faults`: every cut of every work, long random histories, and a ledger of all of it.

`python -m tests.faults [--histories N] [--length L] [--seed S] [--works NAME …] [--parts PART …]`
ends with 1 when a law was broken. Every line of the ledger names the work, the number of changes to
files after which its process was killed, what a reader saw then and what recovery ended in (ours,
then the engine's), and the last thing that had become durable.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.faults.failing import fail_sweep
from tests.faults.histories import run_histories
from tests.faults.processes import missing, waiting_process
from tests.faults.sweep import Line, Place, sweep, sweep_twice
from tests.faults.works import WORKS
from tests.helpers.engine import engine_binary

_WORKERS = 2
#: What is done to a work: its process dies, or its storage fails.
PARTS = ["cuts", "failures"]


def main() -> int:
    """Run what the arguments ask for; return how many laws were broken, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--seed", type=int, default=10_000, help="of the first history")
    parser.add_argument("--works", nargs="*", choices=[*WORKS, []], default=list(WORKS))
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    asked = parser.parse_args()
    if reason := missing():
        print(f"cannot run here: {reason}")
        return 1
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="og-faults-") as name,
        ThreadPoolExecutor(_WORKERS) as pool,
        # Histories arm failpoints in their own process, so each share has one to itself.
        ProcessPoolExecutor(_WORKERS, mp_context=get_context("spawn")) as own_processes,
    ):
        folder = Path(name)
        swept = [pool.submit(swept_lines, folder, work, asked.parts) for work in asked.works]
        lines = [line for future in swept for line in future.result()]
        seeds = range(asked.seed, asked.seed + asked.histories)
        shares = [seeds[at::_WORKERS] for at in range(_WORKERS)]
        run = [own_processes.submit(run_histories, folder, share, asked.length) for share in shares]
        broken = [text for future in run for text in future.result()]
    violations = sum(bool(line.violation) for line in lines) + len(broken)
    print_summary(lines, asked.histories, asked.length, broken, time.monotonic() - begun)
    return min(violations, 1)


def swept_lines(folder: Path, work: str, parts: list[str]) -> list[Line]:
    """Every cut of one work, second crashes, a full disk and a denied one, printed as they come."""
    lines = []
    own = Path(tempfile.mkdtemp(dir=folder))
    with waiting_process() as processes:
        try:
            for line in every_line(Place(own, processes, work), parts):
                print(line, flush=True)
                lines.append(line)
        except AssertionError as broken:
            # One work that cannot be judged does not cost the ledger of all others.
            lines.append(Line(work, "?", "nothing", "", "?", violation=str(broken)))
            print(lines[-1], flush=True)
    shutil.rmtree(own)
    return lines


def every_line(place: Place, parts: list[str]) -> Iterator[Line]:
    """The whole proof for one work, or a part of it."""
    with_engine = engine_binary() is not None and WORKS[place.work].engine
    every = range(len(place.events) + 1)
    if "cuts" in parts:
        yield from sweep(place, every, engine=lambda at: with_engine)
        rng = random.Random(place.work)
        if place.work.startswith("recovery"):
            yield from sweep_twice(place, ((cut, rng.randint(1, len(every))) for cut in every))
    if "failures" in parts:
        yield from fail_sweep(place, every)


def print_summary(
    lines: list[Line], histories: int, length: int, broken: list[str], seconds: float
) -> None:
    """Print what was done and what it showed."""
    print("\nLedger")
    by_work = Counter(line.work for line in lines)
    for work, count in by_work.items():
        own = [line for line in lines if line.work == work]
        ends = Counter(line.ended for line in own)
        asked = sum(bool(line.engine) for line in own)
        bad = sum(bool(line.violation) for line in own)
        print(
            f"  {work:38} {count:4} cuts, {ends['before']:4} end before, {ends['after']:4} after, "
            f"{asked:4} by the engine too, {bad} violations"
        )
    violations = sum(bool(line.violation) for line in lines)
    print(f"  {len(lines)} cuts, {violations} violations")
    print(f"  {histories} histories of {length} steps, {len(broken)} violations")
    print(f"  {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
