"""Reading through Spark: all that the engine wrote, by every option, in parallel, by SQL."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import omnigraph_spark as og
from omnigraph_spark.tables import METADATA_TABLES
from tests.helpers.exported import exported_rows, lines
from tests.helpers.golden import Expected, by_type
from tests.helpers.sources import failure, read

RICH_TYPES = sorted(by_type(Expected("rich").export()))


def names(frame: DataFrame) -> list[str]:
    return sorted(row["name"] for row in frame.select("name").collect())


def as_exported(root: Path, type_key: str, frame: DataFrame) -> list[str]:
    """Rows that went through Spark, as the engine would write them."""
    public = og.open(str(root)).snapshot().arrow(type_key, limit=0, blobs="bytes").schema
    return lines(exported_rows(type_key, frame.toArrow().cast(public)))


@pytest.mark.smoke
@pytest.mark.parametrize("type_key", RICH_TYPES)
def test_every_type_equals_the_engine_s_export(
    spark: SparkSession, rich: Path, type_key: str
) -> None:
    frame = read(spark, rich, type=type_key, blobs="bytes")
    assert as_exported(rich, type_key, frame) == lines(by_type(Expected("rich").export())[type_key])


@pytest.mark.smoke
@pytest.mark.parametrize(
    "options",
    [
        {"version": 4},
        {"versionAsOf": "4"},
        {"branch": "main", "version": 4},
        {"timestampAsOf": "2100-01-01"},
        {"where": "age >= 0 and name <> 'nobody'"},
        {"columns": "name,age"},
        {"limit": 100},
        {"batchSize": 7},
        {"splitBytes": "64k"},
        {"blobs": "none"},
        {"vectors": "array"},
        {"BRANCH": "main"},
    ],
    ids=str,
)
def test_each_option_reaches_the_engine(
    spark: SparkSession, people: Path, options: dict[str, Any]
) -> None:
    assert len(names(read(spark, people, type="Person", **options))) == 100


def test_columns_where_and_limit_are_evaluated_by_lance(spark: SparkSession, people: Path) -> None:
    frame = read(spark, people, type="Person", columns="age,id", where="level = 'high'", limit=2)
    assert frame.columns == ["age", "id"]
    assert [tuple(row) for row in frame.collect()] == [(1, "p01"), (3, "p03")]


def test_a_user_s_schema_chooses_columns(spark: SparkSession, people: Path) -> None:
    frame = spark.read.format("omnigraph").schema("age int, id string").option("type", "Person")
    assert frame.load(str(people)).where("age = 7").collect() == [(7, "p07")]


def test_select_of_some_columns_and_of_none(spark: SparkSession, people: Path) -> None:
    person = read(spark, people, type="Person")
    assert person.count() == 100
    assert person.select("age").agg(f.sum("age")).first() == (4950,)
    assert person.selectExpr("1 as one").distinct().collect() == [(1,)]


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "{}/", "{}/nodes/.."])
def test_a_root_is_written_in_many_ways(spark: SparkSession, people: Path, form: str) -> None:
    assert read(spark, form.format(people), type="Person").count() == 100


def test_the_path_may_be_an_option(spark: SparkSession, people: Path) -> None:
    reader = spark.read.format("omnigraph").option("path", str(people)).option("type", "Knows")
    assert reader.load().count() == 100


@pytest.mark.smoke
def test_fragments_are_read_in_parallel_and_each_row_once(
    spark: SparkSession, people: Path
) -> None:
    fragments = read(spark, people, table="fragments").where("type_key = 'node:Person'").collect()
    assert len(fragments) == 10
    whole = read(spark, people, type="Person")
    split_bytes = max(row["size_bytes"] for row in fragments)
    split = read(spark, people, type="Person", splitBytes=split_bytes)
    assert (whole.rdd.getNumPartitions(), split.rdd.getNumPartitions()) == (1, 10)
    used = split.groupBy(f.spark_partition_id()).count().collect()
    assert [row["count"] for row in used] == [10] * 10
    assert Counter(split.collect()) == Counter(whole.collect())
    assert Counter(whole.repartition(7).collect()) == Counter(whole.collect())


def test_one_fragment_larger_than_the_target_is_split(spark: SparkSession, rich: Path) -> None:
    split = read(spark, rich, type="Person", splitBytes=1)
    assert split.rdd.getNumPartitions() == 3
    assert split.count() == 3


@pytest.mark.parametrize("type_key", ["node:Empty", "node:Gone"])
def test_a_type_without_rows_is_an_empty_frame(
    spark: SparkSession, people: Path, type_key: str
) -> None:
    frame = read(spark, people, type=type_key)
    assert frame.collect() == []
    assert frame.count() == 0
    assert "id" in frame.columns


def union_of_names(frames: dict[str, DataFrame]) -> dict[str, list[str]]:
    """The names in each frame, by one job: many small ones would only measure Spark's patience."""
    tagged = [frame.select(f.lit(tag).alias("tag"), "name") for tag, frame in frames.items()]
    found: dict[str, list[str]] = {tag: [] for tag in frames}
    for row in reduce(DataFrame.union, tagged).collect():
        found[row["tag"]].append(row["name"])
    return {tag: sorted(persons) for tag, persons in found.items()}


