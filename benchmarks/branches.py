"""What it takes to compare and to merge two branches that differ in one row of a hundred.

The same answer is asked of Spark as well: a full outer join of two Parquet copies, in the same
session. ``python -m benchmarks.branches --rows 10000000`` sets the size. Bytes read are what the
kernel counted (`rchar`) for this process and the Python workers, whatever the page cache holds;
bytes of both are those of the data files of both branches.

Changes lie together (``--spread near``, a day's worth of new ids) or everywhere (``far``): of rows
that are packed by the thousand nobody reads one in a hundred without reading the others.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

import omnigraph_spark as og
from benchmarks.processes import tree
from omnigraph_spark.session.local import local_session

SCHEMA = """
node Person { name: String @key age: I32? mail: String? score: F64? joined: DateTime? bio: String? }
edge Knows: Person -> Person { since: Date? weight: F64? note: String? }
"""
PERSON, KNOWS = "node:Person", "edge:Knows"
OURS, THEIRS = "main", "dev"
BATCH = 250_000
#: The most that is to be read, of the bytes of both branches; the longest it may take, of the join.
BYTES_BOUND, TIME_BOUND = 0.05, 0.3

Numbers = npt.NDArray[np.int64]


def people(numbers: Numbers, salt: int = 0) -> pa.Table:
    """Nodes of these numbers; another salt gives other values."""
    random = np.random.default_rng(7 + salt)
    return pa.table(
        {
            "name": pa.array([f"person-{n:010d}" for n in numbers]),
            "age": pa.array((numbers + salt) % 100, pa.int32()),
            "mail": pa.array([f"mail-{n}@example.org" for n in numbers]),
            "score": pa.array(random.random(len(numbers))),
            "joined": pa.array(numbers * 1_000, pa.timestamp("ms", "UTC")),
            "bio": pa.array([f"number {n} likes the number {n * 7919 % 100_003}" for n in numbers]),
        }
    )


def knows(numbers: Numbers, nodes: int, salt: int = 0) -> pa.Table:
    """Edges of these numbers between nodes that stay; another salt gives other values."""
    random = np.random.default_rng(11 + salt)
    ends = np.maximum(nodes * 9 // 10, 1)
    return pa.table(
        {
            "id": pa.array([f"knows-{n:010d}" for n in numbers]),
            "src": pa.array([f"person-{n:010d}" for n in numbers * 7919 % ends]),
            "dst": pa.array([f"person-{n:010d}" for n in (numbers * 104_729 + 1) % ends]),
            "since": pa.array((numbers % 20_000).astype(np.int32), pa.int32()).cast(pa.date32()),
            "weight": pa.array(random.random(len(numbers))),
            "note": pa.array([f"met at place {n * 31 % 9_973}" for n in numbers]),
        }
    )


def _portions(rows: int, make: Callable[[Numbers], pa.Table]) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, BATCH):
            yield from (
                make(np.arange(start, min(rows, start + BATCH))).combine_chunks().to_batches()
            )

    return pa.RecordBatchReader.from_batches(make(np.arange(0)).schema, batches())


def _chosen(rows: int, count: int, place: int, spread: str) -> Numbers:
    """Rows that a branch changes; those of different places are different ones."""
    if spread == "far":
        return np.arange(place, rows, max(1, rows // count))[:count]
    return np.arange(count) + place * count


def write_graph(root: Path, rows: int, spread: str, spark: SparkSession | None = None) -> og.Graph:
    """Make a graph of so many rows, half of them edges, and let both branches change some.

    Each updates three rows of a thousand, adds one and deletes one: together one of a hundred.
    """
    half = rows // 2
    graph = og.create(root, SCHEMA, spark=spark)
    with graph.transaction(check="rows") as tx:
        tx.append("Person", _portions(half, people))
        tx.append("Knows", _portions(half, lambda numbers: knows(numbers, half)))
    graph.create_branch(THEIRS)
    for place, branch in enumerate((OURS, THEIRS)):
        updated = _chosen(half, half * 3 // 1000, place + 1, spread)
        added = np.arange(half // 1000) + half + place * half
        # The last tenth of the nodes has no edges.
        last = half * 9 // 10 + _chosen(half // 10, half // 1000, place + 1, spread)
        with graph.as_branch(branch).transaction() as tx:
            for numbers, salt in ((updated, 1), (added, 0)):
                tx.merge("Person", people(numbers, salt))
                tx.merge("Knows", knows(numbers, half, salt))
        with graph.as_branch(branch).transaction() as tx:
            tx.delete("Person", people(last).select(["name"]).rename_columns(["id"]))
            tx.delete("Knows", knows(last, half).select(["id"]))
    return graph.refresh()


def write_parquet(spark: SparkSession, graph: og.Graph, folder: Path) -> None:
    """Copy both branches to Parquet."""
    for branch in (OURS, THEIRS):
        at = graph.at(branch=branch)
        for key, frame in ((PERSON, at.nodes("Person")), (KNOWS, at.edges("Knows"))):
            frame.write.parquet(str(_copy(folder, branch, key)))


def _copy(folder: Path, branch: str, key: str) -> Path:
    return folder / branch / key.replace(":", "-")


def join_parquet(spark: SparkSession, folder: Path) -> None:
    """Find what differs by a full outer join of two Parquet copies, and read all of it."""
    for key in (PERSON, KNOWS):
        old, new = (
            spark.read.parquet(str(_copy(folder, branch, key))) for branch in (OURS, THEIRS)
        )
        values = [name for name in old.columns if name != "id"]
        same = " AND ".join(f"b.{name} <=> a.{name}" for name in values)
        found = old.alias("b").join(new.alias("a"), on="id", how="full_outer")
        sides = [f"struct({', '.join(f'{side}.{name}' for name in values)})" for side in "ba"]
        chosen = found.where(f"NOT ({same})").selectExpr("id", *sides)
        chosen.write.format("noop").mode("overwrite").save()


def diff(graph: og.Graph) -> None:
    """Find what differs, with the rows of both sides, and read all of it."""
    for key in (PERSON, KNOWS):
        found = graph.diff(OURS, THEIRS, type=key)
        found.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True)
class Cost:
    """What a piece of work took."""

    seconds: float
    read_bytes: int


def measured(work: Callable[[], object]) -> Cost:
    """Do a piece of work and count."""
    before, start = _read_bytes(), time.perf_counter()
    work()
    return Cost(time.perf_counter() - start, _read_bytes() - before)


def _read_bytes() -> int:
    """Count what this process and the Python workers below it ever read.

    The JVM is left out: it reads no data of ours, only what workers send it.
    """
    found = 0
    for process in tree():
        if "java" in process.command:
            continue
        try:
            lines = Path(f"/proc/{process.id}/io").read_text().splitlines()
        except OSError:
            # It ended since the listing.
            continue
        found += next(int(line.split()[1]) for line in lines if line.startswith("rchar"))
    return found


def data_bytes(graph: og.Graph) -> int:
    """Return the bytes of the data files of both branches, shared ones twice."""
    found = 0
    for branch in (OURS, THEIRS):
        found += sum(row["bytes"] for row in graph.at(branch=branch).table("entries").collect())
    return found


def write_data(spark: SparkSession, folder: Path, rows: int, spread: str) -> og.Graph:
    """Return the graph in a folder, with its Parquet copies; both are written once."""
    if not (folder / "parquet").exists():
        graph = write_graph(folder / "graph", rows, spread, spark)
        write_parquet(spark, graph, folder / "parquet")
    return og.open(folder / "graph", spark=spark)


def merge(graph: og.Graph) -> None:
    """Merge one branch into a new one that begins at the other, which can be done again."""
    into = f"merged-{len(graph.branches())}"
    graph.create_branch(into, from_=OURS)
    graph.merge(THEIRS, into=into)


def run(spark: SparkSession, folder: Path, rows: int, spread: str, repeats: int) -> dict[str, Cost]:
    """Measure diff and merge, and the join, in turns; the bytes of both branches are in `both`."""
    graph = write_data(spark, folder, rows, spread)
    works: dict[str, Callable[[], object]] = {
        "join": lambda: join_parquet(spark, folder / "parquet"),
        "diff": lambda: diff(graph),
        "preview": lambda: graph.preview_merge(THEIRS, into=OURS),
        "merge": lambda: merge(graph),
    }
    times: dict[str, list[Cost]] = {name: [] for name in works}
    # The first of each pays for starting workers and for imports.
    for _ in range(repeats + 1):
        for name, work in works.items():
            times[name].append(measured(work))
    costs = {name: _median(found[1:] or found) for name, found in times.items()}
    return costs | {"both": Cost(0, data_bytes(graph))}


def _median(costs: list[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        int(statistics.median(cost.read_bytes for cost in costs)),
    )


def report(costs: dict[str, Cost]) -> Iterator[str]:
    """Say what was reached, a line for each."""
    both, join = costs["both"].read_bytes, costs["join"].seconds
    yield f"{'':<10}{'seconds':>10}{'of the join':>14}{'bytes read':>16}{'of both':>10}"
    for name in ("join", "diff", "preview", "merge"):
        cost = costs[name]
        share, ratio = cost.read_bytes / both, cost.seconds / join
        line = f"{name:<10}{cost.seconds:>10.2f}{ratio:>14.2f}"
        # What the JVM read of Parquet files is not counted.
        line += "" if name == "join" else f"{cost.read_bytes:>16,}{share:>10.1%}"
        reached = share <= BYTES_BOUND and ratio <= TIME_BOUND
        yield line if name == "join" else f"{line}  {'reached' if reached else 'not reached'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--spread", default="near", choices=("near", "far"))
    parser.add_argument("--data", type=Path, help="a folder to keep the data in, for another run")
    parser.add_argument("--only-data", action="store_true", help="write the data, measure nothing")
    given = parser.parse_args()
    spark = local_session("branches")
    with TemporaryDirectory(prefix="omnigraph-branches-") as temporary:
        folder = given.data or Path(temporary)
        if given.only_data:
            write_data(spark, folder, given.rows, given.spread)
            return
        print(f"{given.rows:,} rows, one of a hundred differs ({given.spread}); medians")
        for line in report(run(spark, folder, given.rows, given.spread, given.repeats)):
            print(line)
    spark.stop()


if __name__ == "__main__":
    main()
