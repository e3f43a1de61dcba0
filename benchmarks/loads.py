"""Works that load interchange records, nodes and edges, beside the engine's own `load`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import omnigraph_spark as og
from benchmarks.data import rmat
from benchmarks.measure import Work
from benchmarks.stage import Stage
from tests.helpers.engine import engine_binary, run_engine

_SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""
_MOST = 500_000
#: On two cores the engine waits for itself while it indexes many new rows, unless it has these.
_THREADS = {"LANCE_CPU_THREADS": "8"}
#: The works, in the order they come.
NAMES = (
    "load JSONL, overwrite",
    "load JSONL, append",
    "load JSONL, merge",
)


def works(stage: Stage) -> Iterator[Work]:
    """Yield loads: into nothing, more rows, and rows that are there."""
    if "engine" not in stage.contestants or engine_binary() is None:
        return
    nodes = min(_MOST, stage.data.rows // 4)
    first = _records(stage.scratch / "first.jsonl", 0, nodes)
    more = _records(stage.scratch / "more.jsonl", nodes, nodes // 5)
    base = stage.fresh("load-base")
    og.create(base, _SCHEMA)
    loaded = stage.copy_of(base, "load-loaded")
    og.open(loaded).load_jsonl(first, mode="overwrite")
    for name, mode, source, root in (
        ("load JSONL, overwrite", "overwrite", first, base),
        ("load JSONL, append", "append", more, loaded),
        ("load JSONL, merge", "merge", more, loaded),
    ):
        paths = {who: stage.scratch / f"load-{who}" for who in ("engine", "omnigraph")}
        yield Work(
            name,
            {
                "engine": partial(_by_engine, paths["engine"], source, mode),
                "omnigraph": partial(_by_us, stage, paths["omnigraph"], source, mode),
            },
            {who: partial(_copied, root, path) for who, path in paths.items()},
            agree=False,
            warm_ups=0,
        )


def _records(path: Path, start: int, nodes: int) -> Path:
    """Write nodes, and twice as many edges among them and the ones before."""
    random = np.random.default_rng((13, start))
    src, dst = rmat(2 * nodes, start + nodes, random)
    ages = random.integers(0, 100, nodes)
    with path.open("w") as file:
        for number, age in zip(range(start, start + nodes), ages, strict=True):
            file.write(f'{{"type":"Person","data":{{"name":"p{number}","age":{age}}}}}\n')
        for one, other in zip(src, dst, strict=True):
            file.write(f'{{"edge":"Knows","from":"p{one}","to":"p{other}","data":{{}}}}\n')
    return path


def _copied(source: Path, target: Path, _: int) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def _by_engine(root: Path, records: Path, mode: str, _: int) -> None:
    run_engine("load", root, "--data", records, "--mode", mode, check=True, settings=_THREADS)


def _by_us(stage: Stage, root: Path, records: Path, mode: str, _: int) -> None:
    og.open(root, spark=stage.spark).load_jsonl(records, mode=mode)
