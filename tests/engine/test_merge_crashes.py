"""Merges that die at any step (RS-42): undone before they are confirmed, finished after."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import ConflictError, HeadMovedError, StorageError
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.formats.v4.sidecar import Sidecar, WriterKind
from omnigraph_spark.merge import landing
from omnigraph_spark.recovery.sweep import recover
from tests.engine.graphs import COMPANY, PERSON, ages
from tests.engine.recovering import (
    POST,
    PRE,
    assert_settled,
    audit,
    fail_once,
    manifest_of,
    reached,
    sidecars,
)
from tests.helpers.builder import GraphBuilder
from tests.helpers.crashes import crashing, load, merge, write_dev

pytestmark = pytest.mark.slow

#: Every step of a merge that moves two datasets, and what it ends in.
STEPS: list[tuple[Failpoint, int, dict[str, int], str | None]] = [
    (points.BEFORE_SIDECAR, 1, PRE, None),
    (points.SIDECAR_WRITTEN, 1, PRE, "RolledBack"),
    (points.DATASET_COMMITTED, 1, PRE, "RolledBack"),
    (points.DATASET_COMMITTED, 2, PRE, "RolledBack"),
    (points.MERGE_CONFIRMED, 1, POST, "RolledForward"),
    (points.BEFORE_PUBLISH, 1, POST, "RolledForward"),
    (points.PUBLISH_LANDED, 1, POST, "RolledForward"),
    (points.AFTER_PUBLISH, 1, POST, "RolledForward"),
    (points.SIDECAR_DELETED, 1, POST, None),
]


def step_name(value: object) -> str | None:
    return value.name if isinstance(value, Failpoint) else None


@pytest.fixture
def branched(written: Path) -> Path:
    write_dev(og.open(written))
    return written


@pytest.mark.parametrize(("point", "at", "ends_in", "kind"), STEPS, ids=step_name)
def test_a_merge_that_dies_is_undone_before_it_is_confirmed_and_finished_after(
    branched: Path, point: Failpoint, at: int, ends_in: dict[str, int], kind: str | None
) -> None:
    """RS-42. Merged again it is complete, and there is one merge commit (RS-46)."""
    source = og.open(branched, branch="dev", mode="r").snapshot().commit
    with crashing(point, at):
        merge(og.open(branched))
    recovered = recover(manifest_of(branched))
    assert [done.kind for done in recovered] == ([] if kind is None else [kind])
    assert all(record.writer == WriterKind.BRANCH_MERGE for record in audit(branched))
    graph = og.open(branched)
    assert ages(graph) == ends_in
    assert_settled(branched)
    again = graph.merge("dev")
    assert ages(graph) == POST
    assert graph.snapshot().rows("Knows") == 2
    merges = [each for each in graph.history() if each.merged_parent_id is not None]
    assert [(each.id, each.merged_parent_id) for each in merges] == [(again.id, source.id)]
    assert graph.preview_merge("dev").outcome == "up_to_date"
    assert_settled(branched)


#: A merge of main into `dev`, which has its own people and has never written companies.
MIXED: list[tuple[Failpoint, int, bool, str | None]] = [
    (points.SIDECAR_WRITTEN, 1, False, "RolledBack"),
    (points.DATASET_COMMITTED, 1, False, "RolledBack"),
    (points.BEFORE_PUBLISH, 1, False, "RolledBack"),
    (points.AFTER_PUBLISH, 1, True, "RolledForward"),
]


@pytest.mark.parametrize(("point", "at", "done", "kind"), MIXED, ids=step_name)
def test_a_merge_that_also_takes_datasets_over_is_undone_until_it_is_visible(
    branched: Path, point: Failpoint, at: int, done: bool, kind: str | None
) -> None:
    """RS-42: whoever recovers it knows nothing of the types whose datasets do not move."""
    main = og.open(branched)
    with main.transaction() as tx:
        tx.merge("Person", pa.table({"name": ["Dora"], "age": [60]}))
        tx.append("Company", pa.table({"name": ["Umbra"]}))
    with crashing(point, at):
        main.merge("main", into="dev")
    [recovered] = recover(manifest_of(branched))
    assert recovered.kind == kind
    dev = og.open(branched, branch="dev")
    assert ages(dev) == (POST | {"Dora": 60} if done else POST)
    assert dev.snapshot().rows("Company") == (2 if done else 1)
    dev.merge("main", into="dev")
    assert ages(dev) == POST | {"Dora": 60}
    assert dev.snapshot().rows("Company") == 2
    assert_settled(branched, "dev")


def test_a_sidecar_of_a_merge_names_the_source_and_then_what_was_reached(branched: Path) -> None:
    source = og.open(branched, branch="dev", mode="r").snapshot().commit
    found: list[Sidecar] = []

    def look() -> None:
        [name] = sidecars(branched)
        found.append(Sidecar.from_bytes((branched / "__recovery" / name).read_bytes()))

    for point in (points.SIDECAR_WRITTEN, points.MERGE_CONFIRMED):
        points.arm(point, look)
    try:
        merge(og.open(branched))
    finally:
        points.disarm()
    armed, confirmed = found
    assert armed.writer is confirmed.writer is WriterKind.BRANCH_MERGE
    assert armed.merge_source_id == confirmed.merge_source_id == source.id
    assert [pin.confirmed_version for pin in armed.pins] == [None, None]
    pins = og.open(branched).entries
    assert {pin.type_key: pin.confirmed_version for pin in confirmed.pins} == {
        key: pins[key].dataset_version for key in ("node:Person", "edge:Knows")
    }


def test_a_merge_whose_confirmation_cannot_be_written_undoes_itself(
    branched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny() -> None:
        fail_once(monkeypatch, "write", "__recovery/")

    with reached(points.DATASET_COMMITTED, deny, at=2), pytest.raises(StorageError):
        merge(og.open(branched))
    assert ages(og.open(branched)) == PRE
    assert_settled(branched)
    merge(og.open(branched))
    assert ages(og.open(branched)) == POST


@pytest.mark.parametrize(
    ("point", "rows"),
    [
        (points.SIDECAR_WRITTEN, {PERSON: [{"name": "Dave", "age": 50}]}),
        (points.DATASET_COMMITTED, {PERSON: [{"name": "Dave", "age": 50}]}),
        (points.MERGE_CONFIRMED, {COMPANY: [{"name": "Umbra"}]}),
        (points.BEFORE_PUBLISH, {COMPANY: [{"name": "Umbra"}]}),
    ],
    ids=step_name,
)
def test_a_merge_that_another_writer_overtakes_in_its_effect_window_undoes_itself(
    branched: Path, point: Failpoint, rows: dict[str, list[dict[str, object]]]
) -> None:
    """RS-43: a writer that takes no lock, as the engine, lands in the middle."""
    other = GraphBuilder.open(branched)
    with reached(point, lambda: other.write(rows) and None), pytest.raises(ConflictError):
        merge(og.open(branched))
    graph = og.open(branched)
    added = {"Dave": 50} if PERSON in rows else {}
    assert ages(graph) == PRE | added
    assert_settled(branched)
    merge(graph)
    assert ages(graph) == POST | added


def test_a_merge_of_a_target_that_has_a_dead_writer_begins_after_it_is_recovered(
    branched: Path,
) -> None:
    with crashing(points.DATASET_COMMITTED):
        load(og.open(branched))
    graph = og.open(branched, mode="r")
    assert len(sidecars(branched)) == 1
    writer = og.Graph(graph._reader, actor="ann")
    writer.merge("dev")
    assert ages(writer.refresh()) == POST
    assert_settled(branched)


def test_what_is_recovered_while_a_merge_is_worked_out_makes_it_fail_before_effects(
    branched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = landing.heal

    def meanwhile(*args: object, **kwargs: object) -> object:
        with crashing(points.BEFORE_PUBLISH):
            # Another process, which died holding the lock that this one then got.
            monkeypatch.setattr("omnigraph_spark.writing.write.writer_lock", _no_lock)
            og.open(branched).write(pa.table({"name": ["Umbra"]}), "Company")
        return real(*args, **kwargs)

    monkeypatch.setattr(landing, "heal", meanwhile)
    with pytest.raises(HeadMovedError, match="recovered"):
        merge(og.open(branched))
    graph = og.open(branched)
    assert ages(graph) == PRE
    assert graph.snapshot().rows("Company") == 2


def _no_lock(*_: object) -> AbstractContextManager[None]:
    return nullcontext()
