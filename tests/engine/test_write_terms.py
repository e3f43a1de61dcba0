"""When a write may become visible: expectations, conflicts, rebasing, and doing a thing once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import publish as door
from omnigraph_spark.clock import new_ulid, now_us
from omnigraph_spark.errors import (
    ConflictError,
    ConflictingOptionsError,
    ConstraintViolationError,
    DriftError,
    ExpectedVersionError,
    HeadMovedError,
    InvalidNameError,
    InvalidOptionError,
    KeyConflictError,
    OutcomeUnknownError,
    StorageError,
    TypeNotFoundError,
)
from omnigraph_spark.failpoints import BEFORE_PUBLISH, SIDECAR_WRITTEN, Failpoint
from omnigraph_spark.formats.v4 import dataset_path, schema_files
from omnigraph_spark.formats.v4.contract import SOURCE_FILE
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.publish import Change, LineageIntent, PublishVersion, RegisterType
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.storage import manifest_writer
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.locks import writer_lock
from omnigraph_spark.storage.objects import IN_DOUBT
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import create_dataset
from omnigraph_spark.writing import landing, preparing
from omnigraph_spark.writing import write as writing
from omnigraph_spark.writing.inspect import inspect
from omnigraph_spark.writing.landing import Prepared
from omnigraph_spark.writing.pending import WriteMode
from tests.engine.race_work import write_once
from tests.engine.recovering import reached
from tests.engine.writing import (
    COMPANY,
    KNOWS,
    PERSON,
    ages,
    assert_whole,
    data_files,
    edges,
    files,
    heads,
    ids,
    people,
    transact,
)
from tests.helpers.builder import GraphBuilder
from tests.helpers.racers import Racers

Step = Callable[[og.Graph], object]
LIKES = "edge:Likes"


@pytest.fixture
def other(graph: og.Graph) -> og.Graph:
    """The same graph in the hands of somebody else."""
    return og.open(graph.root, actor="bob")


@contextmanager
def overtaken(other: og.Graph, *steps: Step) -> Iterator[None]:
    """Let another writer take its next step each time a write has been checked, until none is left.

    That is the window between inspection and landing; the lock is not held yet, or by nobody who
    keeps to it.
    """
    left = list(steps)

    def then_overtaken(*args: Any) -> Any:
        found = inspect(*args)
        if left:
            step = left.pop(0)
            with (
                patch.object(writing, "inspect", inspect),
                patch.object(writing, "writer_lock", unlocked),
            ):
                step(other)
        return found

    with patch.object(writing, "inspect", then_overtaken):
        yield
    assert left == []


@contextmanager
def unlocked(*_: object) -> Iterator[None]:
    yield


def adding(name: str, age: int = 1) -> Step:
    return lambda other: other.write(people(**{name: age}), "Person")


# -- rebasing what only adds -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_additions_land_on_top_of_what_came_meanwhile_without_writing_rows_again(
    graph: og.Graph, other: og.Graph, mode: str
) -> None:
    """RS-20."""
    staged: list[set[str]] = []

    def look(_: og.Transaction) -> None:
        staged.append(data_files(Path(graph.root)))
        other.write(people(Dan=1), "Person")

    commit = transact(graph, lambda tx: tx.apply(WriteMode(mode), "Person", people(Eve=2)), look)
    assert commit is not None
    assert commit.parent_id == graph.history(2)[1].id
    assert ages(graph) == {"Ann": 30, "Bob": 41, "Cid": None, "Dan": 1, "Eve": 2}
    assert commit.changes[PERSON].dataset_version == 4
    assert commit.changes[PERSON].rows == 5
    if mode == "append":
        added = data_files(Path(graph.root)) - staged[0]
        assert len(added) == 1, "the file of the other"
    assert_whole(graph)


def test_a_rebased_merge_looks_again_which_rows_are_there(graph: og.Graph, other: og.Graph) -> None:
    with overtaken(other, adding("Dan"), lambda other: other.delete("Person", ids=["Ann"])):
        commit = graph.write(people(Dan=5, Ann=6), "Person", mode="merge")
    assert commit is not None
    change = commit.changes[PERSON]
    assert (change.inserted, change.updated, change.rows) == (1, 1, 4)
    assert ages(graph) == {"Bob": 41, "Cid": None, "Dan": 5, "Ann": 6}
    assert_whole(graph)


CHANGES_ROWS: dict[str, Step] = {
    "merge": lambda graph: graph.write(people(Ann=31, Dan=5), "Person", mode="merge"),
    "delete": lambda graph: graph.delete("Person", where="age > 40", on_conflict="rebase"),
}


@pytest.mark.parametrize("what", CHANGES_ROWS)
def test_what_takes_as_long_as_there_are_rows_holds_nobody_up(
    graph: og.Graph, other: og.Graph, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """And what was worked out for a version that is overtaken leaves no file behind."""
    times, prepare = list[str](), preparing.prepare

    def then_overtaken(*args: Any) -> Prepared:
        done = prepare(*args)
        times.append(done.pending.key)
        if len(times) == 1:
            monkeypatch.setattr(preparing, "prepare", prepare)
            with writer_lock(graph.root, "main", StorageSettings(), wait_seconds=0):
                pass
            other.write(people(Eve=90), "Person")
            monkeypatch.setattr(preparing, "prepare", then_overtaken)
        return done

    monkeypatch.setattr(preparing, "prepare", then_overtaken)
    CHANGES_ROWS[what](graph)
    assert times.count(PERSON) == 2, "once ahead, and once more on top of the other"
    expected = {"Ann": 31, "Bob": 41, "Cid": None, "Dan": 5, "Eve": 90}
    assert ages(graph) == (expected if what == "merge" else {"Ann": 30, "Cid": None})
    assert_whole(graph)
    folder = Path(graph.root, graph.entries[PERSON].path)
    named = {
        file.path
        for version in lance.dataset(str(folder)).versions()
        for fragment in lance.dataset(str(folder), version["version"]).get_fragments()
        for file in fragment.data_files()
    }
    assert {path.name for path in folder.glob("data/*.lance")} == named


def test_a_write_that_was_overtaken_does_not_line_up_again(
    graph: og.Graph, other: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among many writers it would wait for all of them twice, or more often."""
    turns: list[str] = []

    @contextmanager
    def counted(root: str, branch: str, settings: StorageSettings) -> Iterator[None]:
        turns.append(branch)
        with writer_lock(root, branch, settings):
            yield

    monkeypatch.setattr(writing, "writer_lock", counted)
    with overtaken(other, adding("Dan"), adding("Eve")):
        graph.write(people(Fay=1), "Person")
    assert turns == ["main"]
    assert {"Dan", "Eve", "Fay"} <= set(ages(graph))
    assert_whole(graph)
    with writer_lock(graph.root, "main", StorageSettings(), wait_seconds=0):
        pass


