"""Writing back: chosen columns of rows that exist change, and nothing else about them does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    BranchNotFoundError,
    ColumnNotFoundError,
    ConstraintViolationError,
    InvalidOptionError,
    SchemaMismatchError,
    UnsupportedError,
)
from omnigraph_spark.storage.datasets import DatasetAddress, open_dataset
from omnigraph_spark.storage.settings import StorageSettings
from tests.engine.writing import PERSON, assert_whole, files, people, transact


def state_of(graph: og.Graph, type: str) -> dict[str, dict[str, Any]]:
    """The rows of a type by id, blobs as bytes, each with its row id."""
    at = graph.refresh().snapshot()
    rows = {row["id"]: row for row in at.arrow(type, blobs="bytes").to_pylist()}
    entry = at.entries[type]
    address = DatasetAddress(graph.root, entry.path, entry.dataset_branch)
    dataset = open_dataset(address, entry.dataset_version, StorageSettings())
    numbers = [fragment.id for fragment in dataset.fragments()]
    for batch in dataset.batches(numbers, ["id", "_rowid"]):
        for found in batch.to_pylist():
            rows[found["id"]]["_rowid"] = found["_rowid"]
    return rows


def test_only_these_columns_change_and_only_on_the_branch(graph: og.Graph) -> None:
    before = state_of(graph, PERSON)
    ranks = pa.table({"id": ["Bob", "Ann"], "age": [2, 1]})

    commit = graph.write_back(ranks, "Person", ["age"], branch="analytics", create_from="main")

    assert commit is not None
    change = commit.changes[PERSON]
    assert (change.inserted, change.updated, change.deleted) == (0, 2, 0)
    analytics = graph.as_branch("analytics")
    changed = {name: {**before[name], "age": age} for name, age in (("Ann", 1), ("Bob", 2))}
    assert state_of(analytics, PERSON) == before | changed
    assert state_of(graph, PERSON) == before
    assert_whole(analytics)


def test_lists_vectors_and_blobs_that_are_not_written_stay_as_they_are(graph: og.Graph) -> None:
    notes = pa.table(
        {
            "id": ["x", "y"],
            "text": ["one", "two"],
            "tags": pa.array([["a", None], None], pa.list_(pa.string())),
            "mood": pa.array([[0.5, -1.5], None], pa.list_(pa.float32())),
            "payload": pa.array([b"bytes", None], pa.binary()),
        }
    )
    graph.write(notes, "Note")
    before = state_of(graph, "node:Note")
    graph.write_back(pa.table({"id": ["y", "x"], "text": ["2", "1"]}), "Note", ["text"])
    new = {id_: {**before[id_], "text": text} for id_, text in (("x", "1"), ("y", "2"))}
    assert state_of(graph, "node:Note") == before | new


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame({"name": ["Ann"], "age": [5]}),
        pa.table({"name": ["Ann"], "age": [5]}).to_reader(),
        pa.table({"id": ["Ann"], "name": ["Ann"], "age": [5], "code": ["left aside"]}),
    ],
    ids=["pandas by key", "reader by key", "with other columns"],
)
def test_rows_are_taken_in_any_form_by_id_or_key(graph: og.Graph, rows: Any) -> None:
    graph.write_back(rows, "Person", columns=["age"])
    ann = graph.entity("Person", "Ann")
    assert ann is not None
    assert (ann["age"], ann["code"]) == (5, None)


def test_edges_take_values_too(graph: og.Graph) -> None:
    graph.write_back(pa.table({"id": ["w1"], "title": ["boss"]}), "WorksAt", columns=["title"])
    edge = graph.entity("WorksAt", "w1")
    assert edge == {"id": "w1", "src": "Ann", "dst": "Acme", "title": "boss"}


@pytest.mark.parametrize("check", ["all", "rows"])
def test_ids_that_do_not_exist_are_named_and_nothing_is_written(
    graph: og.Graph, check: str
) -> None:
    before = files(Path(graph.root))
    rows = pa.table({"id": ["Ann", "Zoe", "Yan"], "age": [1, 2, 3]})
    with pytest.raises(ConstraintViolationError, match="does not exist") as caught:
        graph.write_back(rows, "Person", columns=["age"], check=check)
    assert "Yan" in str(caught.value)
    assert "Zoe" in str(caught.value)
    assert "Ann" not in str(caught.value)
    assert files(Path(graph.root)) == before


def test_rules_of_the_columns_hold(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    with pytest.raises(ConstraintViolationError, match="age"):
        graph.write_back(people(Ann=151), "Person", columns=["age"])
    twice = pa.table({"id": ["Ann", "Bob"], "mail": ["m", "m"]})
    with pytest.raises(ConstraintViolationError, match="mail"):
        graph.write_back(twice, "Person", columns=["mail"])
    assert files(Path(graph.root)) == before


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (["id"], InvalidOptionError),
        (["name"], InvalidOptionError),
        (["age", "name"], InvalidOptionError),
        ([], InvalidOptionError),
        (["shoe"], ColumnNotFoundError),
        (["mail"], SchemaMismatchError),
    ],
    ids=["the id", "the key", "a key among others", "none", "no such column", "not given"],
)
def test_columns_that_cannot_be_written_back_are_refused(
    graph: og.Graph, columns: list[str], error: type[Exception]
) -> None:
    before = files(Path(graph.root))
    with pytest.raises(error):
        graph.write_back(people(Ann=1), "Person", columns=columns)
    assert files(Path(graph.root)) == before


def test_a_branch_that_is_missing_is_not_made_unasked(graph: og.Graph) -> None:
    with pytest.raises(BranchNotFoundError):
        graph.write_back(people(Ann=1), "Person", columns=["age"], branch="analytics")


def test_many_types_are_written_back_in_one_commit(graph: og.Graph) -> None:
    commit = transact(
        graph,
        lambda tx: tx.write_back("Person", people(Ann=1), ["age"]),
        lambda tx: tx.write_back("Note", pa.table({"id": ["n1"], "text": ["t"]}), ["text"]),
    )
    assert commit is not None
    assert set(commit.changes) == {PERSON, "node:Note"}


def test_a_type_is_merged_or_written_back_in_one_transaction(graph: og.Graph) -> None:
    with pytest.raises(UnsupportedError, match="one transaction"):
        transact(
            graph,
            lambda tx: tx.merge("Person", people(Zoe=1), columns=["age"]),
            lambda tx: tx.write_back("Person", people(Ann=1), columns=["age"]),
        )


def test_an_id_deleted_meanwhile_fails_the_write(graph: og.Graph) -> None:
    other = og.open(graph.root)
    with pytest.raises(ConstraintViolationError, match="'Cid' does not exist"):
        transact(
            graph,
            lambda tx: tx.write_back("Person", people(Cid=1), columns=["age"]),
            lambda _: other.delete("Person", ids=["Cid"]),
        )
    assert_whole(graph)
