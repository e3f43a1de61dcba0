"""Transactions over several DataFrames: one commit or nothing, and what they see of themselves."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import omnigraph_spark as og
from omnigraph_spark import loading
from omnigraph_spark.errors import (
    ConstraintViolationError,
    InvalidRecordsError,
    MixedModesError,
    UnsupportedError,
)
from tests.helpers.files import listing, published

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? }
node City { name: String @key }
edge Knows: Person -> Person
edge Lives: Person -> City
"""


@pytest.fixture
def graph(tmp_path: Path, spark: SparkSession) -> og.Graph:
    return og.create(tmp_path / "graph", SCHEMA, spark=spark)


def people(spark: SparkSession, start: int, end: int, age: int = 1) -> DataFrame:
    return spark.range(start, end, 1, 2).selectExpr(
        "format_string('p%03d', id) AS name", f"{age} AS age"
    )


def ring(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, 2).selectExpr(
        "format_string('p%03d', id) AS src", f"format_string('p%03d', (id + 1) % {count}) AS dst"
    )


def append_both(graph: og.Graph, one: str, rows: DataFrame, other: str, more: DataFrame) -> None:
    with graph.transaction() as tx:
        tx.append(one, rows)
        tx.append(other, more)


@pytest.mark.smoke
def test_several_frames_are_one_commit_with_a_receipt(spark: SparkSession, graph: og.Graph) -> None:
    with graph.transaction(actor="etl") as tx:
        tx.append("Person", people(spark, 0, 20))
        tx.append("Person", people(spark, 20, 30))
        tx.append("Knows", ring(spark, 30))
        tx.append("City", pa.table({"name": ["oslo"]}))
        assert og.open(graph.root).snapshot().rows("Person") == 0, "nothing is visible before"
    assert tx.commit is not None
    assert tx.commit.actor == "etl"
    assert {key: change.inserted for key, change in tx.commit.changes.items()} == {
        "node:Person": 30,
        "edge:Knows": 30,
        "node:City": 1,
    }
    assert len(graph.history()) == 2
    assert graph.triplets("Knows").count() == 30


def test_a_frame_that_cannot_be_computed_leaves_nothing_of_the_others(
    spark: SparkSession, graph: og.Graph
) -> None:
    """RS-68."""
    before = published(Path(graph.root))
    bad = spark.range(0, 40, 1, 4).selectExpr(
        "concat('c', id) AS name", "assert_true(id < 35, 'boom') AS checked"
    )
    bad = bad.where("checked IS NULL").select("name")
    with pytest.raises(PySparkException, match="boom"):
        append_both(graph, "Person", people(spark, 0, 10), "City", bad)
    assert published(Path(graph.root)) == before
    with graph.transaction() as tx:
        tx.append("Person", people(spark, 0, 10))
    assert graph.snapshot().rows("Person") == 10


def test_a_broken_rule_of_one_type_stops_all(spark: SparkSession, graph: og.Graph) -> None:
    """RS-08."""
    before = listing(Path(graph.root))
    astray = spark.createDataFrame([("p000", "nobody")], "src string, dst string")
    with pytest.raises(ConstraintViolationError, match="nobody"):
        append_both(graph, "Person", people(spark, 0, 10), "Knows", astray)
    assert listing(Path(graph.root)) == before


def test_an_exception_of_the_caller_aborts(spark: SparkSession, graph: og.Graph) -> None:
    before = listing(Path(graph.root))
    tx = graph.transaction()
    with suppress(ZeroDivisionError), tx:
        tx.append("Person", people(spark, 0, 10))
        raise ZeroDivisionError
    assert listing(Path(graph.root)) == before


