"""Rows replaced, added and deleted by one write: one commit, and every rule over the result."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import (
    ConflictError,
    ConstraintViolationError,
    KeyConflictError,
    MixedModesError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.formats.profile import ChangeSummary, Commit
from omnigraph_spark.given_rows import stage_rows
from omnigraph_spark.recovery.sweep import recover
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage.rewriting import stage_rewritten
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.writing import preparing, upserting
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.stage import StageLimits
from omnigraph_spark.writing.terms import OnConflict, WriteTerms
from omnigraph_spark.writing.write import Write
from tests.engine.recovering import assert_settled, manifest_of
from tests.engine.reference import (
    COLUMNS,
    EMPTY,
    ROWS,
    SCHEMA,
    Reference,
    Step,
    beginnings,
    state_of,
    table_of,
)
from tests.engine.writing import (
    KNOWS,
    PERSON,
    all_ids,
    assert_whole,
    edges,
    files,
    ids,
    people,
    transact,
)
from tests.helpers.crashes import crashing
from tests.helpers.engine import engine_export

MERGE, APPEND, DELETE = WriteMode.MERGE, WriteMode.APPEND, WriteMode.DELETE


def mixed(graph: og.Graph, terms: WriteTerms | None = None) -> Write:
    reader = GraphReader.open(graph.root, StorageSettings())
    return Write(reader, graph.branch, terms or WriteTerms(actor="mixer"), mixed=True)


def stage(write: Write, mode: WriteMode, type: str, rows: pa.Table) -> None:
    task = write.task(type, mode)
    write.add(type, task, stage_rows(task, rows))


def change(
    graph: og.Graph, *steps: tuple[WriteMode, str, pa.Table], terms: WriteTerms | None = None
) -> Commit | None:
    """Take steps of any modes in one write."""
    write = mixed(graph, terms)
    try:
        for mode, type, rows in steps:
            stage(write, mode, type, rows)
    except BaseException:
        write.abort()
        raise
    commit = write.commit_or_abort()
    graph.refresh()
    return commit


def named(*names: str) -> pa.Table:
    return pa.table({"id": pa.array(names, pa.string())})


def row_ids(graph: og.Graph, key: str) -> dict[str, int]:
    entry = graph.refresh().entries[key]
    folder = Path(graph.root, entry.path)
    if entry.dataset_branch:
        folder = folder / "tree" / entry.dataset_branch
    dataset = lance.dataset(str(folder), version=entry.dataset_version)
    rows = dataset.to_table(columns=["id"], with_row_id=True).to_pylist()
    return {row["id"]: row["_rowid"] for row in rows}


def counts(commit: Commit | None) -> dict[str, tuple[int, int, int]]:
    assert commit is not None
    return {
        key: (made.inserted, made.updated, made.deleted) for key, made in commit.changes.items()
    }


@pytest.fixture(params=[False, True], ids=["small", "large"])
def sized(request: pytest.FixtureRequest) -> Any:
    """Both ways of preparing: by Lance where it can, and taken apart."""
    with ExitStack() as patched:
        if request.param:
            patched.enter_context(patch.object(preparing, "SMALL_MERGE_ROWS", 0))
        yield


@pytest.mark.usefixtures("sized")
def test_one_write_replaces_adds_and_deletes_rows_of_one_type(graph: og.Graph) -> None:
    before = row_ids(graph, PERSON)
    version = graph.entries[PERSON].dataset_version
    commit = change(
        graph,
        (MERGE, "Person", people(Ann=31)),
        (APPEND, "Person", people(Dan=4, Eve=5)),
        (DELETE, "Person", named("Cid")),
    )
    assert counts(commit)[PERSON] == (2, 1, 1)
    assert ids(graph, "Person") == ["Ann", "Bob", "Dan", "Eve"]
    after = row_ids(graph, PERSON)
    assert {name: after[name] for name in ("Ann", "Bob")} == {
        name: before[name] for name in ("Ann", "Bob")
    }
    assert not {after["Dan"], after["Eve"]} & set(before.values())
    # One version of the dataset, one commit of the graph.
    assert graph.entries[PERSON].dataset_version == version + 1
    assert commit is not None
    assert commit.parent_id == graph.history()[1].id
    assert_whole(graph)


@pytest.mark.usefixtures("sized")
def test_edges_of_deleted_nodes_go_but_not_those_pointed_elsewhere(graph: og.Graph) -> None:
    """k1 is Ann-Bob, k2 Bob-Cid, k3 Cid-Cid; o1 is Bob's."""
    commit = change(
        graph,
        (DELETE, "Person", named("Cid")),
        (MERGE, "Knows", edges(k2="Bob-Ann")),
        (APPEND, "Knows", edges(k4="Ann-Ann")),
    )
    assert counts(commit) == {PERSON: (0, 0, 1), KNOWS: (1, 1, 1)}
    assert ids(graph, "Knows") == ["k1", "k2", "k4"]
    assert_whole(graph)


