"""How fast a type is read through Spark without a jar, next to Spark's own Parquet reader.

One session, the same rows in both, repeats interleaved; medians with their spread, and ratios.
``make bench ARGS="--rows 10000000"`` sets the size.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from omnigraph_spark.session.local import local_session
from tests.helpers.builder import GraphBuilder

SCHEMA = """
node Row {
    a: I64
    b: I64
    c: F64
    d: F64
    day: Date
    at: DateTime
    flag: Bool
    kind: String
    name: String
    text: String
    vector: Vector(8)
}
"""
COLUMNS = "a,b,c,d,day,at,flag,kind,name,text,vector"
BATCH = 250_000


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Generate seeded rows."""
    random = np.random.default_rng(7)
    for start in range(0, rows, BATCH):
        n = min(BATCH, rows - start)
        ids = np.arange(start, start + n)
        names = [f"name-{i % 100_000}" for i in ids]
        vectors = pa.array(random.random(n * 8, dtype=np.float32))
        yield pa.RecordBatch.from_pydict(
            {
                "id": pa.array([f"row-{i:010d}" for i in ids]),
                "a": pa.array(random.integers(0, 1_000_000, n)),
                "at": pa.array(random.integers(0, 1 << 41, n)).view(pa.date64()),
                "b": pa.array(ids),
                "c": pa.array(random.random(n)),
                "d": pa.array(random.normal(size=n)),
                "day": pa.array(random.integers(0, 20_000, n).astype("int32")).view(pa.date32()),
                "flag": pa.array(random.random(n) < 0.5),
                "kind": pa.array([f"kind-{i % 12}" for i in ids]),
                "name": pa.array(names),
                "text": pa.array(
                    [f"{name} wrote this line {i}" for i, name in zip(ids, names, strict=True)]
                ),
                "vector": pa.FixedSizeListArray.from_arrays(vectors, 8),
            }
        )


Query = Callable[[DataFrame], object]


def measure(query: Query, frame: DataFrame) -> float:
    """Return the seconds one run takes."""
    start = time.perf_counter()
    query(frame)
    return time.perf_counter() - start


def queries() -> dict[str, tuple[str, Query]]:
    """Return name -> (columns that are read, what is done with them)."""

    def total(*columns: str) -> Query:
        return lambda df: df.selectExpr(*(f"sum({c})" for c in columns)).collect()

    return {
        "count": ("id", lambda df: df.count()),
        "sum of one column": ("a", total("a")),
        "four numbers": ("a,b,c,d", total("a", "b", "c", "d")),
        "group by kind": ("kind", lambda df: df.groupBy("kind").count().collect()),
        "max(length(text))": ("text", lambda df: df.selectExpr("max(length(text))").collect()),
        "all columns": (COLUMNS, lambda df: df.write.format("noop").mode("overwrite").save()),
    }


def compare(spark: SparkSession, root: Path, parquet: Path, repeats: int) -> None:
    """Run every query on both, in turns, and print a table of medians and ratios."""
    print(f"{'query':<22}{'Parquet s':>12}{'omnigraph s':>14}{'ratio':>8}{'spread':>10}")
    for name, (columns, query) in queries().items():
        ours = spark.read.format("omnigraph").option("type", "Row").option("columns", columns)
        frame, reference = ours.load(str(root)), spark.read.parquet(str(parquet))
        chosen = reference.select(*columns.split(","))
        runs = range(repeats + 1)
        times = [(measure(query, chosen), measure(query, frame)) for _ in runs]
        theirs, mine = zip(*times[1:], strict=True)
        ratio = statistics.median(mine) / statistics.median(theirs)
        spread = (max(mine) - min(mine)) / statistics.median(mine)
        print(
            f"{name:<22}{statistics.median(theirs):>12.2f}{statistics.median(mine):>14.2f}"
            f"{ratio:>8.2f}{spread:>9.0%}"
        )


def main() -> None:
    """Generate the rows, write them in both forms, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root, parquet = Path(folder, "graph"), Path(folder, "parquet")
        spark = local_session("omnigraph-spark benchmark")
        graph = GraphBuilder.create(root, SCHEMA)
        graph.append("node:Row", pa.Table.from_batches(batches(arguments.rows)))
        graph.publish()
        spark.read.format("omnigraph").option("type", "Row").load(str(root)).write.parquet(
            str(parquet)
        )
        print(f"{arguments.rows:,} rows, {arguments.repeats} repeats, medians; below 1 is faster")
        compare(spark, root, parquet, arguments.repeats)
        spark.stop()


if __name__ == "__main__":
    main()