def test_every_branch_has_the_persons_the_engine_exported(
    spark: SparkSession, branched: Path
) -> None:
    branches = Expected("branches").branches()
    frames = {branch: read(spark, branched, type="Person", branch=branch) for branch in branches}
    assert union_of_names(frames) == {
        branch: sorted(
            row["data"]["name"]
            for row in by_type(Expected("branches").export(branch))["node:Person"]
        )
        for branch in branches
    }


def test_every_commit_has_the_persons_the_engine_saw(spark: SparkSession, history: Path) -> None:
    expected = Expected("history").persons_at()
    frames = {commit: read(spark, history, type="Person", commit=commit) for commit in expected}
    assert union_of_names(frames) == {
        commit: [row["name"] for row in rows] for commit, rows in expected.items()
    }


def test_columns_are_those_of_the_commit_that_is_read(spark: SparkSession, evolved: Path) -> None:
    columns = {
        version: read(spark, evolved, type="Person", version=version).columns
        for version in (4, 5, 7, 10, 13)
    }
    assert columns == {
        4: ["id", "age", "city", "name"],
        5: ["id", "age", "city", "name", "nick"],
        7: ["id", "age", "name", "nick", "town"],
        10: ["id", "age", "name", "town"],
        13: ["id", "age", "name", "town"],
    }


def test_rows_from_before_a_column_was_added_have_nulls_in_it(
    spark: SparkSession, evolved: Path
) -> None:
    frame = read(spark, evolved, type="Person", version=5)
    assert {row["nick"] for row in frame.collect()} == {None}
    later = read(spark, evolved, type="Person", version=6).where("nick is not null")
    assert later.count() == 1


def test_a_dropped_type_is_read_where_it_existed(spark: SparkSession, evolved: Path) -> None:
    assert read(spark, evolved, type="Company", version=4).count() == 2
    gone = failure(lambda: read(spark, evolved, type="Company"))
    assert "[OMNIGRAPH_TYPE_NOT_FOUND]" in gone


@pytest.mark.smoke
@pytest.mark.parametrize("table", list(METADATA_TABLES))
def test_every_table_about_the_graph_is_a_frame(
    spark: SparkSession, rich: Path, table: str
) -> None:
    frame = read(spark, rich, table=table)
    declared = METADATA_TABLES[table]
    assert frame.columns == declared.schema.names
    expected = declared.read(og.open(str(rich)).snapshot()._state)
    assert frame.toArrow().cast(expected.schema).to_pylist() == expected.to_pylist()


def test_the_commits_table_is_what_the_engine_lists(spark: SparkSession, history: Path) -> None:
    rows = read(spark, history, table="commits").orderBy("manifest_version").collect()
    assert [row["id"] for row in rows] == [
        commit["graph_commit_id"] for commit in Expected("history").commits()
    ]


def test_tables_about_the_graph_follow_branch_and_version(
    spark: SparkSession, branched: Path, history: Path
) -> None:
    def persons(root: Path, **options: Any) -> int:
        entries = read(spark, root, table="entries", **options)
        row = entries.where("type_key = 'node:Person'").select("rows").first()
        assert row is not None
        return int(row["rows"])

    assert persons(branched, branch="feature") != persons(branched)
    assert persons(history, version=1) == 0


