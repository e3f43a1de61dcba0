"""Works of single SQL statements on small tables: what a person waits for at a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

import omnigraph_spark as og
from benchmarks.measure import Way, Work
from benchmarks.stage import Stage

_SCHEMA = "node Small { name: String @key  number: I64 }"
_ROWS = 10_000
#: The works, in the order they come.
NAMES = (
    "SHOW TABLES",
    "SELECT one row",
    "SELECT COUNT(*)",
    "INSERT one row",
    "UPDATE one row",
)


def works(stage: Stage) -> Iterator[Work]:
    """Yield statements, each on a graph and on a Delta table of ten thousand rows."""
    if not {"delta", "omnigraph"} <= set(stage.contestants):
        return
    spark = stage.spark
    names = [f"n{number}" for number in range(_ROWS)]
    rows = pa.table({"id": names, "name": names, "number": list(range(_ROWS))})
    graph = og.create(stage.fresh("small-sql"), _SCHEMA)
    graph.write(rows, "Small")
    graph.build_indexes()
    stage.know("small", stage.scratch / "small-sql")
    spark.sql(f"CREATE DATABASE IF NOT EXISTS bench LOCATION '{stage.fresh('bench-db')}'")
    spark.sql("DROP TABLE IF EXISTS bench.small")
    spark.createDataFrame(rows).coalesce(1).write.format("delta").saveAsTable("bench.small")
    tables = {"delta": "bench.small", "omnigraph": "small.nodes.Small"}

    def each(text: Callable[[str, int], str]) -> dict[str, Way]:
        def run(table: str, turn: int) -> int:
            return len(spark.sql(text(table, turn)).collect())

        return {who: lambda turn, at=table: run(at, turn) for who, table in tables.items()}

    spaces = {"bench.small": "bench", "small.nodes.Small": "small.nodes"}
    for name, text in {
        "SHOW TABLES": lambda table, _: f"SHOW TABLES IN {spaces[table]}",
        "SELECT one row": lambda table, turn: f"SELECT * FROM {table} WHERE id = 'n{turn}'",
        "SELECT COUNT(*)": lambda table, _: f"SELECT COUNT(*) FROM {table}",
        "INSERT one row": lambda table, turn: (
            f"INSERT INTO {table} (id, name, number) VALUES ('new-{turn}', 'new-{turn}', {turn})"
        ),
        "UPDATE one row": lambda table, turn: (
            f"UPDATE {table} SET number = number + 1 WHERE id = 'n{turn}'"
        ),
    }.items():
        # At a prompt the JVM has run long before: it compiles what it runs for the first ten or so.
        yield Work(name, each(text), agree=False, repeats=15, warm_ups=10)
