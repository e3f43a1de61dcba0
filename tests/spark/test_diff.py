"""Diffs as DataFrames: the same rows as without Spark, whoever joins them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark import diff as diffs
from tests.engine.writing import edges, people, write_staffed


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """The staffed graph; on dev rows of three types came, went and changed, blobs too."""
    root = tmp_path_factory.mktemp("diff") / "g"
    write_staffed(root)
    graph = og.open(root)
    graph.write(notes(n2=b"same", n3=b"old!"), "Note")
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    dev.write(people(Ann=31, Dan=1), "Person", mode="merge")
    dev.write(edges(k9="Ann-Dan"), "Knows")
    dev.delete("Person", ["Bob"])
    dev.write(notes(n2=b"same", n3=b"new!"), "Note", mode="merge")
    return graph


def notes(**payloads: bytes) -> pa.Table:
    return pa.table(
        {
            "id": list(payloads),
            "text": ["some text"] * len(payloads),
            "payload": pa.array(payloads.values(), pa.binary()),
            "mood": pa.array([[0.5, 1.0]] * len(payloads), pa.list_(pa.float32(), 2)),
        }
    )


def test_a_diff_is_used_like_a_dataframe(spark: SparkSession, graph: og.Graph) -> None:
    diff = graph.diff("main", "dev")
    assert diff.columns == ["type_key", "id", "change", "before", "after", "columns"]
    expected = graph.diff("main", "dev").arrow().to_pylist()
    found = [row.asDict() for row in diff.collect()]
    assert sorted(found, key=_key) == sorted(expected, key=_key)
    assert diff.filter("change = 'changed'").count() == 2


def _key(row: dict[str, str]) -> tuple[str, str]:
    return row["type_key"], row["id"]


def test_a_diff_of_one_type_has_typed_sides(spark: SparkSession, graph: og.Graph) -> None:
    people = graph.diff("main", "dev", type="Person")
    rows = people.selectExpr("id", "change", "before.age AS old", "after.age AS new", "columns")
    assert sorted(map(tuple, rows.collect())) == [
        ("Ann", "changed", 30, 31, ["age"]),
        ("Bob", "removed", 41, None, []),
        ("Dan", "added", None, 1, []),
    ]


@pytest.mark.slow
def test_many_rows_are_joined_by_spark(
    spark: SparkSession, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "SPARK_ROWS", 0)
    noted = graph.diff("main", "dev", type="Note").selectExpr("id", "columns", "after.mood[0]")
    assert list(map(tuple, noted.collect())) == [("n3", ["payload"], 0.5)]
    counts = graph.diff("main", "dev", type="Knows").counts
    assert counts == {"edge:Knows": {"added": 1, "removed": 2, "changed": 0}}


def test_a_diff_without_a_difference_is_an_empty_frame(
    spark: SparkSession, graph: og.Graph
) -> None:
    assert graph.diff("main", "main").collect() == []
    nothing = graph.diff("main", "main", type="Person")
    assert nothing.collect() == []
    assert nothing.schema["after"].dataType["age"].dataType.simpleString() == "int"
