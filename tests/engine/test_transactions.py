"""Transactions: many types in one commit or none, in every mode, and what the receipt says."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    ColumnNotFoundError,
    ConflictError,
    ConflictingOptionsError,
    ConstraintViolationError,
    InvalidFilterError,
    InvalidNameError,
    InvalidOptionError,
    KeyConflictError,
    MixedModesError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.formats.profile import ChangeSummary
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage import fresh_rows
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile
from omnigraph_spark.writing import preparing
from omnigraph_spark.writing import write as writing
from omnigraph_spark.writing.landing import Prepared
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.stage import StageResult
from omnigraph_spark.writing.terms import WriteTerms
from omnigraph_spark.writing.violations import Violation
from omnigraph_spark.writing.write import Write
from tests.engine.writing import (
    ABOUT,
    COMPANY,
    KNOWS,
    NOTE,
    OWNS,
    PERSON,
    WORKS_AT,
    ages,
    all_ids,
    assert_whole,
    data_files,
    edges,
    files,
    heads,
    ids,
    people,
    transact,
)

NO_PEOPLE = people()
NO_EDGES = edges()


def summary(commit: og.Commit | None, key: str) -> tuple[str, int, int, int, int]:
    """Mode, rows now, and how many came, changed and went."""
    assert commit is not None
    found = commit.changes[key]
    return found.mode, found.rows, found.inserted, found.updated, found.deleted


# -- all or nothing --------------------------------------------------------------------------------


def test_several_types_become_visible_together_and_nothing_before(graph: og.Graph) -> None:
    before = heads(graph)
    with graph.transaction() as tx:
        tx.append("Knows", edges(k4="Dan-Eve", k5="Eve-Ann"))
        tx.append("Person", people(Dan=1, Eve=2))
        tx.append("Company", pa.table({"name": ["Globex"]}))
        tx.append("Person", people(Fay=3))
        assert heads(og.open(graph.root)) == before
        assert tx.commit is None

    assert tx.commit is not None
    assert tx.commit.manifest_version == before["__manifest"] + 1
    assert heads(graph) == before | {
        "__manifest": before["__manifest"] + 1,
        PERSON: (3, 3),
        COMPANY: (3, 3),
        KNOWS: (3, 3),
    }
    assert ids(graph, "Person") == ["Ann", "Bob", "Cid", "Dan", "Eve", "Fay"]
    assert ids(graph, "Knows") == ["k1", "k2", "k3", "k4", "k5"]
    assert graph.history(1) == [tx.commit]
    assert_whole(graph)


def test_a_reader_keeps_its_snapshot_while_a_transaction_commits(graph: og.Graph) -> None:
    reader = og.open(graph.root)
    before = all_ids(reader)
    graph.write(people(Dan=1), "Person")
    graph.delete("Person", ids=["Ann"])
    assert all_ids(reader) == before
    assert ids(reader.refresh(), "Person") == ["Bob", "Cid", "Dan"]


def test_an_exception_inside_a_transaction_leaves_nothing(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    staged: list[int] = []

    def fail(_: og.Transaction) -> None:
        staged.append(len(files(Path(graph.root))) - len(before))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        transact(
            graph,
            lambda tx: tx.append("Person", people(Dan=1)),
            lambda tx: tx.merge("Note", pa.table({"text": ["x"], "payload": [b"blob" * 99]})),
            fail,
        )
    assert staged[0] >= 2
    assert files(Path(graph.root)) == before


def test_rows_that_fail_to_come_leave_nothing_of_any_type(graph: og.Graph) -> None:
    """RS-68 without Spark: the second input of a transaction breaks half way."""

    def half() -> Iterator[pa.RecordBatch]:
        yield from people(Dan=1).to_batches()
        raise OSError("the source is gone")

    before = files(Path(graph.root))
    rows = pa.RecordBatchReader.from_batches(NO_PEOPLE.schema, half())
    with pytest.raises(OSError, match="the source is gone"):
        transact(
            graph,
            lambda tx: tx.append("Company", pa.table({"name": ["Globex"]})),
            lambda tx: tx.append("Person", rows),
        )
    assert files(Path(graph.root)) == before


BROKEN: dict[str, tuple[str, str, pa.Table, str]] = {
    "an edge without an end": ("Knows", "append", edges(x="Ann-Nobody"), "endpoint on edge:Knows"),
    "a value that is taken": (
        "Person",
        "append",
        pa.table({"name": ["Dan", "Eve"], "mail": ["m", "m"]}),
        "unique on node:Person.mail",
    ),
    "values that are taken together": (
        "Company",
        "merge",
        pa.table({"name": ["A", "B"], "city": ["x", "x"], "street": ["y", "y"]}),
        "unique on node:Company.city, street",
    ),
    "too many edges": ("WorksAt", "append", edges(x="Ann-Umbra"), "cardinality on edge:WorksAt"),
    "too few edges": ("Owns", "overwrite", NO_EDGES, "cardinality on edge:Owns"),
    "an edge that loses its end": ("Person", "overwrite", people(Ann=1), "is no longer in Person"),
    "the same id twice": ("Person", "merge", people(Dan=1), "duplicate on node:Person"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_rule_leaves_nothing_of_any_type_and_the_next_write_works(
    graph: og.Graph, what: str
) -> None:
    """RS-08."""
    type, mode, rows, words = BROKEN[what]
    root, before, versions = Path(graph.root), files(Path(graph.root)), heads(graph)
    broken = [lambda tx: tx.apply(WriteMode(mode), type, rows)]
    with pytest.raises(ConstraintViolationError, match=words):
        transact(
            graph,
            lambda tx: tx.append("Note", pa.table({"text": ["fine"]})),
            *broken * (2 if what == "the same id twice" else 1),
        )
    assert files(root) == before
    assert heads(graph) == versions

    with graph.transaction() as tx:
        tx.append("Note", pa.table({"id": ["n2"], "text": ["fine"]}))
        tx.append("Person", people(Dan=1))
    assert ids(graph, "Note") == ["n1", "n2"]
    assert_whole(graph)


def test_a_transaction_without_writes_is_no_commit(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    with graph.transaction() as tx:
        pass
    assert tx.commit is None
    assert files(Path(graph.root)) == before


def test_a_transaction_that_has_ended_takes_no_more_rows(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.append("Person", people(Dan=1))
    after = files(Path(graph.root))
    for late in (
        lambda: tx.append("Person", people(Eve=1)),
        lambda: tx.delete("Person", where="age > 3"),
        tx.__enter__,
    ):
        with pytest.raises(UnsupportedError, match="has ended"):
            late()
    assert files(Path(graph.root)) == after


def test_an_input_that_is_refused_leaves_nothing_behind_when_the_caller_goes_on(
    graph: og.Graph,
) -> None:
    with graph.transaction() as tx:
        tx.append("Person", people(Dan=1))
        with pytest.raises(ConstraintViolationError, match="range"):
            tx.append("Person", people(Eve=1, Fay=999))
    assert ids(graph, "Person") == ["Ann", "Bob", "Cid", "Dan"]


def test_of_an_input_in_parts_none_is_kept_when_one_is_refused(graph: og.Graph) -> None:
    reader = GraphReader.open(graph.root, StorageSettings())
    write = Write(reader, "main", WriteTerms())
    task = write.task("Person", WriteMode.APPEND)
    good = task.run(people(Dan=1).to_batches())
    bad = task.run(people(Eve=999).to_batches())
    [staged] = good.files
    with pytest.raises(ConstraintViolationError):
        write.add("Person", task, [good, bad])
    assert not [name for name in data_files(Path(graph.root)) if name.endswith(staged.path)]
    assert write.changes == {}


def test_all_that_is_wrong_is_said_at_once(graph: og.Graph) -> None:
    twice = pa.table({"name": ["Dan", "Dan"], "mail": ["m", "m"]})
    with pytest.raises(ConstraintViolationError) as caught:
        transact(
            graph,
            lambda tx: tx.append("Knows", edges(x="Ann-Nobody", y="Nobody-Ann")),
            lambda tx: tx.append("WorksAt", edges(z="Ann-Umbra")),
            lambda tx: tx.append("Person", twice),
            lambda tx: tx.append("Person", pa.table({"name": ["Eve"], "mail": ["m"]})),
        )
    assert sorted(text.partition(": ")[0] for text in caught.value.violations) == [
        "cardinality on edge:WorksAt.src",
        "duplicate on node:Person.id",
        "endpoint on edge:Knows.dst",
        "endpoint on edge:Knows.src",
        "unique on node:Person.mail",
    ]


def test_ten_ids_are_shown_and_the_others_counted(graph: og.Graph) -> None:
    names = {f"e{number:03}": "Ann-Nobody" for number in range(250)}
    with pytest.raises(ConstraintViolationError) as caught:
        graph.write(edges(**names), "Knows")
    [text] = caught.value.violations
    assert "'e000'" in text
    assert "'e009'" in text
    assert "'e010'" not in text
    assert "240 more" in text


# -- what goes in ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [
        lambda table: table,
        lambda table: table.to_reader(),
        lambda table: table.combine_chunks().to_batches()[0],
        lambda table: table.select(["name"]).to_pandas(),
    ],
    ids=["table", "reader", "batch", "pandas"],
)
def test_rows_come_in_every_shape(graph: og.Graph, shape: Callable[[pa.Table], Any]) -> None:
    graph.write(shape(people(Dan=1, Eve=None)), "Person")
    assert ids(graph, "Person") == ["Ann", "Bob", "Cid", "Dan", "Eve"]


@pytest.mark.parametrize("rows", [[{"name": "Dan"}], {"name": ["Dan"]}, "Dan", None, 3])
def test_what_is_no_table_is_refused_with_what_would_do(graph: og.Graph, rows: object) -> None:
    with pytest.raises(UnsupportedError, match="pyarrow Table"):
        graph.write(rows, "Person")


def test_every_kind_of_value_comes_back_as_it_was_written(graph: og.Graph) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "full", "text": "é\0", "tags": ["a", "b"], "mood": [0.5, -1.0], "payload": b"\0\1"},
        {"id": "empty", "text": "", "tags": [], "mood": [0.0, 0.0], "payload": b""},
        {"id": "null", "text": "x", "tags": None, "mood": None, "payload": None},
    ]
    for mode in ("append", "merge", "overwrite"):
        graph.delete("About", where="true")
        graph.delete("Note", where="true")
        graph.write(pa.Table.from_pylist(rows), "Note", mode=mode)
        found = graph.snapshot().arrow("Note", blobs="bytes").to_pylist()
        assert sorted(found, key=lambda row: str(row["id"])) == sorted(
            rows, key=lambda row: str(row["id"])
        ), mode


def test_ids_are_made_where_none_are_given(graph: og.Graph) -> None:
    graph.write(pa.table({"text": ["a", "b"]}), "Note")
    made = [id_ for id_ in ids(graph, "Note") if id_ != "n1"]
    assert len(set(made)) == 2
    assert {len(id_) for id_ in made} == {26}


def test_edges_take_from_and_to_for_their_ends(graph: og.Graph) -> None:
    since = pa.array([dt.date(2020, 1, 2)])
    graph.write(pa.table({"from": ["Ann"], "to": ["Cid"], "since": since}), "Knows")
    [new] = graph.snapshot().arrow("Knows", where="since is not null").to_pylist()
    assert (new["src"], new["dst"]) == ("Ann", "Cid")


def test_a_file_has_at_most_so_many_rows(graph: og.Graph) -> None:
    graph.write(people(**{f"p{n:02}": n for n in range(10)}), "Person", max_rows_per_file=4)
    entry = graph.entries[PERSON]
    data = {name for name in data_files(Path(graph.root)) if name.startswith(entry.path)}
    assert len(data) == 1 + 3
    assert_whole(graph)


# -- modes -----------------------------------------------------------------------------------------


def test_the_receipt_says_what_every_mode_did(graph: og.Graph) -> None:
    appended = graph.write(people(Dan=1, Eve=2), "Person")
    assert summary(appended, PERSON) == ("append", 5, 2, 0, 0)
    merged = graph.write(people(Dan=10, Eve=20, Fay=30), "Person", mode="merge")
    assert summary(merged, PERSON) == ("merge", 6, 1, 2, 0)
    replaced = graph.write(edges(k9="Ann-Bob"), "Knows", mode="overwrite")
    assert summary(replaced, KNOWS) == ("overwrite", 1, 1, 0, 3)
    deleted = graph.delete("Person", ids=["Ann", "Fay"])
    assert deleted is not None
    assert {key: summary(deleted, key) for key in deleted.changes} == {
        PERSON: ("delete", 4, 0, 0, 2),
        KNOWS: ("delete", 0, 0, 0, 1),
        WORKS_AT: ("delete", 0, 0, 0, 1),
        ABOUT: ("delete", 0, 0, 0, 1),
    }
    for key, change in deleted.changes.items():
        entry = graph.entries[key]
        assert (entry.dataset_version, entry.rows) == (change.dataset_version, change.rows)
    assert deleted.changes[PERSON] == ChangeSummary("delete", 5, 4, deleted=2)
    assert (deleted.actor, deleted.branch) == ("ann", "main")
    assert graph.history(1) == [deleted]
    assert_whole(graph)


def test_many_types_and_modes_in_one_receipt(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.append("Person", people(Dan=1))
        tx.merge("Company", pa.table({"name": ["Acme", "Globex"]}))
        tx.overwrite("Knows", edges(k9="Dan-Ann"))
    assert tx.commit is not None
    assert {key: summary(tx.commit, key) for key in tx.commit.changes} == {
        PERSON: ("append", 4, 1, 0, 0),
        COMPANY: ("merge", 3, 1, 1, 0),
        KNOWS: ("overwrite", 1, 1, 0, 3),
    }
    assert_whole(graph)


@pytest.mark.parametrize("mode", ["append", "merge", "delete"])
def test_no_rows_are_no_commit(graph: og.Graph, mode: str) -> None:
    """RS-05."""
    before = files(Path(graph.root))
    assert graph.write(NO_PEOPLE, "Person", mode=mode) is None
    assert graph.write(NO_PEOPLE.to_reader(), "Person", mode=mode) is None
    assert files(Path(graph.root)) == before


def test_an_overwrite_without_rows_empties_the_type(graph: og.Graph) -> None:
    """RS-05."""
    commit = graph.write(NO_EDGES, "Knows", mode="overwrite")
    assert summary(commit, KNOWS) == ("overwrite", 0, 0, 0, 3)
    assert ids(graph, "Knows") == []
    before = files(Path(graph.root))
    assert graph.write(NO_EDGES, "Knows", mode="overwrite") is None, "nothing instead of nothing"
    assert files(Path(graph.root)) == before
    graph.write(edges(k1="Ann-Bob"), "Knows")
    assert_whole(graph)


def test_columns_that_do_not_fit_are_refused_without_rows_too(graph: og.Graph) -> None:
    with pytest.raises(ColumnNotFoundError, match="nickname"):
        graph.write(pa.table({"nickname": pa.array([], pa.string())}), "Person")


def test_a_type_may_come_in_several_parts(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.merge("Person", people(Ann=1))
        tx.merge("Person", people(Dan=2))
        tx.merge("Person", NO_PEOPLE)
    assert summary(tx.commit, PERSON) == ("merge", 4, 1, 1, 0)
    assert ages(graph) == {"Ann": 1, "Bob": 41, "Cid": None, "Dan": 2}


def test_one_type_has_one_mode_and_the_same_columns(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    for second in (
        lambda tx: tx.merge("Person", people(Eve=1)),
        lambda tx: tx.overwrite("node:Person", people(Eve=1)),
        lambda tx: tx.merge("Person", people(Eve=1), columns=["age"]),
    ):
        with pytest.raises(UnsupportedError, match="one mode"):
            transact(graph, lambda tx: tx.append("Person", people(Dan=1)), second)
    with pytest.raises(UnsupportedError, match="same columns"):
        transact(
            graph,
            lambda tx: tx.merge("Person", people(Ann=1), columns=["age"]),
            lambda tx: tx.merge("Person", people(Bob=1)),
        )
    assert files(Path(graph.root)) == before


def test_one_transaction_adds_or_deletes_and_the_error_says_to_split_it(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    for first, second in (
        (lambda tx: tx.append("Person", people(Dan=1)), lambda tx: tx.delete("Knows", ids=["k1"])),
        (lambda tx: tx.delete("Knows", ids=["k1"]), lambda tx: tx.merge("Person", people(Dan=1))),
        (lambda tx: tx.delete("Knows", where="true"), lambda tx: tx.overwrite("Note", NO_PEOPLE)),
    ):
        with pytest.raises(MixedModesError, match="split it into two"):
            transact(graph, first, second)
    assert files(Path(graph.root)) == before


@pytest.mark.parametrize("mode", ["upsert", "APPEND", "", "ignore"])
def test_an_unknown_mode_is_refused(graph: og.Graph, mode: str) -> None:
    with pytest.raises(InvalidOptionError, match="append or merge or overwrite or delete"):
        graph.write(people(Dan=1), "Person", mode=mode)


# -- append ----------------------------------------------------------------------------------------


def test_an_append_of_an_id_that_exists_is_a_key_conflict(graph: og.Graph) -> None:
    with pytest.raises(KeyConflictError, match="'Ann', 'Bob'"):
        graph.write(people(Ann=1, Bob=2, Dan=3), "Person")
    with pytest.raises(KeyConflictError, match="'k1'"):
        graph.write(edges(k1="Ann-Bob"), "Knows")
    assert ages(graph)["Ann"] == 30


def test_an_id_may_come_back_after_its_row_was_deleted(graph: og.Graph) -> None:
    graph.delete("Person", ids=["Ann"])
    graph.write(people(Ann=31), "Person")
    assert ages(graph)["Ann"] == 31
    assert_whole(graph)


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_the_same_id_twice_is_refused_in_one_input_and_across_inputs(
    graph: og.Graph, mode: str
) -> None:
    """RS-06."""
    twice = pa.table({"name": ["Dan", "Eve", "Dan"]})
    before = files(Path(graph.root))
    with pytest.raises(ConstraintViolationError, match=r"duplicate on node:Person\.id: id 'Dan'"):
        graph.write(twice, "Person", mode=mode)
    with pytest.raises(ConstraintViolationError, match="duplicate"):
        transact(graph, *[lambda tx: tx.apply(WriteMode(mode), "Person", people(Dan=1))] * 2)
    # Parts of one input, as partitions are.
    with pytest.raises(ConstraintViolationError, match="duplicate"):
        graph.write(twice, "Person", mode=mode, max_rows_per_file=1)
    assert files(Path(graph.root)) == before


ROWS = {
    "a null key": ("Person", {"name": [None]}, "required on node:Person.name"),
    "a required value that is null": ("Note", {"text": [None]}, "required on node:Note.text"),
    "a value out of range": ("Person", {"name": ["x"], "age": [151]}, "range on node:Person.age"),
    "a value of no pattern": (
        "Person",
        {"name": ["x"], "code": ["X1"]},
        "check on node:Person.code",
    ),
    "a word that is not of the enum": (
        "Company",
        {"name": ["x"], "size": ["huge"]},
        "enum on node:Company.size",
    ),
    "a number that does not fit": (
        "Person",
        {"name": ["x"], "age": [2**40]},
        "on node:Person.age",
    ),
    "a vector of the wrong length": (
        "Note",
        {"text": ["x"], "mood": [[1.0, 2.0, 3.0]]},
        "on node:Note.mood",
    ),
    "a vector that is not finite": (
        "Note",
        {"text": ["x"], "mood": [[1.0, float("nan")]]},
        "on node:Note.mood",
    ),
    "an id that is not the key": (
        "Person",
        {"name": ["x"], "id": ["y"]},
        "id on node:Person.id",
    ),
    "an edge without a source": (
        "Knows",
        {"src": [None], "dst": ["Ann"]},
        "required on edge:Knows.src",
    ),
}


@pytest.mark.parametrize("what", ROWS)
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_row_that_breaks_a_rule_by_itself_is_refused(
    graph: og.Graph, what: str, mode: str
) -> None:
    """RS-07."""
    type, columns, words = ROWS[what]
    before = files(Path(graph.root))
    with pytest.raises(ConstraintViolationError, match=words):
        graph.write(pa.table(columns), type, mode=mode)
    assert files(Path(graph.root)) == before


def test_rows_that_break_rules_are_all_listed(graph: og.Graph) -> None:
    rows = pa.table({"name": ["a", "b", "c"], "age": [151, 1, -1], "code": ["x", "Y", "Z"]})
    with pytest.raises(ConstraintViolationError) as caught:
        graph.write(rows, "Person")
    assert sorted(caught.value.violations) == [
        "check on node:Person.code: no match of '^[a-z]+$': 'b', 'c'",
        "range on node:Person.age: the value is not between 0 and 150: 'a', 'c'",
    ]


# -- merge -----------------------------------------------------------------------------------------


def test_a_merge_replaces_whole_rows(graph: og.Graph) -> None:
    graph.write(pa.table({"name": ["Ann"], "mail": ["ann@x"]}), "Person", mode="merge")
    assert graph.entity("Person", "Ann") == {
        "id": "Ann",
        "age": None,
        "code": None,
        "mail": "ann@x",
        "name": "Ann",
    }


def test_a_merge_of_some_columns_keeps_the_others(graph: og.Graph) -> None:
    graph.write(pa.table({"name": ["Ann"], "age": [30], "mail": ["m"]}), "Person", mode="merge")
    rows = pa.table({"id": ["Ann", "Cid"], "age": [31, 9], "code": ["ignored", "too"]})
    commit = graph.write(rows, "Person", mode="merge", merge_columns=["age"])
    assert summary(commit, PERSON) == ("merge", 3, 0, 2, 0)
    found = {row["name"]: row for row in graph.snapshot().arrow("Person").to_pylist()}
    assert (found["Ann"]["age"], found["Ann"]["mail"], found["Ann"]["code"]) == (31, "m", None)
    assert (found["Cid"]["age"], found["Bob"]["age"]) == (9, 41)


def test_a_merge_of_some_columns_keeps_blobs_lists_and_vectors(graph: og.Graph) -> None:
    whole = {"id": "n2", "text": "old", "tags": ["a"], "mood": [1.0, 2.0], "payload": b"bytes"}
    graph.write(pa.Table.from_pylist([whole]), "Note")
    graph.write(
        pa.table({"id": ["n2"], "text": ["new"]}), "Note", mode="merge", merge_columns=["text"]
    )
    rows = graph.snapshot().arrow("Note", where="id = 'n2'", blobs="bytes").to_pylist()
    assert rows == [whole | {"text": "new"}]


def test_a_merge_of_some_columns_of_a_new_row_needs_what_is_required(graph: og.Graph) -> None:
    rows = pa.table({"id": ["Ann", "Dan"], "age": [1, 2]})
    for check in ("all", "rows"):
        with pytest.raises(ConstraintViolationError, match="id 'Dan' is new"):
            graph.write(rows, "Person", mode="merge", merge_columns=["age"], check=check)
    new = pa.table({"name": ["Dan"], "age": [2]})
    graph.write(new, "Person", mode="merge", merge_columns=["name", "age"])
    assert ages(graph)["Dan"] == 2


def test_a_merge_of_some_columns_obeys_rules_across_rows(graph: og.Graph) -> None:
    graph.write(pa.table({"name": ["Ann"], "mail": ["m"]}), "Person", mode="merge")
    graph.write(edges(w2="Bob-Acme"), "WorksAt")
    for type, columns, words in (
        ("Person", {"id": ["Bob"], "mail": ["m"]}, "unique on node:Person"),
        ("Knows", {"id": ["k1"], "dst": ["Nobody"]}, "endpoint on edge:Knows"),
        ("WorksAt", {"id": ["w2"], "src": ["Ann"]}, "cardinality on edge:WorksAt"),
    ):
        some = [name for name in columns if name != "id"]
        with pytest.raises(ConstraintViolationError, match=words):
            graph.write(pa.table(columns), type, mode="merge", merge_columns=some)
    # Two rows may swap what is unique.
    graph.write(pa.table({"name": ["Bob"], "mail": ["n"]}), "Person", mode="merge")
    swapped = pa.table({"id": ["Ann", "Bob"], "mail": ["n", "m"]})
    graph.write(swapped, "Person", mode="merge", merge_columns=["mail"])
    assert_whole(graph)


@pytest.mark.parametrize(
    ("mode", "columns", "error"),
    [
        ("merge", ["nickname"], ColumnNotFoundError),
        ("append", ["age"], ConflictingOptionsError),
        ("overwrite", ["age"], ConflictingOptionsError),
        ("delete", ["age"], ConflictingOptionsError),
    ],
)
def test_merge_columns_belong_to_a_merge_of_columns_that_exist(
    graph: og.Graph, mode: str, columns: list[str], error: type[og.OmnigraphError]
) -> None:
    before = files(Path(graph.root))
    with pytest.raises(error):
        graph.write(people(Ann=1), "Person", mode=mode, merge_columns=columns)
    assert files(Path(graph.root)) == before


def test_one_text_is_no_list_of_columns(graph: og.Graph) -> None:
    """Its letters may be names of columns, which would be merged then."""
    some = pa.table({"id": ["Ann"], "age": [5]})
    for write in (
        lambda: graph.write(some, "Person", mode="merge", merge_columns="age"),
        lambda: graph.write_back(some, "Person", columns="age"),
    ):
        with pytest.raises(InvalidOptionError, match="a list of names"):
            write()
    assert ages(graph)["Ann"] == 30


def test_a_merge_moves_an_edge_within_its_cardinality(graph: og.Graph) -> None:
    graph.write(edges(w1="Bob-Umbra"), "WorksAt", mode="merge")
    graph.write(edges(w2="Ann-Acme"), "WorksAt")
    with pytest.raises(ConstraintViolationError, match="cardinality"):
        graph.write(edges(w2="Bob-Acme"), "WorksAt", mode="merge")
    # The source that loses its last edge is looked at as well.
    with pytest.raises(ConstraintViolationError, match="source 'Bob' would have 0 edges"):
        graph.write(edges(o1="Ann-Umbra"), "Owns", mode="merge")
    assert_whole(graph)


# -- overwrite -------------------------------------------------------------------------------------


def test_an_overwrite_leaves_exactly_these_rows_and_other_types_alone(graph: og.Graph) -> None:
    before = all_ids(graph)
    graph.write(edges(k9="Cid-Ann"), "Knows", mode="overwrite")
    assert all_ids(graph) == before | {KNOWS: ["k9"]}


def test_nodes_and_their_edges_are_overwritten_together(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.overwrite("Person", people(Zoe=1, Yan=2))
        for type in ("Knows", "WorksAt", "Owns", "About"):
            tx.overwrite(type, NO_EDGES if type != "Knows" else edges(k="Zoe-Yan"))
    assert ids(graph, "Person") == ["Yan", "Zoe"]
    assert_whole(graph)


def test_an_overwrite_of_nodes_is_checked_against_edges_that_stay_or_come(graph: og.Graph) -> None:
    with pytest.raises(ConstraintViolationError, match="'k2', 'k3'"):
        graph.write(people(Ann=1, Bob=2), "Person", mode="overwrite")
    with pytest.raises(ConstraintViolationError, match="endpoint"):
        transact(
            graph,
            lambda tx: tx.overwrite("Person", people(Ann=1, Bob=2, Cid=3)),
            lambda tx: tx.append("Knows", edges(k9="Ann-Zoe")),
        )
    with graph.transaction() as tx:
        tx.overwrite("Person", people(Ann=1, Bob=2, Cid=3, Zoe=4))
        tx.append("Knows", edges(k9="Ann-Zoe"))
    assert_whole(graph)


# -- delete ----------------------------------------------------------------------------------------


def test_rows_are_deleted_by_ids_by_condition_and_by_rows(graph: og.Graph) -> None:
    graph.delete("Knows", ids=["k1", "unknown"])
    assert ids(graph, "Knows") == ["k2", "k3"]
    graph.delete("Knows", where="src = 'Cid' and dst = 'Cid'")
    assert ids(graph, "Knows") == ["k2"]
    graph.write(edges(k2="any-thing"), "Knows", mode="delete")
    assert ids(graph, "Knows") == []
    graph.delete("Note", ids=pa.table({"id": ["n1"]}))
    assert (ids(graph, "Note"), ids(graph, "About")) == ([], [])
    assert_whole(graph)


def test_nodes_take_their_edges_of_every_type_with_them(graph: og.Graph) -> None:
    graph.write(edges(k4="Ann-Ann", k5="Ann-Cid", k6="Cid-Ann"), "Knows")
    commit = graph.delete("Person", ids=["Ann", "Cid"])
    assert commit is not None
    assert {key: change.deleted for key, change in commit.changes.items()} == {
        PERSON: 2,
        KNOWS: 6,
        WORKS_AT: 1,
        ABOUT: 1,
    }
    assert all_ids(graph) == {
        PERSON: ["Bob"],
        COMPANY: ["Acme", "Umbra"],
        NOTE: ["n1"],
        KNOWS: [],
        WORKS_AT: [],
        OWNS: ["o1"],
        ABOUT: [],
    }
    assert_whole(graph)


def test_nodes_and_edges_are_deleted_by_several_requests_at_once(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.delete("Knows", ids=["k3"])
        tx.delete("Knows", where="id = 'k3' or id = 'k2'")
        tx.delete("WorksAt", where="true")
        tx.delete("About", ids=["a1"])
        tx.delete("Person", ids=["Ann"])
        tx.delete("Company", where="name = 'Acme'")
        tx.delete("Note", where="false")
    assert tx.commit is not None
    assert {key: change.deleted for key, change in tx.commit.changes.items()} == {
        PERSON: 1,
        COMPANY: 1,
        KNOWS: 3,
        WORKS_AT: 1,
        ABOUT: 1,
    }
    assert_whole(graph)


def test_nodes_that_no_edge_can_end_at_are_deleted_by_several_requests_at_once(
    tmp_path: Path,
) -> None:
    graph = og.create(tmp_path / "g", "node Line { number: I64 }")
    rows = {"id": [f"l{number}" for number in range(6)], "number": list(range(6))}
    graph.write(pa.table(rows), "Line")
    with graph.transaction() as tx:
        tx.delete("Line", where="number < 2")
        tx.delete("Line", where="number < 3")
        tx.delete("Line", ids=["l2", "l4"])
        assert sorted(tx.arrow("Line")["id"].to_pylist()) == ["l3", "l5"]
    assert tx.commit is not None
    assert tx.commit.changes["node:Line"].deleted == 4
    assert ids(graph, "Line") == ["l3", "l5"]
    assert_whole(graph)


def test_deleting_what_is_not_there_is_no_commit(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    assert graph.delete("Person", ids=["Nobody"]) is None
    assert graph.delete("Person", ids=[]) is None
    assert graph.delete("Person", where="age > 1000") is None
    with graph.transaction() as tx:
        tx.delete("Person", ids=["Nobody"])
        tx.delete("Knows", where="src = 'Nobody'")
    assert tx.commit is None
    assert files(Path(graph.root)) == before


def test_a_type_is_emptied_by_a_condition_and_filled_again(graph: og.Graph) -> None:
    graph.delete("Person", where="true")
    assert {key: entry.rows for key, entry in graph.entries.items() if entry.rows} == {
        COMPANY: 2,
        NOTE: 1,
    }
    graph.write(people(Ann=1), "Person")
    graph.write(people(Ann=2, Bob=3), "Person", mode="merge")
    assert ages(graph) == {"Ann": 2, "Bob": 3}
    assert_whole(graph)


def test_a_delete_obeys_the_least_number_of_edges(graph: og.Graph) -> None:
    with pytest.raises(ConstraintViolationError, match="source 'Bob' would have 0 edges"):
        graph.delete("Owns", ids=["o1"])
    with pytest.raises(ConstraintViolationError, match="source 'Bob' would have 0 edges"):
        graph.delete("Company", ids=["Umbra"])
    # With its source the rule goes as well.
    graph.delete("Person", ids=["Bob"])
    assert ids(graph, "Owns") == []


@pytest.mark.parametrize(
    "where",
    ["agee > 3", "age >", "", "age > 3; drop", "1 / (age - age) > 0", "cast(name as int) > 0"],
)
def test_a_condition_that_cannot_be_evaluated_is_refused(graph: og.Graph, where: str) -> None:
    before = files(Path(graph.root))
    with pytest.raises(InvalidFilterError):
        graph.delete("Person", where=where)
    assert files(Path(graph.root)) == before


def test_a_delete_takes_ids_or_a_condition(graph: og.Graph) -> None:
    with pytest.raises(InvalidOptionError, match="either ids or a condition"):
        graph.delete("Person")
    with pytest.raises(InvalidOptionError, match="either ids or a condition"):
        graph.delete("Person", ids=["Ann"], where="age > 3")
    with pytest.raises(ConstraintViolationError, match="required on node:Person"):
        graph.delete("Person", ids=["Ann", None])
    odd: list[list[Any]] = [[1], ["Ann", b"\xff"], ["\ud800"]]
    for given in odd:
        with pytest.raises(InvalidOptionError, match="expected texts"):
            graph.delete("Person", ids=given)


@pytest.mark.parametrize("limit", ["max_rows_per_file", "max_bytes_per_file"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_file_without_rows_is_no_limit(graph: og.Graph, limit: str, value: int) -> None:
    with pytest.raises(InvalidOptionError, match=f"{limit}.*above zero"):
        graph.write(people(Dan=1), "Person", **{limit: value})


# -- odd ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "it's", 'say "so"', "a\0b", "é", "0", "null", "x" * 5_000])
def test_an_id_may_be_any_text(graph: og.Graph, name: str) -> None:
    graph.write(pa.table({"name": [name]}), "Person")
    graph.write(pa.table({"src": [name], "dst": [name]}), "Knows")
    with pytest.raises(KeyConflictError):
        graph.write(pa.table({"name": [name]}), "Person")
    graph.write(pa.table({"name": [name], "age": [5]}), "Person", mode="merge")
    assert ages(graph)[name] == 5
    assert graph.delete("Person", ids=[name]) is not None
    assert ids(graph, "Person") == ["Ann", "Bob", "Cid"]
    assert_whole(graph)


# -- rows only -------------------------------------------------------------------------------------


def test_rules_across_rows_can_be_left_out_but_not_those_of_a_row(graph: og.Graph) -> None:
    graph.write(edges(x="Ann-Nobody"), "Knows", check="rows")
    assert "x" in ids(graph, "Knows")
    with pytest.raises(ConstraintViolationError, match="range"):
        graph.write(people(Dan=999), "Person", check="rows")
    with pytest.raises(InvalidOptionError, match="check"):
        graph.write(people(Dan=9), "Person", check="some")


def test_a_merge_never_takes_an_id_twice(graph: og.Graph) -> None:
    twice = pa.table({"name": ["Ann", "Ann"]})
    with pytest.raises(ConstraintViolationError, match="duplicate"):
        graph.write(twice, "Person", mode="merge", check="rows")


# -- who -------------------------------------------------------------------------------------------


def test_the_actor_of_a_write_is_the_nearest_one_given(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def actor_of(opened: og.Graph, name: str, **terms: str) -> str | None:
        commit = opened.write(pa.table({"name": [name]}), "Person", **terms)
        assert commit is not None
        return commit.actor

    monkeypatch.setenv("OMNIGRAPH_ACTOR", "env")
    anonymous = og.open(graph.root)
    assert actor_of(graph, "p1", actor="etl") == "etl"
    assert actor_of(graph, "p2") == "ann"
    assert actor_of(anonymous, "p3") == "env"
    monkeypatch.delenv("OMNIGRAPH_ACTOR")
    monkeypatch.setattr("getpass.getuser", lambda: "user")
    assert actor_of(anonymous, "p4") == "user"

    def nobody() -> str:
        raise OSError("no name")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert actor_of(anonymous, "p5") is None
    assert [commit.actor for commit in anonymous.history(5)] == [None, "user", "env", "ann", "etl"]


def test_the_engines_own_actors_are_refused(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(Path(graph.root))
    with pytest.raises(InvalidNameError):
        graph.write(people(Dan=1), "Person", actor="omnigraph:recovery")
    with pytest.raises(InvalidNameError):
        og.open(graph.root, actor="omnigraph:me")
    monkeypatch.setenv("OMNIGRAPH_ACTOR", "omnigraph:env")
    with pytest.raises(InvalidNameError):
        og.open(graph.root).write(people(Dan=1), "Person")
    assert files(Path(graph.root)) == before


def test_a_graph_opened_for_reading_is_not_written(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    reading = og.open(graph.root, mode="r")
    for write in (
        lambda: reading.write(people(Dan=1), "Person"),
        lambda: reading.delete("Person", ids=["Ann"]),
        reading.transaction,
        lambda: reading.as_branch("main").write(people(Dan=1), "Person"),
        lambda: reading.create_branch("dev"),
        lambda: reading.delete_branch("dev"),
    ):
        with pytest.raises(UnsupportedError, match="mode='rw'"):
            write()
    assert files(Path(graph.root)) == before


# -- cleaning up -----------------------------------------------------------------------------------


def test_a_merge_leaves_only_files_that_a_version_names(graph: og.Graph) -> None:
    before = data_files(Path(graph.root))
    graph.write(people(Ann=1, Dan=2), "Person", mode="merge")
    assert len(data_files(Path(graph.root)) - before) == 1
    graph.delete("Person", ids=["Ann", "Dan"])
    assert len(data_files(Path(graph.root)) - before) == 1


def test_a_commit_is_a_success_also_when_its_leftovers_cannot_be_deleted(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(*_: object) -> None:
        raise StorageError("transient", "there", "busy")

    monkeypatch.setattr(writing, "discard", stuck)
    with pytest.warns(UserWarning, match="stayed behind"):
        commit = graph.write(people(Ann=1), "Person", mode="merge")
    assert commit is not None
    assert ages(graph)["Ann"] == 1
    # Neither does it hide why a write was refused.
    with pytest.warns(UserWarning, match="stayed behind"), pytest.raises(KeyConflictError):
        graph.write(people(Ann=1), "Person")


def test_what_a_task_found_crosses_processes_as_text() -> None:
    violation = Violation("range", PERSON, "age", "too old", ("a", "b"), 7)
    file = StagedFile("x.lance", "{}", 3, 4)
    for result in (StageResult((file,)), StageResult(violations=(violation,)), StageResult()):
        assert StageResult.from_json(result.to_json()) == result


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_writer_that_gives_up_leaves_files_that_any_version_names(
    graph: og.Graph, branch: str
) -> None:
    """Spark gives a write up whose answer was lost; others may have written over it since."""
    if branch != "main":
        graph.create_branch(branch)
    graph = graph.as_branch(branch)
    write = Write(GraphReader.open(graph.root, StorageSettings()), branch, WriteTerms())
    task = write.task("Person", WriteMode.APPEND)
    results = [task.run(people(Dan=1).to_batches())]
    orphans = [task.run(people(Eve=1).to_batches())]
    given_up = pickle.loads(pickle.dumps(write))
    write.add("Person", task, results)
    commit = write.commit()
    assert commit is not None
    graph.refresh().delete("Person", ids=["Dan"])
    before = data_files(Path(graph.root))
    given_up.discard_unowned(task, [*results, *orphans])
    assert len(data_files(Path(graph.root))) == len(before) - 1
    at = og.open(graph.root).at(commit=commit.id)
    assert ids(at, "Person") == ["Ann", "Bob", "Cid", "Dan"]


def test_a_merge_whose_files_were_thrown_away_after_they_were_read_does_not_land(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark told its user that the statement was cancelled, while its commit still ran."""
    before = files(Path(graph.root))
    write = Write(GraphReader.open(graph.root, StorageSettings()), "main", WriteTerms())
    task = write.task("Person", WriteMode.MERGE)
    results = [task.run(people(Ann=1).to_batches())]
    # They come from a worker.
    monkeypatch.setattr(fresh_rows, "_kept", type(fresh_rows._kept)())
    given_up = pickle.loads(pickle.dumps(write))
    write.add("Person", task, results)

    prepare = preparing.prepare

    def then_given_up(*args: Any) -> Prepared:
        done = prepare(*args)
        given_up.discard_unowned(task, results)
        return done

    monkeypatch.setattr(preparing, "prepare", then_given_up)
    with pytest.raises(ConflictError, match="given up"):
        write.commit_or_abort()
    assert files(Path(graph.root)) == before