def test_edges_land_after_their_nodes_were_written(graph: og.Graph, other: og.Graph) -> None:
    with overtaken(other, adding("Dan"), lambda other: other.write(edges(k8="Dan-Ann"), "Knows")):
        graph.write(edges(k9="Ann-Bob"), "Knows")
    assert ids(graph, "Knows") == ["k1", "k2", "k3", "k8", "k9"]
    assert_whole(graph)


BROKEN_MEANWHILE: dict[str, tuple[Step, Step, type[og.OmnigraphError]]] = {
    "the id was taken": (adding("Dan"), adding("Dan"), KeyConflictError),
    "the value was taken": (
        lambda graph: graph.write(pa.table({"name": ["Dan"], "mail": ["m"]}), "Person"),
        lambda other: other.write(pa.table({"name": ["Eve"], "mail": ["m"]}), "Person"),
        ConstraintViolationError,
    ),
    "the end is gone": (
        lambda graph: graph.write(edges(k9="Ann-Bob"), "Knows"),
        lambda other: other.delete("Person", ids=["Ann"]),
        ConstraintViolationError,
    ),
    "the end was overwritten": (
        lambda graph: graph.write(edges(w9="Cid-Umbra"), "WorksAt"),
        lambda other: transact(
            other,
            lambda tx: tx.overwrite("Company", pa.table({"name": ["Acme"]})),
            lambda tx: tx.overwrite("Owns", edges(o1="Bob-Acme")),
        ),
        ConstraintViolationError,
    ),
    "the source has its edges": (
        lambda graph: graph.write(edges(w9="Cid-Acme"), "WorksAt"),
        lambda other: other.write(edges(w8="Cid-Acme"), "WorksAt"),
        ConstraintViolationError,
    ),
}


