"""Every refused write leaves the graph as it was, byte for byte: no row, no file, no branch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    BranchNotFoundError,
    ColumnNotFoundError,
    ConflictingOptionsError,
    ConstraintViolationError,
    DriftError,
    ExpectedVersionError,
    HeadMovedError,
    InvalidFilterError,
    InvalidNameError,
    InvalidOptionError,
    KeyConflictError,
    MixedModesError,
    SchemaApplyInProgressError,
    SchemaMismatchError,
    TypeNotFoundError,
    UnsupportedError,
)
from omnigraph_spark.names import SCHEMA_APPLY_LOCK
from tests.engine.writing import COMPANY, PERSON, edges, files, heads, people, transact
from tests.helpers.builder import GraphBuilder

pytestmark = pytest.mark.slow

Write = Callable[[og.Graph], object]
NO_COMMIT = "01M7H9HTBYP3Y9T01G8JF1JW87"


def rows(**columns: list[object]) -> pa.Table:
    return pa.table(columns)


def breaking(*_: object) -> Iterator[pa.RecordBatch]:
    yield from people(Dan=1).to_batches()
    raise OSError("gone")


REFUSED: dict[str, tuple[type[BaseException], Write]] = {
    "unknown type": (TypeNotFoundError, lambda g: g.write(people(x=1), "Persn")),
    "type of the wrong kind": (TypeNotFoundError, lambda g: g.write(people(x=1), "edge:Person")),
    "unknown column": (
        ColumnNotFoundError,
        lambda g: g.write(rows(name=["x"], shoe=[1]), "Person"),
    ),
    "no key column": (SchemaMismatchError, lambda g: g.write(rows(age=[1]), "Person")),
    "no ends": (SchemaMismatchError, lambda g: g.write(rows(id=["k9"]), "Knows")),
    "text for a number": (
        SchemaMismatchError,
        lambda g: g.write(rows(name=["x"], age=["y"]), "Person"),
    ),
    "no table": (UnsupportedError, lambda g: g.write([1, 2], "Person")),
    "null key": (ConstraintViolationError, lambda g: g.write(rows(name=["x", None]), "Person")),
    "out of range": (ConstraintViolationError, lambda g: g.write(people(x=1, y=999), "Person")),
    "no word of the enum": (
        ConstraintViolationError,
        lambda g: g.write(rows(name=["x"], size=["huge"]), "Company"),
    ),
    "wrong vector": (
        ConstraintViolationError,
        lambda g: g.write(rows(text=["x"], mood=[[1.0]]), "Note"),
    ),
    "id twice": (ConstraintViolationError, lambda g: g.write(rows(name=["x", "x"]), "Person")),
    "id exists": (KeyConflictError, lambda g: g.write(people(Ann=1, x=2), "Person")),
    "id exists on the branch": (
        KeyConflictError,
        lambda g: g.write(people(Devi=1), "Person", branch="dev"),
    ),
    "unique twice": (
        ConstraintViolationError,
        lambda g: g.write(rows(name=["x", "y"], mail=["m", "m"]), "Person"),
    ),
    "unique taken": (
        ConstraintViolationError,
        lambda g: g.write(rows(name=["x"], mail=["devi@x"]), "Person", branch="dev"),
    ),
    "unique group": (
        ConstraintViolationError,
        lambda g: g.write(rows(name=["x", "y"], city=["c", "c"], street=["s", "s"]), "Company"),
    ),
    "no source": (ConstraintViolationError, lambda g: g.write(edges(k9="x-Ann"), "Knows")),
    "no target": (ConstraintViolationError, lambda g: g.write(edges(k9="Ann-x"), "Knows")),
    "target on another branch": (
        ConstraintViolationError,
        lambda g: g.write(edges(k9="Ann-Devi"), "Knows"),
    ),
    "too many edges": (ConstraintViolationError, lambda g: g.write(edges(w="Ann-Acme"), "WorksAt")),
    "too few edges": (ConstraintViolationError, lambda g: g.delete("Owns", ids=["o1"])),
    "stranded edges": (
        ConstraintViolationError,
        lambda g: g.write(people(Ann=1), "Person", mode="overwrite"),
    ),
    "one good type and one bad": (
        ConstraintViolationError,
        lambda g: transact(
            g,
            lambda tx: tx.merge("Note", rows(text=["x"], payload=[b"y" * 100])),
            lambda tx: tx.append("Knows", edges(k9="Ann-x")),
        ),
    ),
    "adds and deletes": (
        MixedModesError,
        lambda g: transact(
            g,
            lambda tx: tx.append("Person", people(x=1)),
            lambda tx: tx.delete("Knows", ids=["k1"]),
        ),
    ),
    "two modes of a type": (
        UnsupportedError,
        lambda g: transact(
            g,
            lambda tx: tx.append("Person", people(x=1)),
            lambda tx: tx.merge("Person", people(y=1)),
        ),
    ),
    "unknown mode": (InvalidOptionError, lambda g: g.write(people(x=1), "Person", mode="upsert")),
    "columns of an append": (
        ConflictingOptionsError,
        lambda g: g.write(people(x=1), "Person", merge_columns=["age"]),
    ),
    "columns of a new row": (
        ConstraintViolationError,
        lambda g: g.write(rows(id=["x"], age=[1]), "Person", mode="merge", merge_columns=["age"]),
    ),
    "another head": (
        HeadMovedError,
        lambda g: g.write(people(x=1), "Person", if_graph_commit=NO_COMMIT),
    ),
    "another head of a new branch": (
        HeadMovedError,
        lambda g: g.write(
            people(x=1), "Person", branch="new", create_from="main", if_graph_commit=NO_COMMIT
        ),
    ),
    "other versions": (
        ExpectedVersionError,
        lambda g: g.write(people(x=1), "Person", expected_table_versions={COMPANY: 9}),
    ),
    "other versions of a new branch": (
        ExpectedVersionError,
        lambda g: g.write(
            people(x=1),
            "Person",
            branch="new",
            create_from="dev",
            expected_table_versions={PERSON: 9},
        ),
    ),
    "a broken rule on a new branch": (
        ConstraintViolationError,
        lambda g: g.write(edges(k9="Ann-x"), "Knows", branch="new", create_from="main"),
    ),
    "unknown branch": (
        BranchNotFoundError,
        lambda g: g.write(people(x=1), "Person", branch="nowhere"),
    ),
    "unknown origin": (
        BranchNotFoundError,
        lambda g: g.write(people(x=1), "Person", branch="new", create_from="nowhere"),
    ),
    "no name of a branch": (
        InvalidNameError,
        lambda g: g.write(people(x=1), "Person", branch="a//b", create_from="main"),
    ),
    "a name that Lance cannot hold": (
        InvalidNameError,
        lambda g: g.write(people(x=1), "Person", branch="dev/data", create_from="main"),
    ),
    "an actor of the engine": (
        InvalidNameError,
        lambda g: g.write(people(x=1), "Person", actor="omnigraph:me"),
    ),
    "half a pair": (
        ConflictingOptionsError,
        lambda g: g.write(people(x=1), "Person", txn_app_id="job"),
    ),
    "no condition": (InvalidFilterError, lambda g: g.delete("Person", where="agee > 3")),
    "a condition that fails": (
        InvalidFilterError,
        lambda g: g.delete("Person", where="cast(name as int) > 3"),
    ),
    "a null id to delete": (ConstraintViolationError, lambda g: g.delete("Person", ids=[None])),
    "opened for reading": (
        UnsupportedError,
        lambda g: og.open(g.root, mode="r").write(people(x=1), "Person"),
    ),
    "rows that stop coming": (
        OSError,
        lambda g: g.write(
            pa.RecordBatchReader.from_batches(people().schema, breaking()), "Person", mode="merge"
        ),
    ),
    "ahead of its pin": (DriftError, lambda g: g.write(rows(text=["x"]), "Note", mode="merge")),
    "ahead of its pin, beside a good type": (
        DriftError,
        lambda g: transact(
            g,
            lambda tx: tx.merge("Company", rows(name=["Acme", "x"])),
            lambda tx: tx.append("Note", rows(text=["x"])),
        ),
    ),
}


@pytest.fixture(scope="module")
def busy(staffed_root: Path, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph with a branch of its own rows and a dataset that somebody wrote to by hand."""
    root = shutil.copytree(staffed_root, tmp_path_factory.mktemp("refused") / "g")
    graph = og.open(root)
    devi = pa.table({"name": ["Devi"], "mail": ["devi@x"]})
    graph.write(devi, "Person", branch="dev", create_from="main")
    GraphBuilder.open(root).append("node:Note", [{"text": "stray"}])
    return graph


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_write_leaves_no_trace(busy: og.Graph, what: str) -> None:
    error, write = REFUSED[what]
    root = Path(busy.root)
    before = files(root), heads(busy), heads(busy.as_branch("dev"))
    with pytest.raises(error):
        write(busy)
    assert (files(root), heads(busy), heads(busy.as_branch("dev"))) == before
    assert [branch.name for branch in busy.branches()] == ["dev", "main"]


