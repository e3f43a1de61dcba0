"""Statements on types with blobs: a blob that no statement sets stays with its row."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark_omnigraph.delta import FACTS, DeltaWriter
from pyspark_omnigraph.held import OpenTransaction
from pyspark_omnigraph.jar_options import TRANSACTION
from pyspark_omnigraph.procedure import Call
from pyspark_omnigraph.procedures import PROCEDURES
from pyspark_omnigraph.statement import Statement

import omnigraph_spark as og
from omnigraph_spark.blobs import Blobs
from omnigraph_spark.errors import ConflictError, SchemaMismatchError, UnsupportedError
from omnigraph_spark.scan import ScanRequest, plan_scan, read_all, read_numbered_task
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage.settings import StorageSettings

SCHEMA = """
node Picture { name: String @key  title: String?  small: Blob?  large: Blob? }
node Film { name: String @key  length: I32?  content: Blob }
"""
NUMBERS = ("_rowid", "_rowaddr")
DELETE, UPDATE, INSERT = range(3)
LARGE = bytes(range(256)) * 1_000


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Pictures in two fragments, one of them without blobs; one film."""
    graph = og.create(tmp_path / "g", SCHEMA)
    for names in (["a", "b"], ["c", "d"]):
        small = [name.encode() * 3 for name in names]
        large = [LARGE if name in "ac" else None for name in names]
        blobs = {"small": pa.array(small), "large": pa.array(large, pa.binary())}
        graph.write(pa.table({"name": names, "title": ["old"] * 2, **blobs}), "Picture")
    graph.write(pa.table({"name": ["f"], "content": pa.array([b"film"])}), "Film")
    return graph.refresh()


def shown(graph: og.Graph, type_name: str = "Picture") -> pa.RecordBatch:
    """The rows as a statement reads them: blobs as descriptors, and where the rows lie."""
    source = ScanSource.of(graph.refresh().snapshot()._state, type_name)
    tasks = plan_scan(source, ScanRequest()).tasks
    found = [batch for task in tasks for batch in read_numbered_task(task, NUMBERS)]
    [whole] = pa.Table.from_batches(found).combine_chunks().sort_by("id").to_batches()
    return whole


def as_decided(rows: pa.RecordBatch, operations: list[int], **values: list[Any]) -> pa.RecordBatch:
    """What Spark hands over for rows as they were shown, with values that a statement sets."""
    facts = [pa.array(operations, pa.int32()), *(rows.column(n) for n in ("id", *NUMBERS))]
    names = [name for name in rows.schema.names if name not in NUMBERS]
    columns = [
        pa.array(values[name], rows.column(name).type) if name in values else rows.column(name)
        for name in names
    ]
    return pa.RecordBatch.from_arrays([*facts, *columns], names=[*FACTS, *names])


def begin(
    graph: og.Graph, type_name: str = "Picture", described: str = "large small", **more: str
) -> Any:
    """The writer of a statement that reads the newest version."""
    pin = graph.refresh().snapshot().manifest_version
    options = {"path": graph.root, "type": type_name, "branch": "main", "__delta": "true", **more}
    options |= {"__pin": str(pin), "__reads": json.dumps([f"node:{type_name}"])}
    writer = DeltaWriter(Statement.parse(options), tuple(described.split()))
    return pickle.loads(pickle.dumps(writer))


def contents(graph: og.Graph, type_name: str = "Picture") -> dict[str, dict[str, Any]]:
    source = ScanSource.of(graph.refresh().snapshot()._state, type_name)
    plan = plan_scan(source, ScanRequest(blobs=Blobs.BYTES))
    return {row["id"]: row for batch in read_all(plan) for row in batch.to_pylist()}


def test_updated_rows_keep_the_blobs_that_are_not_set(graph: og.Graph) -> None:
    before, rows = contents(graph), shown(graph)
    writer = begin(graph)
    some = rows.take(pa.array([0, 1, 2]))
    writer.commit([writer.write(iter([as_decided(some, [UPDATE] * 3, title=["x", "y", None])]))])
    expected = {**before}
    for name, title in {"a": "x", "b": "y", "c": None}.items():
        expected[name] = {**before[name], "title": title}
    assert contents(graph) == expected
    assert shown(graph).column("_rowid") == rows.column("_rowid")