@pytest.mark.parametrize("what", BROKEN_MEANWHILE)
def test_what_no_longer_holds_is_never_published(
    graph: og.Graph, other: og.Graph, what: str
) -> None:
    """RS-20: the rules are checked again on what came meanwhile."""
    write, meanwhile, error = BROKEN_MEANWHILE[what]
    with overtaken(other, meanwhile), pytest.raises(error):
        write(graph)
    assert graph.refresh().history(1)[0].actor == "bob"
    assert_whole(graph)
    after = files(Path(graph.root))
    with pytest.raises(error):
        write(graph)
    assert files(Path(graph.root)) == after


def test_five_times_a_write_looks_again_and_then_it_gives_up(
    graph: og.Graph, other: og.Graph
) -> None:
    """RS-29."""
    with overtaken(other, *(adding(f"five{n}") for n in range(5))):
        graph.write(people(Dan=1), "Person")
    assert ages(graph)["Dan"] == 1
    with (
        overtaken(other, *(adding(f"six{n}") for n in range(6))),
        pytest.raises(ConflictError, match="6 attempts") as caught,
    ):
        graph.write(people(Eve=1), "Person")
    assert type(caught.value) is ConflictError
    assert "nothing became visible" in str(caught.value)
    assert "Eve" not in ages(graph)
    assert len(ids(graph, "Person")) == 3 + 5 + 1 + 6
    assert_whole(graph)


def test_a_write_told_to_fail_names_the_table_both_versions_and_the_commit_that_won(
    graph: og.Graph, other: og.Graph
) -> None:
    def twice(other: og.Graph) -> None:
        other.write(people(Dan=1), "Person")
        other.write(pa.table({"name": ["Globex"]}), "Company")

    with overtaken(other, twice), pytest.raises(ExpectedVersionError) as caught:
        graph.write(people(Zoe=1), "Person", on_conflict="fail")
    lost, (_, first, *_) = caught.value, graph.refresh().history()
    assert (lost.type, lost.expected, lost.actual, lost.winner) == (PERSON, 2, 3, first.id)
    for word in (PERSON, "version 2", "at 3", first.id, "nothing became visible"):
        assert word in str(lost)
    assert_whole(graph)


# -- what overwrites or deletes gives up -----------------------------------------------------------

STRICT: dict[str, Step] = {
    "overwrite": lambda graph: graph.write(edges(k9="Ann-Bob"), "Knows", mode="overwrite"),
    "delete": lambda graph: graph.delete("Knows", ids=["k1"]),
    "delete where": lambda graph: graph.delete("Person", where="age > 40"),
    "append told to fail": lambda graph: graph.write(
        edges(k9="Ann-Bob"), "Knows", on_conflict="fail"
    ),
}


@pytest.mark.parametrize("what", STRICT)
def test_overwrites_and_deletes_fail_even_when_the_other_touched_another_table(
    graph: og.Graph, other: og.Graph, what: str
) -> None:
    """RS-21."""
    meanwhile = pa.table({"text": ["hi"]})
    with (
        overtaken(other, lambda other: other.write(meanwhile, "Note")),
        pytest.raises(HeadMovedError) as caught,
    ):
        STRICT[what](graph)
    winner = graph.refresh().history(1)[0]
    assert winner.actor == "bob"
    assert winner.id in str(caught.value)
    assert ids(graph, "Knows") == ["k1", "k2", "k3"]
    assert_whole(graph)
    STRICT[what](graph)
    assert_whole(graph)


