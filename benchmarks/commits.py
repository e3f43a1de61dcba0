"""Works of small commits: how long one takes, what more types add, and whether history matters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph_spark as og
from benchmarks.measure import Way, Work
from benchmarks.stage import Stage

_ROWS = 1_000
_TYPES = 8
#: Histories that are compared, kept with the data; the longest takes many minutes to make, and is
#: compared where much else takes minutes, too. A graph is optimized now and then, as one that is in
#: use would be, so that they differ in their length and not in the files that lie there.
_HISTORIES = (10, 1_000)
_LONGEST, _LARGE = 10_000, 10_000_000
_OPTIMIZED_EVERY = 1_000
_SCHEMA = "\n".join(f"node T{n} {{ name: String @key  number: I64 }}" for n in range(_TYPES))
#: The works, in the order they come.
NAMES = (
    "small commit",
    "commit of 1 type",
    "commit of 8 types",
    "open and plan, cold",
    "open and plan, warm",
    "commit after a history",
)


def works(stage: Stage) -> Iterator[Work]:
    """Yield commits of a thousand rows."""
    yield from _beside_delta(stage)
    yield from _types(stage)
    yield from _after_histories(stage)


def _rows(start: int) -> pa.Table:
    names = np.char.add("name-", np.arange(start, start + _ROWS).astype(str))
    return pa.table({"name": pa.array(names), "number": pa.array(np.arange(_ROWS))})


def _beside_delta(stage: Stage) -> Iterator[Work]:
    """Append the same thousand rows from a DataFrame, and to a graph without Spark as well."""
    spark = stage.spark
    graph = og.create(stage.fresh("small"), _SCHEMA, spark=spark)
    alone = og.create(stage.fresh("small-alone"), _SCHEMA)
    table = str(stage.fresh("small.delta"))
    ways: dict[str, Way] = {
        "omnigraph": lambda turn: graph.write(
            spark.createDataFrame(_rows(turn * _ROWS)).coalesce(1), "T0"
        ),
        "no session": lambda turn: alone.write(_rows(turn * _ROWS), "T0"),
    }
    if "delta" in stage.contestants:
        ways["delta"] = lambda turn: (
            spark.createDataFrame(_rows(turn * _ROWS))
            .coalesce(1)
            .write.format("delta")
            .mode("append")
            .save(table)
        )
    # Delta writes a checkpoint every tenth time: enough repeats for several.
    yield Work("small commit", ways, agree=False, warm_ups=3, repeats=41)


def _types(stage: Stage) -> Iterator[Work]:
    """Commit to one type, and to eight in one transaction."""
    graph = og.create(stage.fresh("types"), _SCHEMA)

    def commit(types: int, turn: int) -> None:
        with graph.transaction() as tx:
            for number in range(types):
                tx.append(f"T{number}", _rows((2 * turn + (types > 1)) * _ROWS))

    yield Work("commit of 1 type", {"no session": partial(commit, 1)}, repeats=20, warm_ups=2)
    yield Work(f"commit of {_TYPES} types", {"no session": partial(commit, _TYPES)}, repeats=20)


def _after_histories(stage: Stage) -> Iterator[Work]:
    """Open, plan and commit after few and after many commits, to the type they were to."""
    counts = (*_HISTORIES, *([_LONGEST] if stage.data.rows >= _LARGE else ()))
    roots = {count: history(stage.data.folder.parent / "histories", count) for count in counts}
    copies = {count: stage.copy_of(root, f"history-{count}") for count, root in roots.items()}
    names = {count: f"{count:,} commits" for count in counts}
    yield Work(
        "open and plan, cold",
        {names[count]: partial(_open_cold, copies[count]) for count in counts},
        repeats=5,
        agree=False,
    )
    yield Work(
        "open and plan, warm",
        {names[count]: partial(_open_warm, copies[count]) for count in counts},
        repeats=20,
        agree=False,
    )
    ways: dict[str, Way] = {}
    for count, root in roots.items():
        graph = og.open(stage.copy_of(root, f"written-{count}"), spark=stage.spark)
        alone = og.open(stage.copy_of(root, f"written-alone-{count}"))
        ways[names[count]] = partial(_commit_frame, stage, graph)
        ways[f"{names[count]}, no session"] = partial(_commit_table, alone)
    yield Work("commit after a history", ways, repeats=30, warm_ups=3, agree=False)


def _commit_frame(stage: Stage, graph: og.Graph, turn: int) -> None:
    # Numbers below zero are in no history.
    rows = stage.spark.createDataFrame(_rows(-(turn + 1) * _ROWS)).coalesce(1)
    graph.write(rows, "T0")


def _commit_table(graph: og.Graph, turn: int) -> None:
    graph.write(_rows(-(turn + 1) * _ROWS), "T0")


def history(folder: Path, commits: int) -> Path:
    """Make a graph of real commits of one row each, once, and return its root."""
    root, done = folder / str(commits), folder / f"{commits}.done"
    if not done.exists():
        import shutil

        shutil.rmtree(root, ignore_errors=True)
        graph = og.create(root, _SCHEMA)
        print(f"making {commits:,} commits …", flush=True)
        for number in range(commits - 1):
            if number and number % _OPTIMIZED_EVERY == 0:
                graph.optimize()
            graph.write(pa.table({"name": [f"n{number}"], "number": [number]}), "T0")
        done.touch()
    return root


def _open_cold(root: Path, _: int) -> None:
    """Open in a process that knows nothing yet, as a command or a planner does."""
    import subprocess
    import sys

    code = (
        "import sys, omnigraph_spark as og; "
        "from omnigraph_spark.scan import ScanRequest, plan_scan; "
        "from omnigraph_spark.scan_source import ScanSource; "
        "state = og.open(sys.argv[1], mode='r').snapshot()._state; "
        "plan_scan(ScanSource.of(state, 'T1'), ScanRequest())"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(root)], check=True)


def _open_warm(root: Path, _: int) -> Any:
    from omnigraph_spark.scan import ScanRequest, plan_scan
    from omnigraph_spark.scan_source import ScanSource

    state = og.open(root, mode="r").snapshot()._state
    return len(plan_scan(ScanSource.of(state, "T1"), ScanRequest()).tasks)
