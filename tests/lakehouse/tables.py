"""What the tests of this folder ask Delta tables and graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import omnigraph_spark as og

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""


def people(**ages: int | None) -> pa.Table:
    ages_ = pa.array(list(ages.values()), pa.int32())
    return pa.table({"name": pa.array(list(ages)), "age": ages_})


def small_graph(root: Path, spark: SparkSession) -> og.Graph:
    """Three persons who know one another, and a city."""
    graph = og.create(root, SCHEMA, spark=spark)
    with graph.transaction() as tx:
        tx.append("Person", people(ada=36, bob=41, cy=None))
        tx.append("City", pa.table({"name": ["Rome"]}))
        ends = {"id": ["ab", "bc"], "src": ["ada", "bob"], "dst": ["bob", "cy"]}
        tx.append("Knows", pa.table(ends))
    return graph


def history(spark: SparkSession, path: Path | str) -> list[Any]:
    """The commits of a Delta table, oldest first."""
    found = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").orderBy("version").collect()
    return list(found)


def ages(spark: SparkSession, path: Path | str) -> dict[str, int | None]:
    rows = spark.read.format("delta").load(str(path)).collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: row.age for row in rows}


def graph_ages(graph: og.Graph) -> dict[str, int | None]:
    rows = graph.snapshot().arrow("Person", columns=["id", "age"]).to_pylist()
    return {row["id"]: row["age"] for row in rows}


def same_rows(one: og.Graph, other: og.Graph) -> None:
    """All types hold the same rows, bit by bit."""
    assert list(one.entries) == list(other.entries)
    for key in one.entries:
        left, right = (
            graph.snapshot().arrow(key, blobs="bytes").sort_by("id") for graph in (one, other)
        )
        assert left.schema.names == right.schema.names
        for name in left.schema.names:
            one_, other_ = left[name].combine_chunks(), right[name].combine_chunks()
            # NaN is not equal to itself, but reads the same.
            assert one_.equals(other_) or repr(one_.to_pylist()) == repr(other_.to_pylist()), (
                f"{key}.{name}"
            )