def test_edges_join_their_nodes(spark: SparkSession, people: Path) -> None:
    person = read(spark, people, type="Person")
    knows = read(spark, people, type="Knows")
    ends = (
        knows.join(person.alias("a"), knows.src == f.col("a.id"))
        .join(person.alias("b"), knows.dst == f.col("b.id"))
        .where("b.age < a.age")
        .select("src", "dst")
    )
    assert ends.collect() == [("p99", "p00")]


def test_descriptions_are_comments_of_columns(spark: SparkSession, people: Path) -> None:
    person = read(spark, people, type="Person")
    person.createOrReplaceTempView("described_person")
    comments = {
        r["col_name"]: r["comment"] for r in spark.sql("DESCRIBE described_person").collect()
    }
    assert comments == {"id": None, "age": None, "level": None, "name": "Full name"}
    assert person.schema["name"].metadata["omnigraph.key"] is True
    assert person.schema["level"].metadata["omnigraph.enum"] == ["high", "low"]
    assert [field.nullable for field in person.schema.fields] == [False, True, True, False]


# -- SQL without the jar -----------------------------------------------------------------------


@pytest.mark.smoke
def test_a_temporary_view_is_made_by_sql(spark: SparkSession, people: Path) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW sql_person USING omnigraph "
        f"OPTIONS (path '{people}', type 'node:Person', where 'age < 10')"
    )
    assert spark.sql("SELECT count(*), max(age) FROM sql_person").collect() == [(10, 9)]


def test_a_table_loses_its_options_and_the_error_says_what_to_do(
    spark: SparkSession, people: Path
) -> None:
    spark.sql("DROP TABLE IF EXISTS lost")
    spark.sql(f"CREATE TABLE lost USING omnigraph OPTIONS (path '{people}', type 'Person')")
    try:
        text = failure(lambda: spark.sql("SELECT * FROM lost").collect())
        assert "[OMNIGRAPH_OPTION_MISSING]" in text
        assert "CREATE TEMPORARY VIEW" in text
        given = spark.sql(f"SELECT id FROM lost WITH (path = '{people}', type = 'Person')")
        assert given.count() == 100
    finally:
        spark.sql("DROP TABLE lost")


# -- the trap of pushed filters: what one query asked for must not leak into the next ----------


@pytest.mark.smoke
def test_a_frame_has_all_its_rows_again_after_a_filter(spark: SparkSession, people: Path) -> None:
    person = read(spark, people, type="Person")
    assert person.where("age = 3").count() == 1
    assert person.count() == 100
    assert person.where("age > 97").count() == 2
    assert person.count() == 100


def test_a_union_of_two_filters_has_the_rows_of_both(spark: SparkSession, people: Path) -> None:
    person = read(spark, people, type="Person")
    both = person.where("age = 3").union(person.where("age = 5"))
    assert names(both) == ["p03", "p05"]


def test_a_view_is_filtered_twice(spark: SparkSession, people: Path) -> None:
    read(spark, people, type="Person").createOrReplaceTempView("reused_person")
    rows = spark.sql(
        "SELECT (SELECT count(*) FROM reused_person WHERE age < 3), "
        "(SELECT count(*) FROM reused_person WHERE age >= 3), "
        "(SELECT count(*) FROM reused_person)"
    )
    assert rows.collect() == [(3, 97, 100)]


def test_a_frame_joins_itself(spark: SparkSession, people: Path) -> None:
    person = read(spark, people, type="Person")
    older, younger = person.where("age = 50").alias("o"), person.where("age < 3").alias("y")
    pairs = older.crossJoin(younger).select("o.name", "y.name").collect()
    assert sorted(map(tuple, pairs)) == [("p50", "p00"), ("p50", "p01"), ("p50", "p02")]


def test_a_cached_frame_and_its_origin_agree(spark: SparkSession, people: Path) -> None:
    person = read(spark, people, type="Person")
    few = person.where("age < 5").cache()
    try:
        assert (few.count(), person.count()) == (5, 100)
    finally:
        few.unpersist()


def test_arrow_and_pandas_see_the_same_rows(spark: SparkSession, people: Path) -> None:
    person = read(spark, people, type="Person").orderBy("id")
    table = person.toArrow()
    assert isinstance(table, pa.Table)
    assert table.column("age").to_pylist() == list(range(100))
