"""Aggregates that tasks begin: the plan says so, and the answers are those of Spark alone."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.helpers.builder import GraphBuilder
from tests.helpers.sources import failure, read

BIG = (1 << 63) - 1
SCHEMA = """
node Thing {
    kind: String?  i: I32?  l: I64?  u: U32?  w: U64?  f: F32?  x: F64?  b: Bool?  d: Date?
    at: DateTime?  tags: [String]?
}
node Huge { l: I64  i: I32 }
node None { l: I64? }
"""


def thing(n: int) -> dict[str, Any]:
    row = {
        "id": f"t{n}",
        "kind": f"k{n % 7}é",
        "i": n * 7919 % 1000 - 500,
        "l": (n - 150) << 40,
        "u": n * 14_316_557 % (1 << 32),
        "w": (1 << 64) - 1 - n,
        "f": n / 8,
        "x": float(n % 50),
        "b": n % 3 == 0,
        "d": dt.date(1900, 1, 1) + dt.timedelta(days=n * 37),
        "at": dt.datetime(1960, 1, 1) + dt.timedelta(milliseconds=n * 86_400_123),
        "tags": ["a", "b"][: n % 3],
    }
    missing = list(row)[1 + n % 11]
    return {**row, missing: None} if n % 4 == 0 else row


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Rows of every type in several fragments, as `ours` and, in Spark's own memory, as `plain`."""
    root = tmp_path_factory.mktemp("things")
    graph = GraphBuilder.create(root / "graph", SCHEMA)
    graph.append("node:Thing", [thing(n) for n in range(300)], max_rows_per_file=100)
    graph.append("node:Huge", [{"id": f"{n}", "l": BIG, "i": 2_147_483_647} for n in range(4)])
    graph.publish()
    frame = read(spark, graph.root, type="Thing")
    frame.createOrReplaceTempView("ours")
    frame.write.parquet(str(root / "plain"))
    spark.read.parquet(str(root / "plain")).createOrReplaceTempView("plain")
    return graph.root


def plan(spark: SparkSession, sql: str) -> str:
    [(text,)] = spark.sql(f"EXPLAIN FORMATTED {sql}").collect()
    return str(text)


def answers(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(sql).collect()), key=repr)


PUSHED = [
    "count(l)",
    "count(*), count(kind), count(x)",
    "sum(i), sum(u), sum(l)",
    "sum(x), sum(f)",
    "min(i), max(i), min(l), max(u), min(w), max(w)",
    "min(kind), max(kind), min(d), max(d), min(at), max(at), min(b), max(b)",
    "max(length(kind)), min(length(id))",
    "avg(i), avg(x)",
]
FILTERS = ["", "WHERE i > 0", "WHERE kind = 'k3é' AND l < 0", "WHERE i = 12345"]
GROUPS = ["kind", "b", "d", "at", "kind, b", "i", "w"]


@pytest.mark.parametrize("functions", PUSHED)
def test_what_tasks_begin_adds_up_to_what_spark_finds(
    spark: SparkSession, things: Path, functions: str
) -> None:
    for condition in FILTERS:
        sql = f"SELECT {functions} FROM ours {condition}"
        assert " aggregate={" in plan(spark, sql)
        assert answers(spark, sql) == answers(spark, sql.replace("ours", "plain"))


@pytest.mark.parametrize("group", GROUPS)
def test_groups_are_those_of_spark(spark: SparkSession, things: Path, group: str) -> None:
    for condition in FILTERS[:2]:
        sql = f"SELECT {group}, count(*), sum(l), max(kind), min(d) FROM ours {condition}"
        sql = f"{sql} GROUP BY {group}"
        assert " aggregate={" in plan(spark, sql)
        assert answers(spark, sql) == answers(spark, sql.replace("ours", "plain"))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(DISTINCT i) FROM ours",
        "SELECT sum(DISTINCT l) FROM ours",
        "SELECT sum(w) FROM ours",
        "SELECT min(x), max(f) FROM ours",
        "SELECT x, count(*) FROM ours GROUP BY x",
        "SELECT avg(l) FROM ours",
        "SELECT count(tags) FROM ours",
        "SELECT i + 1, count(*) FROM ours GROUP BY i + 1",
        "SELECT sum(l) FROM ours WHERE length(kind) = 3",
        "SELECT sum(l) FILTER (WHERE i > 0) FROM ours",
    ],
)
def test_what_would_not_be_exact_stays_in_spark(
    spark: SparkSession, things: Path, query: str
) -> None:
    assert " aggregate={" not in plan(spark, query)
    assert answers(spark, query) == answers(spark, query.replace("ours", "plain"))


def test_a_sum_that_leaves_64_bits_fails_or_wraps_as_spark_is_set(
    spark: SparkSession, things: Path
) -> None:
    read(spark, things, type="Huge").createOrReplaceTempView("huge")
    assert "ARITHMETIC_OVERFLOW" in failure(lambda: spark.sql("SELECT sum(l) FROM huge").collect())
    [(total,)] = spark.sql("SELECT sum(i) FROM huge").collect()
    assert total == 4 * 2_147_483_647
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        [(wrapped,)] = spark.sql("SELECT sum(l) FROM huge").collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert wrapped == -4


def test_a_type_without_rows_has_counts_of_zero_and_no_sums(
    spark: SparkSession, things: Path
) -> None:
    read(spark, things, type="None").createOrReplaceTempView("none")
    assert answers(spark, "SELECT count(*), count(l), sum(l), max(l) FROM none") == [
        (0, 0, None, None)
    ]
    assert answers(spark, "SELECT l, count(*) FROM none GROUP BY l") == []