def test_after_all_of_them_a_write_works(busy: og.Graph) -> None:
    for branch in ("main", "dev"):
        graph = busy.as_branch(branch)
        assert graph.write(people(Last=1), "Person") is not None
        assert graph.write(edges(last="Last-Ann"), "Knows") is not None


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_nothing_is_written_while_a_schema_change_holds_its_lock(
    busy: og.Graph, branch: str
) -> None:
    """RS-31, and what a dead schema change leaves: every writer is refused, readers are not."""
    root = Path(busy.root)
    manifest = lance.dataset(str(root / "__manifest"))
    manifest.create_branch(SCHEMA_APPLY_LOCK)
    graph = busy.as_branch(branch)
    before, rows = files(root), graph.snapshot().rows("Person")
    for write in (
        lambda: graph.write(people(x=1), "Person"),
        lambda: graph.delete("Person", ids=["Ann"]),
        lambda: graph.write(people(x=1), "Person", branch="new", create_from="main"),
        lambda: graph.create_branch("new"),
        lambda: busy.delete_branch("dev"),
    ):
        with pytest.raises(SchemaApplyInProgressError):
            write()
    assert files(root) == before
    assert graph.snapshot().arrow("Person").num_rows == rows
    manifest.branches.delete(SCHEMA_APPLY_LOCK)
    assert graph.write(people(**{f"after_{branch}": 1}), "Person") is not None
