"""Graphs from rows alone, checks without a write, interchange records: without Spark."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    ConstraintViolationError,
    GraphExistsError,
    InvalidRecordsError,
    SchemaMismatchError,
)
from tests.engine.recovering import fail

PEOPLE = pa.table({"name": ["ann", "bob"], "age": pa.array([1, None], pa.int32())})
KNOWS = pa.table({"src": ["ann"], "dst": ["bob"]})
SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique  @range(age, 0..99) }
edge Knows: Person -> Person
"""


def listing(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_rows_become_a_graph_in_one_commit(tmp_path: Path) -> None:
    graph = og.create_from_frames(
        tmp_path / "g",
        nodes={"Person": PEOPLE, "City": pd.DataFrame({"name": ["oslo"], "people": [7.5]})},
        edges={"Knows": (KNOWS, "Person", "Person")},
        keys={"Person": "name"},
    )
    assert len(graph.history()) == 2, "the creation, and one commit for all rows"
    assert graph.snapshot().arrow("Person", columns=["id", "age"]).to_pylist() == [
        {"id": "ann", "age": 1},
        {"id": "bob", "age": None},
    ]
    assert graph.snapshot().arrow("City", columns=["name", "people"]).to_pylist() == [
        {"name": "oslo", "people": 7.5}
    ]
    assert graph.snapshot().rows("Knows") == 1


def create_in_vain(root: Path) -> None:
    """Make a graph whose rows are refused."""
    astray = pa.table({"src": ["ann"], "dst": ["nobody"]})
    with pytest.raises(ConstraintViolationError, match="'nobody'"):
        og.create_from_frames(
            root,
            nodes={"Person": PEOPLE},
            edges={"Knows": (astray, "Person", "Person")},
            keys={"Person": "name"},
        )


def test_when_the_load_fails_nothing_of_the_graph_stays(tmp_path: Path) -> None:
    root = tmp_path / "g"
    create_in_vain(root)
    assert not root.exists() or listing(root) == []
    og.create_from_frames(root, nodes={"Person": PEOPLE}, keys={"Person": "name"})


def test_what_another_commits_to_a_new_graph_whose_load_fails_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right before the new graph is taken back under its lock."""
    root = tmp_path / "g"
    # By its name, because the package's `create` is a function.
    create = import_module("omnigraph_spark.create")
    real = create.writer_lock

    def later(*held: Any) -> AbstractContextManager[None]:
        og.open(root).write(PEOPLE, "Person")
        return real(*held)

    monkeypatch.setattr(create, "writer_lock", later)
    create_in_vain(root)
    assert og.open(root).snapshot().rows("Person") == 2


def test_a_graph_that_cannot_be_taken_back_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its manifest is what makes it a graph: as long as that is there, all else is."""
    for method in ("delete", "delete_below"):
        fail(monkeypatch, method, "__manifest")
    with pytest.warns(UserWarning, match="the new graph stayed behind"):
        create_in_vain(tmp_path / "g")
    monkeypatch.undo()
    graph = og.open(tmp_path / "g")
    assert [graph.snapshot().rows(key) for key in graph.entries] == [0, 0]
    assert graph.write(PEOPLE, "Person") is not None


def test_a_column_that_no_graph_holds_is_named_before_anything_is_made(tmp_path: Path) -> None:
    odd = pa.table({"name": ["x"], "parts": [{"a": 1}]})
    with pytest.raises(SchemaMismatchError, match="column 'parts' of Thing"):
        og.create_from_frames(tmp_path / "g", nodes={"Thing": odd})
    assert not (tmp_path / "g").exists()


def test_a_graph_that_is_there_is_not_touched(tmp_path: Path) -> None:
    og.create(tmp_path / "g", SCHEMA)
    before = listing(tmp_path / "g")
    with pytest.raises(GraphExistsError):
        og.create_from_frames(tmp_path / "g", nodes={"Person": PEOPLE})
    assert listing(tmp_path / "g") == before


def test_a_check_lists_all_violations_and_writes_nothing(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", SCHEMA)
    graph.write(PEOPLE, "Person")
    before = listing(tmp_path / "g")
    broken = pa.table({"name": ["x", None, "z"], "age": pa.array([100, 5, -1], pa.int32())})
    rules = {(found.rule, found.column, found.count) for found in graph.check(broken, "Person")}
    assert rules == {("range", "age", 2), ("required", "name", 1)}
    twice = pa.table({"name": ["ann", "x", "x", "y"], "mail": ["m", "n", "n", "m"]})
    found = {each.rule: each.ids for each in graph.check(twice, "Person")}
    assert found == {"exists": ("ann",), "duplicate": ("x",), "unique": ("ann", "y")}
    assert graph.check(twice.slice(3), "Person", mode="merge") == []
    assert listing(tmp_path / "g") == before
    assert len(graph.refresh().history()) == 2


def test_records_are_loaded_in_one_commit_and_exported_again(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", SCHEMA)
    lines = [
        '{"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k"}}',
        '{"type": "Person", "data": {"name": "ann", "age": 4}}',
        '{"type": "Person", "data": {"name": "bob"}}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    commit = graph.load_jsonl(tmp_path / "in.jsonl")
    assert commit is not None
    assert set(commit.changes) == {"node:Person", "edge:Knows"}
    rows = graph.export_jsonl(tmp_path / "out.jsonl")
    assert rows == {"node:Person": 2, "edge:Knows": 1}
    other = og.create(tmp_path / "h", SCHEMA)
    other.load_jsonl(tmp_path / "out.jsonl", mode="merge")
    assert other.snapshot().arrow("Person").equals(graph.snapshot().arrow("Person"))
    graph.create_branch("dev")
    graph.load_jsonl('{"type": "Person", "data": {"name": "cy"}}', branch="dev")
    assert graph.export_jsonl(tmp_path / "dev.jsonl", branch="dev")["node:Person"] == 3


def test_bad_records_and_bad_rows_leave_nothing(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", SCHEMA)
    before = listing(tmp_path / "g")
    with pytest.raises(InvalidRecordsError):
        graph.load_jsonl('{"type": "Persn", "data": {}}')
    bad = [
        '{"type": "Person", "data": {"name": "ann"}}',
        '{"edge": "Knows", "from": "x", "to": "y"}',
    ]
    with pytest.raises(ConstraintViolationError):
        graph.load_jsonl(bad)
    with pytest.raises(ConstraintViolationError, match="range"):
        graph.load_jsonl('{"type": "Person", "data": {"name": "ann", "age": 100}}')
    assert listing(tmp_path / "g") == before