def test_an_edge_given_to_a_node_that_goes_is_refused(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    for mode, name in ((MERGE, "k1"), (APPEND, "k9")):
        with pytest.raises(ConstraintViolationError, match="dst 'Cid' of id"):
            change(
                graph,
                (DELETE, "Person", named("Cid")),
                (mode, "Knows", edges(**{name: "Ann-Cid"})),
            )
    assert files(Path(graph.root)) == before


@pytest.mark.usefixtures("sized")
def test_what_is_deleted_and_given_again_is_replaced(graph: og.Graph) -> None:
    before = row_ids(graph, PERSON), all_ids(graph)
    commit = change(
        graph, (DELETE, "Person", named("Bob", "Nobody")), (APPEND, "Person", people(Bob=7))
    )
    assert counts(commit) == {PERSON: (0, 1, 0)}
    assert (row_ids(graph, PERSON), all_ids(graph)) == before
    assert graph.entity("Person", "Bob")["age"] == 7  # type: ignore[index]


def test_rows_that_must_be_new_are_refused_when_they_exist(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    with pytest.raises(KeyConflictError, match="'Bob' exists already"):
        change(graph, (MERGE, "Person", people(Ann=1)), (APPEND, "Person", people(Bob=1)))
    with pytest.raises(ConstraintViolationError, match="'Dan' is given more than once"):
        change(graph, (MERGE, "Person", people(Dan=1)), (APPEND, "Person", people(Dan=1)))
    assert files(Path(graph.root)) == before


def test_unique_values_are_free_again_when_their_row_goes(graph: og.Graph) -> None:
    def with_mail(name: str, mail: str) -> pa.Table:
        return pa.table({"name": [name], "mail": [mail]})

    change(graph, (APPEND, "Person", with_mail("Dan", "d@x")))
    with pytest.raises(ConstraintViolationError, match="unique"):
        change(graph, (DELETE, "Person", named("Ann")), (APPEND, "Person", with_mail("Eve", "d@x")))
    change(graph, (DELETE, "Person", named("Dan")), (APPEND, "Person", with_mail("Eve", "d@x")))
    assert ids(graph, "Person") == ["Ann", "Bob", "Cid", "Eve"]


def test_cardinality_counts_what_goes_and_what_comes(graph: og.Graph) -> None:
    """Who owns anything owns one or two, and nobody works at two companies."""
    with pytest.raises(ConstraintViolationError, match="'Bob' would have 0 edges"):
        change(graph, (DELETE, "Owns", named("o1")), (APPEND, "Person", people(Dan=1)))
    change(graph, (DELETE, "Owns", named("o1")), (APPEND, "Owns", edges(o2="Bob-Acme")))
    with pytest.raises(ConstraintViolationError, match="'Ann' would have 2 edges"):
        change(graph, (APPEND, "WorksAt", edges(w2="Ann-Umbra")), (DELETE, "Knows", named("k1")))
    change(graph, (DELETE, "WorksAt", named("w1")), (APPEND, "WorksAt", edges(w2="Ann-Umbra")))
    assert ids(graph, "WorksAt") == ["w2"]


def test_only_added_rows_land_as_they_were_staged(graph: og.Graph) -> None:
    write = mixed(graph)
    stage(write, APPEND, "Person", people(Dan=4))
    [staged] = write.changes[PERSON].staged
    commit = write.commit_or_abort()
    assert commit is not None
    assert commit.changes[PERSON] == ChangeSummary("merge", 3, 4, inserted=1)
    assert list(Path(graph.root).glob(f"nodes/*/data/{staged.path}")) != []


def test_nothing_to_do_leaves_nothing(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    assert change(graph, (DELETE, "Person", named("Nobody"))) is None
    empty = people().slice(0, 0)
    assert change(graph, (MERGE, "Person", empty), (APPEND, "Person", empty)) is None
    assert files(Path(graph.root)) == before


def test_an_overwrite_or_a_merge_of_some_columns_stays_alone(graph: og.Graph) -> None:
    write = mixed(graph)
    with pytest.raises(UnsupportedError, match="an overwrite among other changes"):
        write.task("Person", WriteMode.OVERWRITE)
    with pytest.raises(UnsupportedError, match="a merge of some columns among other changes"):
        write.task("Person", MERGE, ["age"])


def test_a_transaction_of_a_user_adds_or_deletes_as_before(graph: og.Graph) -> None:
    with pytest.raises(MixedModesError):
        transact(
            graph,
            lambda tx: tx.merge("Person", people(Ann=1)),
            lambda tx: tx.delete("Person", ids=["Bob"]),
        )


def test_another_commit_meanwhile_is_a_conflict_unless_the_terms_say_rebase(
    graph: og.Graph,
) -> None:
    steps = ((MERGE, "Person", people(Ann=99)), (DELETE, "Person", named("Cid")))
    for terms in (WriteTerms(), WriteTerms(on_conflict=OnConflict.REBASE)):
        write = mixed(graph, terms)
        for mode, type, rows in steps:
            stage(write, mode, type, rows)
        # An edge that the deletion has to take with it.
        graph.write(edges(**{f"new{terms.on_conflict}": "Ann-Cid"}), "Knows")
        if terms.on_conflict is None:
            with pytest.raises(ConflictError):
                write.commit_or_abort()
            assert "Cid" in ids(graph.refresh(), "Person")
        else:
            assert counts(write.commit_or_abort())[KNOWS] == (0, 0, 4)
    assert_whole(graph)


@pytest.mark.usefixtures("sized")
def test_a_branch_is_changed_and_its_origin_is_not(graph: og.Graph) -> None:
    main = all_ids(graph), row_ids(graph, PERSON)
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    change(dev, (MERGE, "Person", people(Ann=1, Dan=2)), (DELETE, "Person", named("Bob")))
    assert ids(dev, "Person") == ["Ann", "Cid", "Dan"]
    assert row_ids(dev, PERSON)["Ann"] == main[1]["Ann"]
    assert (all_ids(graph.refresh()), row_ids(graph, PERSON)) == main
    assert_whole(dev)


def test_a_change_that_fails_half_way_leaves_nothing(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    def second_fails(*args: Any) -> Any:
        if next(calls) == 1:
            raise StorageError("transient", "there", "busy")
        return stage_rewritten(*args)

    before = files(Path(graph.root))
    monkeypatch.setattr(upserting, "stage_rewritten", second_fails)
    with pytest.raises(StorageError, match="busy"):
        change(
            graph,
            (MERGE, "Person", people(Ann=1, Bob=2, Dan=3)),
            (DELETE, "Person", named("Cid")),
            terms=WriteTerms(limits=StageLimits(max_rows_per_file=1)),
        )
    assert files(Path(graph.root)) == before


# -- dying on the way ------------------------------------------------------------------------------

#: Every step that leaves something behind, and whether the change is there in the end.
STEPS: list[tuple[Failpoint, int, bool]] = [
    (points.BEFORE_SIDECAR, 1, False),
    (points.SIDECAR_WRITTEN, 1, False),
    (points.DATASET_COMMITTED, 1, False),
    (points.DATASET_COMMITTED, 2, False),
    (points.BEFORE_PUBLISH, 1, True),
    (points.PUBLISH_LANDED, 1, True),
    (points.AFTER_PUBLISH, 1, True),
    (points.SIDECAR_DELETED, 1, True),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "at", "done"), STEPS, ids=lambda value: getattr(value, "name", None)
)
def test_a_writer_that_dies_at_any_step_is_finished_or_undone(
    graph: og.Graph, point: Failpoint, at: int, done: bool
) -> None:
    def work() -> Commit | None:
        return change(
            graph,
            (MERGE, "Person", people(Ann=31)),
            (APPEND, "Person", people(Dan=4)),
            (DELETE, "Person", named("Cid")),
            (MERGE, "Knows", edges(k2="Bob-Dan")),
            (DELETE, "About", named("a1")),
        )

    def state() -> tuple[dict[str, list[str]], dict[str, int]]:
        return all_ids(graph.refresh()), row_ids(graph, PERSON)

    before = state()
    with crashing(point, at):
        work()
    recover(manifest_of(Path(graph.root)))
    assert_settled(Path(graph.root))
    if not done:
        assert state() == before
        work()
    assert ids(graph.refresh(), "Person") == ["Ann", "Bob", "Dan"]
    assert ids(graph, "Knows") == ["k1", "k2"]
    assert ids(graph, "About") == []
    assert row_ids(graph, PERSON)["Ann"] == before[1]["Ann"]
    assert_whole(graph)


@pytest.mark.engine
def test_the_engine_opens_what_a_mixed_change_left(graph: og.Graph) -> None:
    change(
        graph,
        (MERGE, "Person", people(Ann=31)),
        (APPEND, "Person", people(Dan=4)),
        (DELETE, "Person", named("Cid")),
        (MERGE, "Knows", edges(k2="Bob-Dan")),
    )
    exported = engine_export(Path(graph.root))
    rows = [row["data"] for row in exported if row.get("type") == "Person"]
    found = {row["name"]: row.get("age") for row in rows}
    assert found == {"Ann": 31, "Bob": 41, "Dan": 4}


# -- against a reference ---------------------------------------------------------------------------


@st.composite
def statements(draw: st.DrawFn) -> list[Step]:
    """Steps of any modes, several for one type among them."""
    steps = []
    for type in draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=5)):
        mode = draw(st.sampled_from([MERGE, MERGE, APPEND, DELETE]))
        rows = draw(st.lists(ROWS[type], max_size=3, unique_by=lambda row: str(row["id"])))
        steps.append(Step(type, mode, rows))
    return steps


NUMBERS = itertools.count()


@pytest.mark.slow
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    begin=beginnings(),
    rest=st.lists(statements(), min_size=3, max_size=8),
    large=st.booleans(),
    rows_per_file=st.sampled_from([1, 2, 1000]),
)
def test_a_mixed_change_does_what_the_rules_say_or_nothing(
    tmp_path: Path, begin: list[Step], rest: list[list[Step]], large: bool, rows_per_file: int
) -> None:
    graph = og.create(tmp_path / f"g{next(NUMBERS)}", SCHEMA)
    few = 0 if large else preparing.SMALL_MERGE_ROWS
    state = EMPTY
    with patch.object(preparing, "SMALL_MERGE_ROWS", few):
        for steps in (begin, *rest):
            expected = Reference.after_mixed(state, steps)
            before = graph.refresh().history(1)
            problem, commit = _write(graph, steps, rows_per_file)
            event("refused" if problem else "landed" if commit else "nothing to do")
            assert bool(problem) == (expected is None), (steps, problem)
            state = state if expected is None else expected
            assert state_of(graph) == state
            assert graph.history(1) == ([commit] if commit else before)
    assert_whole(graph)


def _write(graph: og.Graph, steps: Sequence[Step], rows_per_file: int) -> tuple[str, Commit | None]:
    terms = WriteTerms(limits=StageLimits(max_rows_per_file=rows_per_file))
    try:
        made = [(step.mode, step.type, table_of(step)) for step in steps]
        return "", change(graph, *made, terms=terms)
    except (ConstraintViolationError, KeyConflictError) as error:
        return str(error), None
