"""`df.write.format("omnigraph")` and `graph.write`: all modes and types, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import omnigraph_spark as og
from omnigraph_spark.errors import (
    ColumnNotFoundError,
    ConstraintViolationError,
    KeyConflictError,
    SchemaMismatchError,
)
from omnigraph_spark.session.local_rows import local_rows
from tests.helpers.files import data_files, listing, named_files
from tests.helpers.sources import failure, read

SCHEMA = """
node Person { name: String @key  age: I32?  level: enum(low, high)?  @range(age, 0..150) }
edge Knows: Person -> Person { since: Date? }
"""
Write = Callable[[og.Graph, DataFrame, str, str], None]


def by_source(graph: og.Graph, frame: DataFrame, type: str, mode: str) -> None:
    spark_mode = "overwrite" if mode == "overwrite" else "append"
    writer = frame.write.format("omnigraph").mode(spark_mode).option("type", type)
    writer.option("writeMode", mode).save(graph.root)
    graph.refresh()


def by_graph(graph: og.Graph, frame: DataFrame, type: str, mode: str) -> None:
    graph.write(frame, type, mode=mode)


def by_local_rows(graph: og.Graph, frame: DataFrame, type: str, mode: str) -> None:
    """Rows that were given to `createDataFrame` here are staged by this process."""
    here = frame.sparkSession.createDataFrame(frame.toArrow())
    assert local_rows(here) is not None
    graph.write(here.repartition(3), type, mode=mode)


@pytest.fixture
def graph(tmp_path: Path, spark: SparkSession) -> og.Graph:
    graph = og.create(tmp_path / "graph", SCHEMA, spark=spark)
    with graph.transaction() as tx:
        tx.append("Person", people(spark, "ann", "bob", "cy"))
        tx.append("Knows", spark.createDataFrame([("ann", "bob")], "src string, dst string"))
    return graph


def people(spark: SparkSession, *names: str, age: int = 1) -> DataFrame:
    return spark.createDataFrame([(name, age) for name in names], "name string, age int")


def ages(graph: og.Graph) -> dict[str, int | None]:
    rows = graph.snapshot().arrow("Person", columns=["id", "age"]).to_pylist()
    return {row["id"]: row["age"] for row in rows}


@pytest.mark.smoke
@pytest.mark.parametrize("write", [by_source, by_graph, by_local_rows])
def test_every_mode_does_what_it_says_in_one_commit(
    spark: SparkSession, graph: og.Graph, write: Write
) -> None:
    write(graph, people(spark, "dan", age=7), "Person", "append")
    assert ages(graph) == {"ann": 1, "bob": 1, "cy": 1, "dan": 7}
    write(graph, people(spark, "dan", "eve", age=8), "Person", "merge")
    assert ages(graph) == {"ann": 1, "bob": 1, "cy": 1, "dan": 8, "eve": 8}
    write(graph, people(spark, "cy", "eve").select("name"), "Person", "delete")
    assert ages(graph) == {"ann": 1, "bob": 1, "dan": 8}
    write(graph, people(spark, "ann", "bob", age=9), "Person", "overwrite")
    assert ages(graph) == {"ann": 9, "bob": 9}
    assert graph.snapshot().rows("Knows") == 1
    assert len(graph.history()) == 2 + 4


def test_only_few_rows_that_lie_in_the_driver_are_staged_there(spark: SparkSession) -> None:
    here = spark.createDataFrame(people(spark, "x", "y").toArrow())
    assert [batch.num_rows for batch in local_rows(here.where("name > 'x'")) or ()] == [1]
    assert local_rows(here.where("name > 'z'")) == []
    assert local_rows(here.selectExpr("name", "age + 1 AS age")) is not None
    many = pa.table({"name": [str(number) for number in range(300_000)]})
    for frame in (
        spark.createDataFrame(many),
        spark.range(3),
        here.union(here),
        here.selectExpr("explode(sequence(1, 9)) AS age"),
        here.mapInArrow(lambda batches: batches, "name string, age int"),
    ):
        assert local_rows(frame) is None


def test_deleting_a_node_takes_its_edges(spark: SparkSession, graph: og.Graph) -> None:
    by_source(graph, people(spark, "bob").select("name"), "Person", "delete")
    assert graph.snapshot().rows("Knows") == 0


def test_a_branch_is_made_by_the_write_that_needs_it(spark: SparkSession, graph: og.Graph) -> None:
    writer = people(spark, "new").write.format("omnigraph").mode("append")
    writer.options(type="Person", branch="dev", createBranchFrom="main").save(graph.root)
    assert read(spark, graph.root, type="Person", branch="dev").count() == 4
    assert read(spark, graph.root, type="Person").count() == 3


def test_an_empty_frame_is_no_commit_but_an_overwrite(spark: SparkSession, graph: og.Graph) -> None:
    """RS-05."""
    nobody = people(spark, "x").where("age > 5")
    before = len(graph.history())
    by_source(graph, nobody, "Person", "append")
    by_source(graph, nobody, "Person", "merge")
    assert len(graph.history()) == before
    knows = spark.createDataFrame([("x", "y")], "src string, dst string").where("src = ''")
    by_source(graph, knows, "Knows", "overwrite")
    assert graph.snapshot().rows("Knows") == 0
    assert len(graph.history()) == before + 1


# -- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "type", "code"),
    [
        ("SELECT 'ann' AS name", "Person", "OMNIGRAPH_KEY_CONFLICT"),
        ("SELECT 'x' AS name, 200 AS age", "Person", "OMNIGRAPH_CONSTRAINT_VIOLATION"),
        ("SELECT 'x' AS name, 'mid' AS level", "Person", "OMNIGRAPH_CONSTRAINT_VIOLATION"),
        ("SELECT cast(NULL AS string) AS name", "Person", "OMNIGRAPH_CONSTRAINT_VIOLATION"),
        ("SELECT CAST(X'ff' AS string) AS name", "Person", "OMNIGRAPH_CONSTRAINT_VIOLATION"),
        ("SELECT 'x' AS name, 5000000000 AS age", "Person", "OMNIGRAPH_CONSTRAINT_VIOLATION"),
        ("SELECT 'x' AS name, '5' AS age", "Person", "OMNIGRAPH_SCHEMA_MISMATCH"),
        ("SELECT 'x' AS name, 1 AS agee", "Person", "OMNIGRAPH_COLUMN_NOT_FOUND"),
        ("SELECT 'ann' AS src, 'no' AS dst", "Knows", "OMNIGRAPH_CONSTRAINT_VIOLATION"),
        ("SELECT 'x' AS name", "Persn", "OMNIGRAPH_TYPE_NOT_FOUND"),
    ],
    ids=str,
)
def test_a_refused_write_has_its_code_and_leaves_the_graph_as_it_was(
    spark: SparkSession, graph: og.Graph, frame: str, type: str, code: str
) -> None:
    """RS-07, RS-08."""
    before = listing(Path(graph.root))
    text = failure(lambda: by_source(graph, spark.sql(frame), type, "append"))
    assert f"[{code}]" in text
    assert listing(Path(graph.root)) == before


def test_the_same_id_in_two_partitions_is_refused(spark: SparkSession, graph: og.Graph) -> None:
    """RS-06."""
    before = listing(Path(graph.root))
    twice = spark.range(0, 20, 1, 4).selectExpr("concat('p', id % 10) AS name")
    with pytest.raises(ConstraintViolationError, match=r"duplicate on node:Person.id.*'p0', 'p1'"):
        graph.write(twice, "Person")
    assert listing(Path(graph.root)) == before


def test_errors_of_python_calls_are_our_own_classes(spark: SparkSession, graph: og.Graph) -> None:
    with pytest.raises(KeyConflictError):
        graph.write(people(spark, "ann"), "Person")
    assert issubclass(SchemaMismatchError, og.OmnigraphError)


UNFIT: dict[str, type[og.OmnigraphError]] = {
    "SELECT 'x' AS name, 1 AS age, 2 AS age": SchemaMismatchError,
    "SELECT 'x' AS name, interval '1' year AS age": SchemaMismatchError,
    "SELECT 'x' AS name, named_struct('a', 1) AS level": SchemaMismatchError,
    "SELECT 'x' AS name, 1 AS `a.b`": ColumnNotFoundError,
    "SELECT 'x' AS name, 1 AS `a``b`": ColumnNotFoundError,
    "SELECT 'x' AS name, 'y' AS NAME": ColumnNotFoundError,
    "SELECT 'x' AS name, 1 AS agee WHERE false": ColumnNotFoundError,
}


@pytest.mark.parametrize("frame", UNFIT)
def test_columns_that_do_not_fit_are_refused_before_any_task(
    spark: SparkSession, graph: og.Graph, frame: str
) -> None:
    """Whatever Spark would say of them, and also without rows."""
    before = listing(Path(graph.root))
    for rows in (spark.sql(frame), spark.sql(f"SELECT q.* FROM range(2) CROSS JOIN ({frame}) q")):
        with pytest.raises(UNFIT[frame]) as caught:
            graph.write(rows, "Person")
        text = failure(partial(by_source, graph, rows, "Person", "append"))
        assert f"[{caught.value.code}]" in text
    assert listing(Path(graph.root)) == before


def test_text_of_a_length_is_text(spark: SparkSession, graph: og.Graph) -> None:
    for preserved in ("true", "false"):
        spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", preserved)
        try:
            rows = spark.sql(f"SELECT CAST('{preserved}' AS char(7)) AS name FROM range(1)")
            graph.write(rows, "Person")
            rows = spark.sql(f"SELECT CAST('v{preserved}' AS varchar(7)) AS name FROM range(1)")
            by_source(graph, rows, "Person", "append")
        finally:
            spark.conf.unset("spark.sql.preserveCharVarcharTypeInfo")
    assert {id_.strip() for id_ in ages(graph)} >= {"true", "false", "vtrue", "vfalse"}


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [by_source, by_graph])
def test_many_small_partitions_become_one_file(
    spark: SparkSession, graph: og.Graph, write: Write
) -> None:
    before = named_files(graph, "node:Person")
    many = spark.range(0, 600, 1, 30).selectExpr("concat('p', id) AS name")
    write(graph, many, "Person", "append")
    assert graph.snapshot().rows("Person") == 603
    assert len(named_files(graph, "node:Person")) == len(before) + 1
    assert data_files(graph, "node:Person") == named_files(graph, "node:Person")


# -- types ---------------------------------------------------------------------------------------

TYPES = """
node Row {
    name: String @key
    flag: Bool?   i32: I32?   i64: I64?   u32: U32?   u64: U64?   f32: F32?   f64: F64?
    day: Date?    at: DateTime?   word: enum(one, two)?   vec: Vector(2)?   blob: Blob?
    texts: [String]?   nums: [I64]?   ats: [DateTime]?
}
"""
AT = dt.datetime(2024, 11, 3, 5, 30, 0, 2_000, tzinfo=dt.UTC)
SPARK_TYPES = (
    "name string, flag boolean, i32 int, i64 bigint, u32 bigint, u64 decimal(20,0), f32 float, "
    "f64 double, day date, at timestamp, word string, vec array<float>, blob binary, "
    "texts array<string>, nums array<bigint>, ats array<timestamp>"
)
ROWS: list[tuple[Any, ...]] = [
    ("none", *([None] * 15)),
    (
        "high",
        True,
        2**31 - 1,
        2**63 - 1,
        2**32 - 1,
        Decimal(2**64 - 1),
        1.5,
        1e300,
        dt.date(9999, 12, 31),
        AT,
        "two",
        [1.5, -2.0],
        b"\x00\xff",
        ["", "ä"],
        [-(2**63)],
        [AT],
    ),
    (
        "low",
        False,
        -(2**31),
        -(2**63),
        0,
        Decimal(0),
        -0.0,
        5e-324,
        dt.date(1, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC),
        "one",
        [0.0, 3.25],
        b"x",
        [],
        [],
        [],
    ),
]


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("write", [by_source, by_graph, by_local_rows])
def test_every_type_comes_back_as_it_was_written(
    spark: SparkSession, tmp_path: Path, zone: str, write: Write
) -> None:
    graph = og.create(tmp_path / "g", TYPES, spark=spark)
    frame = spark.createDataFrame(ROWS, SPARK_TYPES)
    write(graph, frame, "Row", "append")
    again = read(spark, graph.root, type="Row", blobs="bytes").select(*frame.columns)
    assert sorted(again.collect(), key=by_name) == sorted(frame.collect(), key=by_name)
    stored = {row["name"]: row for row in graph.snapshot().arrow("Row").to_pylist()}
    assert stored["high"]["u64"] == 2**64 - 1
    assert stored["high"]["at"] == AT, f"the instant, whatever the zone {zone}"


def test_what_was_read_makes_a_graph_of_the_same_types(spark: SparkSession, tmp_path: Path) -> None:
    first = og.create(tmp_path / "a", TYPES, spark=spark)
    first.write(spark.createDataFrame(ROWS, SPARK_TYPES), "Row")
    rows = first.nodes("Row").drop("blob")
    second = og.create_from_frames(
        tmp_path / "b", nodes={"Row": rows}, keys={"Row": "name"}, spark=spark
    )
    [node] = second.schema.nodes
    declared = {prop.name: str(prop.type) for prop in first.schema.nodes[0].properties}
    del declared["blob"]
    assert {prop.name: str(prop.type) for prop in node.properties} == declared
    assert second.nodes("Row").select(*rows.columns).exceptAll(rows).count() == 0


def test_a_spark_type_that_no_graph_holds_is_named(spark: SparkSession, tmp_path: Path) -> None:
    odd = spark.sql("SELECT 'x' AS name, map('a', 1) AS parts")
    with pytest.raises(SchemaMismatchError, match="'parts'"):
        og.create_from_frames(tmp_path / "g", nodes={"Thing": odd}, spark=spark)
    assert not (tmp_path / "g").exists()


def test_a_check_returns_violations_as_a_frame(spark: SparkSession, graph: og.Graph) -> None:
    before = listing(Path(graph.root))
    rows = graph.check(people(spark, "ann", "x", "x"), "Person")
    assert [(row.rule, row.ids, row["count"]) for row in rows.orderBy("rule").collect()] == [
        ("duplicate", ["x"], 1),
        ("exists", ["ann"], 1),
    ]
    assert listing(Path(graph.root)) == before


def by_name(row: Row) -> str:
    return str(row.name)
