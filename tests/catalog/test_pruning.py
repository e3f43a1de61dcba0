"""What a query does not need is not read: fields of structs, rows behind a limit or a sample."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import omnigraph_spark as og
from tests.catalog.catalogs import new_catalog, rows
from tests.helpers.sources import failure


def plan(spark: SparkSession, sql: str) -> str:
    [(text,)] = rows(spark, f"EXPLAIN FORMATTED {sql}")
    return str(text)


def scanned(spark: SparkSession, sql: str) -> StructType:
    """The columns of the only scan of a query, as the planner wants them."""
    leaves = spark.sql(sql)._jdf.queryExecution().optimizedPlan().collectLeaves()
    assert leaves.size() == 1
    schema: StructType = StructType.fromJson(json.loads(leaves.head().schema().json()))
    return schema


def test_fields_of_a_struct_are_read_alone(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.create(tmp_path / "graph", "node Doc { name: String @key  file: Blob?  n: I32? }")
    contents = [b"one", b"", None, b"three"]
    files = pa.table({"name": ["a", "b", "c", "d"], "file": pa.array(contents, pa.binary())})
    graph.write(files, "Doc")
    name = new_catalog(spark, graph.root)
    sizes = f"SELECT name, file.size FROM {name}.nodes.Doc ORDER BY name"
    assert rows(spark, sizes) == [("a", 3), ("b", 0), ("c", None), ("d", 5)]
    [file] = [f for f in scanned(spark, sizes).fields if f.name == "file"]
    assert file.dataType.simpleString() == "struct<size:bigint>"
    whole = rows(spark, f"SELECT file.size, file.kind, file FROM {name}.nodes.Doc WHERE name = 'd'")
    [(size, kind, file)] = whole
    assert (size, kind) == (file.size, file.kind)
    assert rows(spark, f"SELECT name FROM {name}.nodes.Doc WHERE file.size > 3") == [("d",)]
    assert rows(spark, f"SELECT count(file.size) FROM {name}.nodes.Doc") == [(3,)]


@pytest.mark.parametrize(
    ("query", "pushed", "expected"),
    [
        ("SELECT name FROM og.nodes.Person LIMIT 3", "limit=3", 3),
        ("SELECT name FROM og.nodes.Person LIMIT 3 OFFSET 99", "limit=102 offset=99", 1),
        (
            "SELECT name FROM og.nodes.Person ORDER BY age DESC NULLS FIRST, name LIMIT 2",
            "order=[[age, false, true], [name, true, true]] limit=2",
            2,
        ),
    ],
)
def test_limits_offsets_and_orders_are_claimed_in_full(
    spark: SparkSession, query: str, pushed: str, expected: int
) -> None:
    text = plan(spark, query)
    assert pushed in text
    assert "Limit" not in text.split("== Physical Plan ==")[1].split("\n\n")[0]
    assert len(rows(spark, query)) == expected


def test_a_sample_is_spark_s_own_of_the_table_s_rows(spark: SparkSession) -> None:
    table = "og.nodes.Person"
    everyone = set(rows(spark, f"SELECT name FROM {table}"))
    sampled = f"SELECT name FROM {table} TABLESAMPLE ({{}})"
    assert len(rows(spark, sampled.format("7 ROWS"))) == 7
    assert set(rows(spark, sampled.format("100 PERCENT"))) == everyone
    assert rows(spark, sampled.format("0 PERCENT")) == []
    half = f"{sampled.format('50 PERCENT')} REPEATABLE (5)"
    some = rows(spark, half)
    assert some == rows(spark, half)
    assert len(some) == len(set(some)) < 100
    # The sample is taken first: a condition chooses among its rows.
    young = rows(spark, f"{half} WHERE age < 50")
    assert young == [row for row in some if row[0] < "p50"]


def test_ids_are_known_to_be_distinct_and_a_small_type_is_broadcast(spark: SparkSession) -> None:
    chosen = spark.sql("SELECT id, age FROM og.nodes.Person")
    known = chosen._jdf.queryExecution().optimizedPlan().collectLeaves().head().stats()
    assert str(known.rowCount().get()) == "100"
    assert known.attributeStats().size() == 1
    [distinct, nulls] = [
        str(getattr(known.attributeStats().values().head(), name)().get())
        for name in ("distinctCount", "nullCount")
    ]
    assert (distinct, nulls) == ("100", "0")
    joined = "SELECT p.age FROM og.edges.Knows k JOIN og.nodes.Person p ON p.id = k.src"
    assert "BroadcastHashJoin" in plan(spark, joined)


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="Spark 4.2 brought samples by blocks")
def test_a_sample_by_blocks_is_refused_by_spark_not_answered_with_other_rows(
    spark: SparkSession,
) -> None:
    sampled = "SELECT * FROM og.nodes.Person TABLESAMPLE SYSTEM (10 PERCENT)"
    assert "SYSTEM" in failure(lambda: rows(spark, sampled))