@pytest.mark.parametrize("what", ["overwrite", "delete", "delete where"])
def test_overwrites_and_deletes_fail_when_their_own_table_moved(
    graph: og.Graph, other: og.Graph, what: str
) -> None:
    def meanwhile(other: og.Graph) -> None:
        other.write(edges(k8="Ann-Ann"), "Knows")
        other.write(people(Dan=90), "Person")

    with overtaken(other, meanwhile), pytest.raises(ExpectedVersionError):
        STRICT[what](graph)
    assert ids(graph.refresh(), "Knows") == ["k1", "k2", "k3", "k8"]
    assert_whole(graph)


def test_overwrites_and_deletes_rebase_when_told_to(graph: og.Graph, other: og.Graph) -> None:
    with overtaken(other, adding("Dan", 90), adding("Eve", 91)):
        commit = graph.delete("Person", where="age > 40", on_conflict="rebase")
    assert commit is not None
    assert commit.changes[PERSON].deleted == 3
    assert ages(graph) == {"Ann": 30, "Cid": None}
    with overtaken(other, lambda other: other.write(edges(k8="Ann-Ann"), "Knows")):
        new = edges(k9="Ann-Cid")
        commit = graph.write(new, "Knows", mode="overwrite", on_conflict="rebase")
    assert commit is not None
    assert ids(graph, "Knows") == ["k9"]
    assert_whole(graph)


def like_bob(other: og.Graph) -> None:
    """Add an edge type, as a schema change does, which moves no dataset, and an edge of it."""
    root, manifest = Path(other.root), Manifest(other.root, StorageSettings())
    text = f"{(root / SOURCE_FILE).read_text()}\nedge Likes: Person -> Person"
    schema = parse_schema(text)
    [likes] = (edge for edge in schema.edges if edge.name == "Likes")
    address = DatasetAddress(other.root, dataset_path(likes.type_key))
    landed = create_dataset(address, arrow_schema(likes), StorageSettings())
    changes: list[Change] = [
        RegisterType(LIKES, address.path),
        PublishVersion(LIKES, landed, None, 0),
    ]
    door.publish(manifest, "main", changes, {}, LineageIntent(new_ulid(), now_us()))
    for name, content in schema_files(text, schema).items():
        (root / name).write_bytes(content)
    # Whoever writes this looks for no sidecar, as one that looked before ours was there.
    GraphBuilder.open(root).write({LIKES: [{"id": "l1", "src": "Ann", "dst": "Bob"}]})


def test_an_edge_of_a_type_that_came_meanwhile_goes_with_its_node(
    graph: og.Graph, other: og.Graph
) -> None:
    with overtaken(other, like_bob):
        commit = graph.delete("Person", ids=["Bob"], on_conflict="rebase")
    assert commit is not None
    assert commit.changes[LIKES].deleted == 1
    assert_whole(graph)


def test_nodes_are_not_overwritten_from_under_an_edge_of_a_type_that_came_meanwhile(
    graph: og.Graph, other: og.Graph
) -> None:
    kept = people(Ann=1, Cid=2)

    def write(tx: og.Transaction) -> None:
        tx.overwrite("Person", kept)
        for edge in ("Knows", "WorksAt", "Owns", "About"):
            tx.overwrite(edge, edges())

    with (
        overtaken(other, like_bob),
        pytest.raises(ConstraintViolationError, match="'Bob' of id 'l1' is no longer in Person"),
    ):
        transact(graph, write, on_conflict="rebase")
    assert_whole(graph)


@pytest.mark.parametrize("point", [SIDECAR_WRITTEN, BEFORE_PUBLISH], ids=lambda p: p.name)
def test_a_node_is_not_deleted_from_under_an_edge_of_a_type_that_comes_while_it_lands(
    graph: og.Graph, other: og.Graph, point: Failpoint
) -> None:
    with reached(point, lambda: like_bob(other)):
        graph.delete("Person", ids=["Bob"], on_conflict="rebase")
    assert "Bob" not in ages(graph)
    assert_whole(graph)


def test_nothing_is_left_to_delete_after_another_deleted_it(
    graph: og.Graph, other: og.Graph
) -> None:
    with overtaken(other, lambda other: other.delete("Knows", ids=["k1"])):
        assert graph.delete("Knows", ids=["k1"], on_conflict="rebase") is None
    assert graph.refresh().history(1)[0].actor == "bob"
    assert_whole(graph)


