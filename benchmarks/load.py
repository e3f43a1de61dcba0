"""How fast a graph is loaded from Spark in one transaction, and how much memory that takes.

``python -m benchmarks.load --nodes 10000000 --edges 30000000`` sets the size. Peak memory is what
the kernel counted (`VmHWM`): of this process, of the JVM, and of the largest Python worker.
``--checked-by`` has the rules across rows checked by DuckDB or by Spark, whatever the size.
"""

from __future__ import annotations

import argparse
import os
import resource
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

import omnigraph_spark as og
from benchmarks.processes import peak_mib, tree
from omnigraph_spark.session import workspace
from omnigraph_spark.session.local import local_session

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    mail: String?
    score: F64?
    joined: DateTime?
}
edge Knows: Person -> Person { since: Date? }
"""
_EVERY_S = 0.2
#: From how many rows on Spark checks, for each of the two to do it.
_SPARK_ROWS = {"spark": 0, "duckdb": 1 << 62}


class Memory:
    """Watches the processes below this one until it is left; peaks in MiB."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.java = self.worker = 0.0

    @property
    def driver(self) -> float:
        """Peak of this process."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            for process in tree():
                if process.id == os.getpid():
                    continue
                peak = peak_mib(process.id)
                if "java" in process.command:
                    self.java = max(self.java, peak)
                elif "python" in process.command:
                    self.worker = max(self.worker, peak)


def people(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    """Nodes with a key and a few properties."""
    return spark.range(0, rows, 1, partitions).selectExpr(
        "concat('person-', id) AS name",
        "cast(id % 100 AS int) AS age",
        "concat('mail-', id, '@example.org') AS mail",
        "id / 7.0D AS score",
        "timestamp_seconds(id) AS joined",
    )


def knows(spark: SparkSession, rows: int, nodes: int, partitions: int) -> DataFrame:
    """Edges between nodes that are spread over the whole type."""
    return spark.range(0, rows, 1, partitions).selectExpr(
        f"concat('person-', (id * 7919) % {nodes}) AS src",
        f"concat('person-', (id * 104729 + 1) % {nodes}) AS dst",
        "date_add(DATE '2020-01-01', cast(id % 1000 AS int)) AS since",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=300_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--cores", default="*")
    parser.add_argument("--check", default="all", choices=("all", "rows"))
    parser.add_argument("--checked-by", default="size", choices=("size", *_SPARK_ROWS))
    given = parser.parse_args()
    workspace.SPARK_ROWS = _SPARK_ROWS.get(given.checked_by, workspace.SPARK_ROWS)
    spark = local_session("load", given.cores)
    with TemporaryDirectory(prefix="omnigraph-load-") as folder, Memory() as memory:
        graph = og.create(Path(folder) / "graph", SCHEMA, spark=spark)
        # The first job pays for starting Python and for imports; it is no part of a load.
        people(spark, 1, 1).collect()
        start = time.perf_counter()
        with graph.transaction(check=given.check) as tx:
            tx.append("Person", people(spark, given.nodes, given.partitions))
            tx.append("Knows", knows(spark, given.edges, given.nodes, given.partitions))
            staged = time.perf_counter() - start
        whole = time.perf_counter() - start
        rows = given.nodes + given.edges
        assert graph.entries["node:Person"].rows == given.nodes
        assert graph.entries["edge:Knows"].rows == given.edges
    spark.stop()
    print(f"{given.nodes:,} nodes and {given.edges:,} edges in one commit")
    print(f"staged in {staged:.1f} s, checked and published in {whole - staged:.1f} s")
    print(f"{rows / whole:,.0f} rows/s ({rows / staged:,.0f} while staging)")
    print(
        f"peak memory: driver {memory.driver:,.0f} MiB, largest Python worker "
        f"{memory.worker:,.0f} MiB, JVM {memory.java:,.0f} MiB"
    )


if __name__ == "__main__":
    main()
