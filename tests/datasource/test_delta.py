"""What a SQL statement decided row by row, written without a JVM: one commit, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from pyspark_omnigraph.delta import StagedDelta

import omnigraph_spark as og
from omnigraph_spark.errors import (
    ConstraintViolationError,
    ExpectedVersionError,
    KeyConflictError,
    UnsupportedError,
)
from omnigraph_spark.failpoints import (
    AFTER_PUBLISH,
    BEFORE_PUBLISH,
    BEFORE_SIDECAR,
    DATASET_COMMITTED,
    SIDECAR_WRITTEN,
    Failpoint,
)
from omnigraph_spark.scan import (
    ROW_ADDRESS,
    ROW_ID,
    ScanRequest,
    plan_scan,
    read_numbered_task,
)
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.writing.workspace import DuckWorkspace
from tests.helpers.crashes import crashing
from tests.helpers.sources import sent, source

DELETE, UPDATE, INSERT = range(3)
SCHEMA = """
node Person { name: String @key age: I32? }
node Note { text: String? payload: Blob? }
edge Knows: Person -> Person { since: Date? }
"""
PERSON = pa.schema(
    {
        "__op": pa.int32(),
        "__id": pa.string(),
        "__rowid": pa.int64(),
        "__rowaddr": pa.int64(),
        "id": pa.string(),
        "name": pa.string(),
        "age": pa.int32(),
    }
)
Row = tuple[Any, ...]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create(tmp_path / "g", SCHEMA)
    with graph.transaction() as tx:
        tx.append("Person", pa.table({"name": ["ann", "bob", "cy"], "age": [1, 2, 3]}))
        tx.append(
            "Knows", pa.table({"id": ["k1", "k2"], "src": ["ann", "bob"], "dst": ["bob"] * 2})
        )
        tx.append("Note", pa.table({"id": ["n1"], "text": ["x"], "payload": [b"bytes"]}))
    return graph


def decide(
    graph: og.Graph,
    *parts: Sequence[Row],
    schema: pa.Schema = PERSON,
    type: str = "Person",
    reads: Iterable[str] = ("node:Person",),
    pin: int | None = None,
    **options: str,
) -> None:
    """Write rows as Spark does: a process for planning, one for each part, one to commit."""
    version = graph.refresh().snapshot().manifest_version if pin is None else pin
    told = {"__pin": str(version), "__reads": json.dumps(list(reads)), "__delta": "true"}
    columns = [
        StructField(f.name, StructType() if pa.types.is_struct(f.type) else StringType())
        for f in schema
    ]
    writer = source(graph.root, type=type, **told, **options).writer(StructType(columns), False)
    messages: list[StagedDelta | None] = []
    places = numbers(graph, type, version)
    try:
        for part in parts:
            located = [
                (row[0], row[1], *places.get(row[1], (None, None)), *row[2:]) for row in part
            ]
            columns = zip(*located, strict=True) if part else [[] for _ in schema]
            batch = pa.RecordBatch.from_arrays(
                [pa.array(list(v), f.type) for v, f in zip(columns, schema, strict=True)],
                schema=schema,
            )
            messages.append(sent(sent(writer).write(iter([batch]))))
        sent(writer).commit(messages)
    except BaseException:
        sent(writer).abort([*messages, None])
        raise


def numbers(graph: og.Graph, type: str, version: int) -> dict[str, tuple[int, int]]:
    """The row id and the address of every row, as Spark reads them."""
    plan = plan_scan(
        ScanSource.of(graph.at(version=version)._state, type), ScanRequest(columns=("id",))
    )
    found = [
        row
        for task in plan.tasks
        for batch in read_numbered_task(task, (ROW_ID, ROW_ADDRESS))
        for row in batch.to_pylist()
    ]
    return {row["id"]: (row[ROW_ID], row[ROW_ADDRESS]) for row in found}


def ages(graph: og.Graph) -> dict[str, int | None]:
    rows = graph.refresh().snapshot().arrow("Person").to_pylist()
    return {row["name"]: row["age"] for row in rows}


def data_files(graph: og.Graph) -> set[Path]:
    return set(Path(graph.root).rglob("*.lance"))


def test_rows_of_all_operations_and_tasks_are_one_commit(graph: og.Graph) -> None:
    before = graph.history(1)[0].id
    decide(
        graph,
        [(UPDATE, "ann", "ann", "ann", 11), (DELETE, "cy", None, None, None)],
        [],
        [(INSERT, None, None, "dan", 4), (INSERT, None, "eve", "eve", None)],
    )
    assert ages(graph) == {"ann": 11, "bob": 2, "dan": 4, "eve": None}
    assert graph.history(1)[0].parent_id == before


def test_deleted_nodes_take_their_edges_along(graph: og.Graph) -> None:
    decide(graph, [(DELETE, "bob", None, None, None)])
    assert graph.refresh().snapshot().rows("Knows") == 0


@pytest.mark.parametrize(
    "row",
    [
        (UPDATE, "ann", "anna", "ann", 1),
        (UPDATE, "ann", "ann", "anna", 1),
        (UPDATE, "ann", None, "ann", 1),
    ],
    ids=["id", "key", "no id"],
)
def test_an_update_that_changes_id_or_key_is_refused(graph: og.Graph, row: Row) -> None:
    before = data_files(graph)
    with pytest.raises(ConstraintViolationError, match="an update keeps the id, and the key"):
        decide(graph, [row], [(INSERT, None, None, "dan", 4)])
    assert data_files(graph) == before
    assert ages(graph) == {"ann": 1, "bob": 2, "cy": 3}


def test_an_inserted_id_that_exists_is_refused(graph: og.Graph) -> None:
    before = data_files(graph)
    with pytest.raises(KeyConflictError, match="'ann' exists already"):
        decide(graph, [(INSERT, None, None, "ann", 9), (UPDATE, "bob", "bob", "bob", 9)])
    assert data_files(graph) == before


def test_a_statement_is_published_only_on_what_it_read(graph: og.Graph) -> None:
    pin = graph.snapshot().manifest_version
    graph.write(pa.table({"id": ["k9"], "src": ["ann"], "dst": ["cy"]}), "Knows")
    # Another type moved, which the statement did not read.
    decide(graph, [(UPDATE, "ann", "ann", "ann", 5)], pin=pin)
    before = data_files(graph)
    with pytest.raises(ExpectedVersionError, match="edge:Knows was expected at version"):
        decide(graph, [(UPDATE, "ann", "ann", "ann", 6)], reads=["edge:Knows"], pin=pin)
    with pytest.raises(ExpectedVersionError, match="node:Person was expected at version"):
        decide(graph, [(UPDATE, "ann", "ann", "ann", 6)], pin=pin)
    assert data_files(graph) == before
    assert ages(graph)["ann"] == 5


def test_options_of_a_catalog_that_are_about_reading_do_not_matter(graph: og.Graph) -> None:
    decide(graph, [(UPDATE, "ann", "ann", "ann", 5)], batchSize="10", actor="sql")
    assert graph.refresh().history(1)[0].actor == "sql"


def test_blobs_are_not_written_from_descriptors(graph: og.Graph) -> None:
    blob = pa.struct({"kind": pa.string(), "size": pa.int64(), "uri": pa.string()})
    note = pa.schema([*list(PERSON)[:5], pa.field("text", pa.string()), pa.field("payload", blob)])
    reads = ["node:Note"]
    decide(graph, [(INSERT, None, "n2", "y", None)], schema=note, type="Note", reads=reads)
    for row in (
        (UPDATE, "n1", "n1", "y", None),
        (INSERT, None, "n3", "z", {"kind": "inline", "size": 1, "uri": None}),
    ):
        with pytest.raises(UnsupportedError, match="blobs=bytes"):
            decide(graph, [row], schema=note, type="Note", reads=reads)
    payloads = graph.refresh().snapshot().arrow("Note", blobs="bytes").to_pylist()
    assert {row["id"]: row["payload"] for row in payloads} == {"n1": b"bytes", "n2": None}


@pytest.mark.parametrize(
    "point",
    [BEFORE_SIDECAR, SIDECAR_WRITTEN, DATASET_COMMITTED, BEFORE_PUBLISH, AFTER_PUBLISH],
    ids=lambda point: point.name,
)
def test_an_abort_after_a_failed_commit_deletes_nothing_that_is_owned(
    graph: og.Graph, point: Failpoint
) -> None:
    rows = [
        (UPDATE, "ann", "ann", "ann", 11),
        (DELETE, "bob", None, None, None),
        (INSERT, None, None, "dan", 4),
    ]
    with crashing(point):
        decide(graph, rows)
    # Whoever opens the graph next finishes or undoes it, and every row can be read.
    found = ages(og.open(graph.root))
    done = {"ann": 11, "cy": 3, "dan": 4}
    assert found in (done, {"ann": 1, "bob": 2, "cy": 3})
    assert found == done or point is not AFTER_PUBLISH
    if found != done:
        decide(graph, rows)
        assert ages(graph) == done


def test_a_row_that_is_deleted_and_given_again_is_there_once(graph: og.Graph) -> None:
    decide(
        graph,
        [(DELETE, "bob", None, None, None), (UPDATE, "ann", "ann", "ann", 11)],
        [(INSERT, None, None, "bob", 22), (INSERT, None, None, "dan", 4)],
    )
    assert ages(graph) == {"ann": 11, "bob": 22, "cy": 3, "dan": 4}
    snap = graph.refresh().snapshot()
    assert (snap.rows("Person"), snap.rows("Knows")) == (4, 2)


def test_where_rows_lie_is_not_searched_for(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search by id would read the ids of the whole type."""

    def searched(*args: object, **kwargs: object) -> None:
        raise AssertionError("rows were searched for")

    # Ids that must be new are looked for, so there are none here.
    monkeypatch.setattr(DuckWorkspace, "add_committed", searched)
    decide(graph, [(UPDATE, "ann", "ann", "ann", 11), (UPDATE, "cy", "cy", "cy", 33)])
    assert ages(graph) == {"ann": 11, "bob": 2, "cy": 33}


def test_rows_that_were_located_are_not_found_on_another_version(graph: og.Graph) -> None:
    pin = graph.snapshot().manifest_version
    graph.write(pa.table({"name": ["eve"]}), "Person")
    with pytest.raises(ExpectedVersionError):
        decide(graph, [(UPDATE, "ann", "ann", "ann", 5)], pin=pin, onConflict="rebase")