def test_update_insert_and_delete_meet_in_one_commit(graph: og.Graph) -> None:
    before, rows = contents(graph), shown(graph)
    writer = begin(graph)
    new = as_decided(
        rows.take(pa.array([0, 0, 3])),
        [UPDATE, INSERT, DELETE],
        id=["a", "new", None],
        name=["a", "new", None],
        title=["x", "born", None],
        small=[rows.column("small")[0].as_py(), None, None],
        large=[rows.column("large")[0].as_py(), None, None],
    )
    commits = len(graph.history())
    writer.commit([writer.write(iter([new]))])
    born = {"id": "new", "name": "new", "title": "born", "small": None, "large": None}
    changed = {**before["a"], "title": "x"}
    assert contents(graph) == {"a": changed, "b": before["b"], "c": before["c"], "new": born}
    assert len(graph.refresh().history()) == commits + 1


def test_only_new_rows_are_added_without_blobs(graph: og.Graph) -> None:
    before, writer = contents(graph), begin(graph)
    nulls = {"small": [None], "large": [None], "title": [None]}
    new = as_decided(shown(graph).slice(0, 1), [INSERT], id=["e"], name=["e"], **nulls)
    writer.commit([writer.write(iter([new]))])
    born = {"id": "e", "name": "e", "title": None, "small": None, "large": None}
    assert contents(graph) == {**before, "e": born}


@pytest.mark.parametrize("column", ["small", "large"])
@pytest.mark.parametrize("blob", [None, {"kind": "inline", "size": 1, "uri": None}])
def test_a_descriptor_that_is_not_the_row_s_own_is_refused(
    graph: og.Graph, column: str, blob: dict[str, Any] | None
) -> None:
    before, writer = contents(graph), begin(graph)
    rows = as_decided(shown(graph).slice(0, 1), [UPDATE], title=["x"], **{column: [blob]})
    with pytest.raises(UnsupportedError, match=f"writing '{column}' of node:Picture from a desc"):
        writer.write(iter([rows]))
    assert contents(graph) == before


def test_a_required_blob_is_kept_and_no_row_is_without_one(graph: og.Graph) -> None:
    rows, writer = shown(graph, "Film"), begin(graph, "Film", "content")
    writer.commit([writer.write(iter([as_decided(rows, [UPDATE], length=[90])]))])
    assert contents(graph, "Film")["f"] == {
        "id": "f", "name": "f", "length": 90, "content": b"film",
    }  # fmt: skip
    new = {"id": ["g"], "name": ["g"], "content": [None]}
    writer = begin(graph, "Film", "content")
    with pytest.raises(SchemaMismatchError, match="'content' of node:Film was given as nothing"):
        writer.write(iter([as_decided(shown(graph, "Film"), [INSERT], **new)]))


def test_blobs_are_kept_by_a_statement_that_waits_in_a_transaction(graph: og.Graph) -> None:
    before, waiting = contents(graph), OpenTransaction.begin("main")
    writer = begin(graph, **{TRANSACTION: str(waiting.folder)})
    row = as_decided(shown(graph).slice(0, 1), [UPDATE], title=["x"])
    writer.commit([writer.write(iter([row]))])
    assert contents(graph) == before
    reader = GraphReader.open(graph.root, StorageSettings())
    PROCEDURES["commit_transaction"](Call(reader, "main", None, str(waiting.folder)), {})
    assert contents(graph) == {**before, "a": {**before["a"], "title": "x"}}


def test_rows_that_moved_since_are_a_conflict(graph: og.Graph) -> None:
    rows, writer = as_decided(shown(graph), [UPDATE] * 4, title=["x"] * 4), begin(graph)
    graph.write(pa.table({"name": ["a"], "title": ["other"]}), "Picture", "merge",
                merge_columns=["title"])  # fmt: skip
    message = writer.write(iter([rows]))
    with pytest.raises(ConflictError):
        writer.commit([message])
    assert contents(graph)["a"]["title"] == "other"