def test_inserting_and_deleting_are_not_mixed(spark: SparkSession, graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.append("Person", people(spark, 0, 3))
        with pytest.raises(MixedModesError):
            tx.delete("City", ["oslo"])


def test_an_empty_transaction_is_no_commit(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        pass
    assert tx.commit is None
    assert len(graph.history()) == 1


# -- read your own writes ------------------------------------------------------------------------


def test_a_transaction_sees_committed_and_own_rows(spark: SparkSession, graph: og.Graph) -> None:
    graph.write(people(spark, 0, 10), "Person")
    with graph.transaction() as tx:
        tx.merge("Person", people(spark, 5, 15, age=2))
        tx.append("Knows", ring(spark, 15))
        seen = {row.name: row.age for row in tx.nodes("Person").collect()}
        assert len(seen) == 15
        assert (seen["p004"], seen["p005"], seen["p014"]) == (1, 2, 2)
        assert tx.edges("Knows").count() == 15
        assert tx.nodes("City").count() == 0
        assert same_rows(tx.nodes("Person"), tx.arrow("Person"))
    assert {row.name: row.age for row in graph.nodes("Person").collect()} == seen
    with pytest.raises(UnsupportedError, match="ended"):
        tx.nodes("Person")


def test_a_merge_of_some_columns_is_seen_with_the_others(
    spark: SparkSession, graph: og.Graph
) -> None:
    mails = people(spark, 0, 4).selectExpr("name", "age", "concat(name, '@x') AS mail")
    graph.write(mails, "Person")
    with graph.transaction() as tx:
        tx.merge("Person", people(spark, 2, 4, age=9), columns=["age"])
        rows = {row.name: (row.age, row.mail) for row in tx.nodes("Person").collect()}
        assert same_rows(tx.nodes("Person"), tx.arrow("Person"))
    assert rows["p001"] == (1, "p001@x")
    assert rows["p003"] == (9, "p003@x")


def test_deletions_and_overwrites_are_seen(spark: SparkSession, graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.append("Person", people(spark, 0, 10))
        tx.append("Knows", ring(spark, 10))
    with graph.transaction() as tx:
        tx.delete("Person", people(spark, 0, 1).select("name"))
        assert tx.nodes("Person").count() == 9
        assert tx.edges("Knows").count() == 8
        assert same_rows(tx.edges("Knows"), tx.arrow("Knows"))
    with graph.transaction() as tx:
        tx.overwrite("Knows", ring(spark, 3).where("src <> 'p000' AND dst <> 'p000'"))
        assert [row.src for row in tx.edges("Knows").collect()] == ["p001"]


def same_rows(frame: DataFrame, table: pa.Table) -> bool:
    mine = sorted((row.asDict() for row in frame.collect()), key=lambda row: str(row["id"]))
    return bool(mine == sorted(table.to_pylist(), key=lambda row: str(row["id"])))


# -- interchange records -------------------------------------------------------------------------


def test_records_are_read_by_tasks_as_by_one_process(
    spark: SparkSession, graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f'{{"type": "Person", "data": {{"name": "p{n:03}", "age": {n}}}}}' for n in range(200)]
    lines += [
        f'{{"edge": "Knows", "from": "p{n:03}", "to": "p000", "data": {{"id": "k{n:03}"}}}}'
        for n in range(200)
    ]
    folder = tmp_path / "records"
    folder.mkdir()
    for part in range(4):
        (folder / f"part-{part}.jsonl").write_text("\n".join(lines[part::4]) + "\n\n")
    monkeypatch.setattr(loading, "LARGE_BYTES", 0)
    commit = graph.load_jsonl(folder)
    assert commit is not None
    assert {key: change.inserted for key, change in commit.changes.items()} == {
        "node:Person": 200,
        "edge:Knows": 200,
    }
    other = og.create(tmp_path / "other", SCHEMA)
    monkeypatch.setattr(loading, "LARGE_BYTES", 1 << 40)
    other.load_jsonl(folder)
    for name in ("Person", "Knows"):
        mine, theirs = graph.snapshot().arrow(name), other.snapshot().arrow(name)
        assert mine.sort_by("id").equals(theirs.sort_by("id"))


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("in[1].jsonl", "in1.jsonl", "in{1}.jsonl"):
        record = {"type": "Person", "data": {"name": name}}
        (tmp_path / name).write_text(json.dumps(record), encoding="utf-8")
    monkeypatch.setattr(loading, "LARGE_BYTES", 0)
    graph.load_jsonl(tmp_path / "in[1].jsonl")
    graph.load_jsonl(tmp_path / "in{1}.jsonl")
    found = graph.snapshot().arrow("Person", columns=["name"]).column("name").to_pylist()
    assert {"in[1].jsonl", "in{1}.jsonl"} <= set(found)
    assert "in1.jsonl" not in found


def test_bad_records_in_tasks_are_quoted_and_leave_nothing(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published(Path(graph.root))
    good = [f'{{"type": "Person", "data": {{"name": "p{n}"}}}}' for n in range(50)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("\n".join(good))
    (tmp_path / "in" / "b.jsonl").write_text('{"type": "Persn", "data": {"name": "x"}}\n')
    monkeypatch.setattr(loading, "LARGE_BYTES", 0)
    with pytest.raises(InvalidRecordsError, match="Persn"):
        graph.load_jsonl(tmp_path / "in")
    assert published(Path(graph.root)) == before


def test_records_that_are_not_utf8_are_refused_in_tasks_as_in_one_process(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published(Path(graph.root))
    lines = (
        b'{"type": "Person", "data": {"name": "p"}}\n{"type": "Person", "data": {"name": "\xff"}}'
    )
    (tmp_path / "in.jsonl").write_bytes(lines)
    for least in (1 << 40, 0):
        monkeypatch.setattr(loading, "LARGE_BYTES", least)
        with pytest.raises(InvalidRecordsError, match="the text is not UTF-8"):
            graph.load_jsonl(tmp_path / "in.jsonl")
    assert published(Path(graph.root)) == before