def test_an_unknown_answer_to_a_conflict_is_refused(graph: og.Graph) -> None:
    with pytest.raises(InvalidOptionError, match="rebase or fail"):
        graph.write(people(Dan=1), "Person", on_conflict="merge")


# -- what the caller expects -----------------------------------------------------------------------


def test_a_write_lands_only_on_the_commit_that_was_asked_for(
    graph: og.Graph, other: og.Graph
) -> None:
    first = graph.history(1)[0].id
    other.write(pa.table({"name": ["Globex"]}), "Company")
    before = files(Path(graph.root))
    with pytest.raises(HeadMovedError, match=first):
        graph.write(people(Dan=1), "Person", if_graph_commit=first)
    assert files(Path(graph.root)) == before
    now = graph.refresh().history(1)[0].id
    commit = graph.write(people(Dan=1), "Person", if_graph_commit=now)
    assert commit is not None
    assert commit.parent_id == now
    # Also when the commit is replaced after the rules were checked.
    with (
        overtaken(other, lambda other: other.write(pa.table({"text": ["hi"]}), "Note")),
        pytest.raises(HeadMovedError),
    ):
        graph.write(people(Eve=1), "Person", if_graph_commit=commit.id)
    assert "Eve" not in ages(graph)


def test_a_write_lands_only_on_the_versions_that_were_asked_for(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    with pytest.raises(ExpectedVersionError) as caught:
        graph.write(people(Dan=1), "Person", expected_table_versions={COMPANY: 2, KNOWS: 7})
    assert (caught.value.type, caught.value.expected, caught.value.actual) == (KNOWS, 7, 2)
    with pytest.raises(ExpectedVersionError, match="is at 0"):
        graph.write(people(Dan=1), "Person", expected_table_versions={"node:Nobody": 1})
    with pytest.raises(InvalidNameError, match="type key"):
        graph.write(people(Dan=1), "Person", expected_table_versions={"Person": 2})
    assert files(Path(graph.root)) == before
    seen = {PERSON: 2, COMPANY: 2, "node:Nobody": 0}
    assert graph.write(people(Dan=1), "Person", expected_table_versions=seen) is not None


def test_an_expected_version_that_moves_meanwhile_stops_a_write_that_would_rebase(
    graph: og.Graph, other: og.Graph
) -> None:
    with (
        overtaken(other, lambda other: other.write(pa.table({"name": ["Globex"]}), "Company")),
        pytest.raises(ExpectedVersionError, match="node:Company"),
    ):
        graph.write(people(Dan=1), "Person", expected_table_versions={COMPANY: 2})
    assert_whole(graph)


def test_types_and_branches_that_do_not_exist_are_named(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    with pytest.raises(TypeNotFoundError, match="did you mean"):
        graph.write(people(Dan=1), "Persons")
    with pytest.raises(og.OmnigraphError, match="this graph has main"):
        graph.write(people(Dan=1), "Person", branch="nowhere")
    with pytest.raises(InvalidNameError):
        graph.write(people(Dan=1), "Person", branch="a//b", create_from="main")
    assert files(Path(graph.root)) == before


# -- once ------------------------------------------------------------------------------------------


def once(graph: og.Graph, version: int = 1, **terms: Any) -> og.Commit:
    rows = people(**{f"once{version}": version})
    commit = graph.write(rows, "Person", txn_app_id="job", txn_version=version, **terms)
    assert commit is not None
    return commit


def test_a_piece_of_work_is_done_once(graph: og.Graph, other: og.Graph) -> None:
    """RS-67."""
    first = once(graph)
    after = files(Path(graph.root))
    assert once(graph) == first
    assert once(other) == first
    assert once(og.open(graph.root), mode="merge") == first
    assert files(Path(graph.root)) == after
    # Long after, too.
    graph.write(people(Dan=1), "Person")
    graph.delete("Person", ids=["once1"])
    assert once(graph) == first
    assert "once1" not in ages(graph)
    second = once(graph, 2)
    assert second != first
    assert once(graph, 2) == second
    assert_whole(graph)


def test_pairs_that_only_look_the_same_are_different_work(graph: og.Graph) -> None:
    commits = set()
    for number, (app, version) in enumerate([("a", "1"), ("a1", ""), ("", "a1"), ("a", "01")]):
        rows = people(**{f"p{number}": 1})
        commit = graph.write(rows, "Person", txn_app_id=app, txn_version=version)
        assert commit is not None
        commits.add(commit.id)
    assert len(commits) == 4


def test_both_halves_of_a_pair_are_needed(graph: og.Graph) -> None:
    for terms in ({"txn_app_id": "job"}, {"txn_version": 1}):
        with pytest.raises(ConflictingOptionsError, match="each needs the other"):
            graph.write(people(Dan=1), "Person", **terms)


def test_a_piece_of_work_with_nothing_to_do_is_no_commit_and_may_be_done_later(
    graph: og.Graph,
) -> None:
    assert graph.write(people(), "Person", txn_app_id="job", txn_version=1) is None
    assert once(graph).actor == "ann"


def test_work_that_another_did_meanwhile_is_not_done_again(
    graph: og.Graph, other: og.Graph
) -> None:
    with overtaken(other, once):
        commit = once(graph)
    assert commit.actor == "bob"
    assert graph.refresh().history(1) == [commit]
    assert_whole(graph)


def test_work_whose_answer_was_lost_is_found_again(graph: og.Graph, other: og.Graph) -> None:
    """RS-16: the publish landed, and its writer never heard of it."""

    def lost(*args: Any) -> og.Commit:
        commit = door.publish(*args)
        raise OutcomeUnknownError(commit.id, "the connection was cut")

    with patch.object(landing, "publish", lost), pytest.raises(OutcomeUnknownError) as caught:
        once(graph)
    first = other.refresh().history(1)[0]
    assert caught.value.commit == first.id
    assert once(other) == first
    assert once(og.open(graph.root)) == first
    assert ids(other.refresh(), "Person") == ["Ann", "Bob", "Cid", "once1"]


def test_a_publish_whose_answer_was_lost_is_looked_for(graph: og.Graph) -> None:
    """RS-16: without a pair the writer itself finds what it published."""

    def lost(*args: Any) -> Any:
        manifest_writer.merge_rows(*args)
        raise StorageError(IN_DOUBT, "there", "the connection was cut")

    with patch.object(door, "merge_rows", lost):
        commit = graph.write(people(Dan=1), "Person")
    assert graph.refresh().history(1) == [commit]
    assert_whole(graph)


def test_processes_that_do_the_same_work_at_once_do_it_once(
    graph: og.Graph, racers: Racers
) -> None:
    """RS-67, from other processes."""
    rounds = 5
    first, second = racers.run(write_once, *[(graph.root,)] * 2, rounds=rounds)
    assert first == second
    assert len(set(first)) == rounds
    assert len(ids(graph.refresh(), "Person")) == 3 + rounds
    assert len(graph.history()) == 2 + rounds
    assert_whole(graph)


# -- what others left ------------------------------------------------------------------------------


def test_a_dataset_ahead_of_its_pin_is_not_written_and_others_are(graph: og.Graph) -> None:
    """RS-54: somebody wrote to it outside of the graph."""
    GraphBuilder.open(Path(graph.root)).append(PERSON, [{"name": "Stray"}])
    before = files(Path(graph.root))
    writes: list[Callable[[], object]] = [
        lambda: graph.write(people(Dan=1), "Person"),
        lambda: graph.write(people(Dan=1), "Person", mode="merge"),
        lambda: graph.delete("Person", ids=["Ann"]),
        lambda: transact(
            graph,
            lambda tx: tx.merge("Company", pa.table({"name": ["Acme"]})),
            lambda tx: tx.merge("Person", people(Dan=1)),
        ),
    ]
    for write in writes:
        with pytest.raises(DriftError, match="version 3 but the manifest pins 2"):
            write()
    assert files(Path(graph.root)) == before
    graph.write(pa.table({"name": ["Globex"]}), "Company")
    assert ids(graph, "Person") == ["Ann", "Bob", "Cid"]
    assert heads(graph)[PERSON] == (2, 3)
