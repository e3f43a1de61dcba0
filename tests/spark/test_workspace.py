"""Checks and merges as Spark jobs: the same answers as in one process, on the same input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark.errors import OmnigraphError
from omnigraph_spark.session import workspace
from omnigraph_spark.session.workspace import SparkWorkspace
from omnigraph_spark.writing import preparing
from omnigraph_spark.writing.workspace import DuckWorkspace, Workspace

SCHEMA = """
node Person {
    name: String @key
    mail: String? @unique
    big: U64? @unique
    at: DateTime?
    ratio: F64? @unique
    @unique(at, mail)
}
node City { name: String @key }
edge Knows: Person -> Person @card(1..2) { since: Date? }
edge Lives: Person -> City
"""
PEOPLE = [
    {"name": "ann", "mail": "a@x", "big": 2**64 - 1, "ratio": 0.0},
    {"name": "bob", "mail": "b@x", "big": 1, "ratio": float("nan")},
    {"name": "cy", "mail": None, "big": None, "ratio": None},
]
Rows = dict[str, list[dict[str, Any]]]

#: Name -> (mode, rows by type); every one breaks rules, some several at once.
BROKEN: dict[str, tuple[str, Rows]] = {
    "duplicates": ("append", {"Person": [{"name": n} for n in ("x", "y", "x", "y", "z")]}),
    "existing ids": ("append", {"Person": [{"name": "ann"}, {"name": "new"}]}),
    "unique among new": ("append", {"Person": [{"name": n, "mail": "m"} for n in "xyz"]}),
    "unique against old": (
        "merge",
        {"Person": [{"name": "x", "big": 2**64 - 1}, {"name": "y", "ratio": float("nan")}]},
    ),
    "zeros are equal": ("append", {"Person": [{"name": "x", "ratio": -0.0}]}),
    "missing ends": (
        "append",
        {
            "Person": [{"name": "new"}],
            "Knows": [
                {"id": "k1", "src": "new", "dst": "nobody"},
                {"id": "k2", "src": "no one", "dst": "ann"},
                {"id": "k3", "src": "ann", "dst": "new"},
            ],
        },
    ),
    "too many edges": (
        "append",
        {"Knows": [{"id": f"k{n}", "src": "cy", "dst": "ann"} for n in range(3)]},
    ),
    "stranded edges": ("overwrite", {"Person": [{"name": "bob"}], "City": []}),
    "many at once": (
        "append",
        {
            "Person": [{"name": f"p{n % 40:02}", "mail": f"m{n % 3}"} for n in range(60)],
            "Lives": [{"id": "l", "src": "nobody", "dst": "nowhere"}],
        },
    ),
}


def graph_at(root: Path) -> og.Graph:
    graph = og.create(root, SCHEMA)
    with graph.transaction() as tx:
        tx.append("Person", pa.Table.from_pylist(PEOPLE, pa.schema(person_fields())))
        tx.append("City", pa.table({"name": ["oslo"]}))
        tx.append("Knows", pa.table({"id": ["k"], "src": ["ann"], "dst": ["bob"]}))
        tx.append("Lives", pa.table({"id": ["l0"], "src": ["ann"], "dst": ["oslo"]}))
    return graph


def person_fields() -> list[pa.Field[Any]]:
    return [
        pa.field("name", pa.string()),
        pa.field("mail", pa.string()),
        pa.field("big", pa.uint64()),
        pa.field("ratio", pa.float64()),
    ]


def table_of(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    if name == "Person":
        return pa.Table.from_pylist(rows, pa.schema(person_fields()))
    if not rows:
        return pa.table({"name": pa.array([], pa.string())})
    return pa.Table.from_pylist(rows)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Callable[[SparkSession | None], None]:
    """Make every transaction use Spark, or none."""

    def choose(spark: SparkSession | None) -> None:
        def space() -> AbstractContextManager[Workspace]:
            return DuckWorkspace() if spark is None else SparkWorkspace(spark)

        monkeypatch.setattr(og.Transaction, "_workspace", lambda self: space())

    return choose


def outcome(graph: og.Graph, mode: str, rows: Rows) -> str:
    try:
        with graph.transaction() as tx:
            for name, given in rows.items():
                getattr(tx, mode)(name, table_of(name, given))
    except OmnigraphError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize("case", BROKEN)
def test_spark_and_duckdb_find_the_same_violations(
    spark: SparkSession,
    tmp_path: Path,
    always: Callable[[SparkSession | None], None],
    case: str,
) -> None:
    graph = graph_at(tmp_path / "g")
    mode, rows = BROKEN[case]
    always(None)
    by_duckdb = outcome(graph, mode, rows)
    always(spark)
    assert outcome(graph, mode, rows) == by_duckdb != "accepted"
    assert len(graph.refresh().history()) == 2


@pytest.fixture
def views(spark: SparkSession) -> Iterator[None]:
    """Whatever a test does, the session has no more views and cached frames than before."""
    before = {table.name for table in spark.catalog.listTables()}
    yield
    assert {table.name for table in spark.catalog.listTables()} == before


def whole(graph: og.Graph) -> list[dict[str, Any]]:
    return graph.snapshot().arrow("Person", blobs="bytes").sort_by("id").to_pylist()


@pytest.mark.usefixtures("views")
@pytest.mark.smoke
def test_a_merge_by_tasks_gives_what_lance_gives(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = pa.table({"name": [f"p{n:04}" for n in range(900)], "mail": ["old"] * 900})
    new = spark.range(300, 1200, 1, 5).selectExpr(
        "format_string('p%04d', id) AS name",
        "concat('new ', id) AS mail",
        "CAST(concat('photo ', id) AS binary) AS photo",
    )
    text = "node Person { name: String @key  mail: String?  age: I64?  photo: Blob? }"
    results = []
    for number, rows in enumerate((200_000, 0)):
        monkeypatch.setattr(preparing, "SMALL_MERGE_ROWS", rows)
        # Only the second is taken apart, and by tasks.
        monkeypatch.setattr(workspace, "SPARK_ROWS", rows)
        graph = og.create(tmp_path / f"g{number}", text, spark=spark)
        graph.write(old, "Person", max_rows_per_file=100)
        row_ids = ids_and_row_ids(graph)
        commit = graph.write(new, "Person", mode="merge")
        assert commit is not None
        summary = commit.changes["node:Person"]
        assert (summary.inserted, summary.updated, summary.rows) == (300, 600, 1200)
        after = ids_and_row_ids(graph)
        assert {id_: after[id_] for id_ in row_ids} == row_ids, "replaced rows keep their row ids"
        assert len(set(after.values())) == 1200
        results.append(whole(graph))
    assert results[0] == results[1]
    assert results[1][-1]["photo"] == b"photo 1199"
    # Tasks look up what is not merged, too.
    ages = spark.range(0, 1200, 2, 3).selectExpr("format_string('p%04d', id) AS name", "id AS age")
    graph.write_back(ages, "Person", columns=["age"])
    expected = [
        {**row, "age": int(row["id"][1:]) if int(row["id"][1:]) % 2 == 0 else None}
        for row in results[1]
    ]
    assert whole(graph) == expected
    assert ids_and_row_ids(graph) == after


@pytest.mark.usefixtures("views")
def test_a_deletion_by_tasks_takes_the_edges_along(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "SPARK_ROWS", 0)
    graph = og.create(tmp_path / "g", "node P { name: String @key }\nedge E: P -> P", spark=spark)
    with graph.transaction() as tx:
        tx.append("P", pa.table({"name": [f"p{n:02}" for n in range(60)]}))
        ring = {
            "src": [f"p{n:02}" for n in range(60)],
            "dst": [f"p{(n + 1) % 60:02}" for n in range(60)],
        }
        tx.append("E", pa.table(ring))
    graph.delete("P", spark.createDataFrame([("p05",), ("p06",), ("p30",)], "name string"))
    assert graph.entries["node:P"].rows == 57
    assert graph.entries["edge:E"].rows == 60 - 3 - 2
    left = set(graph.snapshot().arrow("P").column("id").to_pylist())
    edges = graph.snapshot().arrow("E")
    assert left.issuperset(edges.column("src").to_pylist() + edges.column("dst").to_pylist())


def ids_and_row_ids(graph: og.Graph) -> dict[str, int]:
    from omnigraph_spark.scan import ScanRequest
    from omnigraph_spark.scan_source import ScanSource
    from omnigraph_spark.writing.finding import scan_all

    source, request = ScanSource.of(graph._state, "Person"), ScanRequest(("id",))
    schema, batches = scan_all(source, request, [request], places=True)
    table = pa.Table.from_batches(batches, schema)
    return dict(
        zip(table.column("id").to_pylist(), table.column("_rowid").to_pylist(), strict=True)
    )
