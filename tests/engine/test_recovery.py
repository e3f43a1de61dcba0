"""Recovery: what writers left half done is finished or undone, whoever they were, once."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import (
    ConflictError,
    DamagedGraphError,
    ForeignCommitError,
    RecoveryRequiredError,
    SchemaApplyInProgressError,
    UnsupportedError,
)
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.recovery import sweep
from omnigraph_spark.recovery.act import Recovery
from omnigraph_spark.recovery.sweep import recover
from omnigraph_spark.tables import METADATA_TABLES
from tests.engine.graphs import ages, listing
from tests.engine.recovering import (
    ALIKE,
    FOREIGN,
    POST,
    PRE,
    UNREADABLE,
    assert_as_the_engine_left_it,
    assert_settled,
    audit,
    manifest_of,
    reached,
    recover_quietly,
    sidecars,
    snapshot_rows,
)
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder
from tests.helpers.crashes import crashing, load, recover_round
from tests.helpers.racers import Racers
from tests.helpers.strict import at_once

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", ALIKE)
def test_every_crashed_graph_ends_where_the_engine_ends(case: str, tmp_path: Path) -> None:
    root = golden.unpack(case, tmp_path)
    og.open(root)
    assert_as_the_engine_left_it(root, case)
    for branch in golden.Expected(case).after.branches():
        if "drift" not in case:
            assert_settled(root, branch)


@pytest.mark.parametrize("case", ALIKE)
def test_a_second_recovery_changes_nothing(case: str, tmp_path: Path) -> None:
    root = golden.unpack(case, tmp_path)
    recover(manifest_of(root))
    before = listing(root)
    assert recover(manifest_of(root)) == []
    og.open(root)
    assert listing(root) == before


@pytest.mark.parametrize("case", ALIKE)
def test_the_next_write_works(case: str, tmp_path: Path) -> None:
    root = golden.unpack(case, tmp_path)
    if case == "crashed-apply-locked":
        with pytest.raises(SchemaApplyInProgressError):
            og.open(root).write(pa.table({"name": ["Zoe"]}), "Person", mode="merge")
        assert og.open(root).release_schema_lock()
    for branch in golden.Expected(case).after.branches():
        graph = og.open(root, branch=branch)
        if "drift" in case:
            assert graph.repair(force=True)
        commit = graph.write(pa.table({"name": ["Zoe"]}), "Person", mode="merge")
        assert commit is not None
        assert graph.entity("Person", "Zoe") is not None
    assert sidecars(root) == []


@pytest.mark.parametrize("case", ALIKE)
def test_opening_for_reading_never_recovers(case: str, tmp_path: Path) -> None:
    root = golden.unpack(case, tmp_path)
    before = listing(root)
    graph = og.open(root, mode="r")
    snapshot_rows(graph)
    graph.health()
    with pytest.raises(UnsupportedError):
        graph.recover()
    assert listing(root) == before


def test_recovering_says_what_was_done(tmp_path: Path) -> None:
    root = golden.unpack("crashed-partial", tmp_path)
    [done] = recover(manifest_of(root))
    graph = og.open(root)
    [sidecar] = (golden.GOLDEN / "crashed-partial" / "sidecars").iterdir()
    assert done == Recovery(sidecar.stem, done.kind, done.tables, graph.history()[0])
    assert (done.kind, done.commit.actor) == ("RolledBack", "omnigraph:recovery")
    [outcome] = done.tables
    assert (outcome.type_key, outcome.from_version, outcome.to_version) == ("node:Person", 6, 5)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "error"), UNREADABLE.items())
def test_a_sidecar_that_cannot_be_read_stops_writers_and_not_readers(
    case: str, error: type[og.OmnigraphError], tmp_path: Path
) -> None:
    root = golden.unpack(case, tmp_path)
    with pytest.warns(UserWarning, match=error.code):
        graph = og.open(root)
    before = listing(root)
    assert len(ages(graph)) == 4
    with pytest.raises(error):
        graph.recover()
    with pytest.raises(error):
        graph.write(pa.table({"name": ["Zoe"]}), "Person")
    assert listing(root) == before
    [found] = [found for found in graph.health() if found.kind == "unreadable_sidecar"]
    assert found.remedy


def test_a_readable_sidecar_waits_for_one_that_is_not(tmp_path: Path) -> None:
    root = golden.unpack("crashed-unpublished", tmp_path)
    (root / "__recovery" / "01M7H9PBP8GM3PE25C4JB472P2.json").write_text("{")
    with pytest.raises(DamagedGraphError):
        recover(manifest_of(root))
    assert len(sidecars(root)) == 2


def test_a_sidecar_under_another_name_is_refused(tmp_path: Path) -> None:
    root = golden.unpack("crashed-armed", tmp_path)
    [sidecar] = root.glob("__recovery/*.json")
    sidecar.rename(sidecar.with_stem("01M7H9PBP8GM3PE25C4JB472P2"))
    with pytest.raises(DamagedGraphError, match="rename the file"):
        recover(manifest_of(root))


def test_another_writers_commit_on_top_is_not_lost_unasked(tmp_path: Path) -> None:
    root = golden.unpack(FOREIGN, tmp_path)
    with pytest.warns(UserWarning, match="OMNIGRAPH_FOREIGN_COMMIT"):
        graph = og.open(root)
    before = listing(root)
    with pytest.raises(ForeignCommitError, match=r"version 7 of node:Person \(Append\)") as caught:
        graph.recover()
    assert "force=True" in str(caught.value)
    with pytest.raises(ForeignCommitError):
        graph.write(pa.table({"name": ["Zoe"]}), "Person")
    assert listing(root) == before
    assert len(ages(graph)) == 4


def test_forced_it_is_undone_as_the_engine_does(tmp_path: Path) -> None:
    root = golden.unpack(FOREIGN, tmp_path)
    recover(manifest_of(root), force=True)
    assert_as_the_engine_left_it(root, FOREIGN)
    assert_settled(root)


def test_a_dataset_behind_its_pin_is_touched_by_nobody(tmp_path: Path) -> None:
    root = golden.unpack("crashed-undeleted", tmp_path)
    for path in ("nodes/40d76f1f51639ec0", "nodes/7cb4e55c59663b1c"):
        min((root / path / "_versions").iterdir()).unlink()
    recover_quietly(root)
    before = listing(root)
    with pytest.raises(DamagedGraphError, match="is at version 5 and the manifest pins 6"):
        recover(manifest_of(root))
    assert listing(root) == before


def test_what_the_engine_must_undo_is_not_undone_by_a_write(tmp_path: Path) -> None:
    """Nothing tells whether its writer is alive; opening the graph anew does it."""
    root = golden.unpack("crashed-unpublished", tmp_path)
    graph = og.open(root)
    shutil.rmtree(root)
    golden.unpack("crashed-partial", tmp_path).rename(root)
    with pytest.raises(RecoveryRequiredError, match="must be undone"):
        graph.write(pa.table({"name": ["Zoe"]}), "Person")
    assert len(sidecars(root)) == 1
    assert len(graph.recover()) == 1
    assert graph.write(pa.table({"name": ["Zoe"]}), "Person") is not None


def test_what_can_be_finished_is_finished_by_the_next_write(tmp_path: Path) -> None:
    root = golden.unpack("crashed-undeleted", tmp_path)
    graph = og.open(root)
    shutil.rmtree(root)
    golden.unpack("crashed-unpublished", tmp_path).rename(root)
    commit = graph.write(pa.table({"name": ["Zoe"]}), "Person")
    assert commit is not None
    assert [record.kind for record in audit(root)] == ["RolledForward"]
    assert len(ages(graph)) == 6


# -- crashes of recovery itself --------------------------------------------------------------------

CRASHING = {
    points.DATASET_RESTORED: ["crashed-partial", "crashed-branch-partial", "crashed-index-step"],
    points.RECOVERY_PUBLISHED: [
        "crashed-armed",
        "crashed-partial",
        "crashed-unpublished",
        "crashed-undeleted",
        "crashed-branch-partial",
        "crashed-merge-confirmed",
        "crashed-orphan-branch",
        "crashed-apply-staged",
        "crashed-apply-property-staged",
        "crashed-apply-unstaged",
    ],
    points.SCHEMA_FILE_MOVED: ["crashed-apply-staged", "crashed-apply-property-staged"],
    points.RECOVERY_AUDITED: [
        "crashed-partial",
        "crashed-unpublished",
        "crashed-branch-unpublished",
        "crashed-orphan-branch",
        "crashed-apply-staged",
        "crashed-two-sidecars",
    ],
}


@pytest.mark.parametrize(
    ("point", "case"),
    [(point, case) for point, cases in CRASHING.items() for case in cases],
    ids=lambda value: value.name if isinstance(value, Failpoint) else value,
)
def test_a_recovery_that_dies_twice_ends_where_one_that_does_not_ends(
    point: Failpoint, case: str, tmp_path: Path
) -> None:
    root = golden.unpack(case, tmp_path)
    with crashing(point):
        recover(manifest_of(root))
    if point not in (points.DATASET_RESTORED, points.SCHEMA_FILE_MOVED):
        # These two are not reached again for the same step: what they did is found done.
        with crashing(point):
            recover(manifest_of(root))
    recover(manifest_of(root))
    assert_as_the_engine_left_it(root, case)
    for branch in golden.Expected(case).after.branches():
        assert_settled(root, branch)


# -- several at once -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["crashed-partial", "crashed-unpublished", "crashed-armed"])
def test_two_processes_recover_at_once_to_one_effect(
    case: str, tmp_path: Path, racers: Racers
) -> None:
    rounds = 4
    for number in range(rounds):
        golden.unpack(case, tmp_path).rename(tmp_path / f"g{number}")
    answers = racers.run(recover_round, (str(tmp_path),), (str(tmp_path),), rounds=rounds)
    for number, done in enumerate(zip(*answers, strict=True)):
        assert sorted(map(len, done)) == [0, 1]
        assert_as_the_engine_left_it(tmp_path / f"g{number}", case)


@pytest.mark.parametrize("case", ["crashed-partial", "crashed-unpublished", "crashed-armed"])
def test_they_also_do_where_there_are_no_locks(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on object stores: every step is a race, and one of both does it."""
    monkeypatch.setattr(sweep, "writer_lock", lambda *_: nullcontext())
    root = golden.unpack(case, tmp_path)
    at_once([lambda: recover(manifest_of(root))] * 2)
    recover(manifest_of(root))
    assert_as_the_engine_left_it(root, case)
    assert_settled(root)


def test_a_writer_of_the_engine_that_was_alive_loses_nothing_and_blocks_nobody(
    tmp_path: Path,
) -> None:
    """It takes no lock: it goes on while its first dataset is being undone, and publishes."""
    root = golden.unpack("crashed-partial", tmp_path)
    engine = GraphBuilder.open(root)
    person = engine.entries()["node:Person"]
    moved = lance.dataset(str(root / person.path))

    def goes_on() -> None:
        points.disarm()
        engine.append("node:Company", [{"name": "Umbra"}])
        pin = replace(person, version=moved.version, rows=moved.count_rows())
        company = engine.entries()["node:Company"]
        head = lance.dataset(str(root / company.path))
        other = replace(company, version=head.version, rows=head.count_rows())
        engine.publish({"node:Person": pin, "node:Company": other})
        for name in sidecars(root):
            (root / "__recovery" / name).unlink()

    with reached(points.DATASET_RESTORED, goes_on):
        recover(manifest_of(root))
    graph = og.open(root)
    assert graph.snapshot().rows("Person") == moved.count_rows()
    assert "Umbra" in graph.snapshot().arrow("Company")["name"].to_pylist()
    assert_settled(root)
    assert graph.write(pa.table({"name": ["Zoe"]}), "Person") is not None


def test_a_live_writer_is_waited_for_and_not_undone(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_done, go_on = Event(), Event()

    def pause() -> None:
        half_done.set()
        assert go_on.wait(30)

    graph = og.open(written)
    with reached(points.DATASET_COMMITTED, pause), ThreadPoolExecutor(2) as pool:
        writing = pool.submit(load, graph)
        assert half_done.wait(30)
        with pytest.raises(ConflictError, match="held the lock of branch"):
            recover(manifest_of(written), wait_seconds=0.05)
        with monkeypatch.context() as impatient:
            impatient.setattr(sweep, "_OPEN_WAIT_SECONDS", 0.05)
            assert ages(og.open(written)) == PRE
        opening = pool.submit(og.open, written)
        go_on.set()
        assert ages(opening.result(30)) == POST
        writing.result(30)
    assert audit(written) == []


# -- tables ----------------------------------------------------------------------------------------


def table(root: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        METADATA_TABLES[name].read(og.open(root, mode="r")._state).to_pylist()
    )
    return rows


def test_unfinished_writes_are_listed_with_what_recovery_would_do(tmp_path: Path) -> None:
    root = golden.unpack("crashed-branch-partial", tmp_path)
    [row] = table(root, "sidecars")
    assert (row["writer"], row["branch"], row["actor"]) == ("Load", "feature", "act-crash")
    assert row["types"] == ["node:Person", "node:Company"]
    assert (row["decision"], row["problem"]) == ("RollBack", None)
    assert table(root, "recoveries") == []
    og.open(root)
    assert table(root, "sidecars") == []
    [row] = table(root, "recoveries")
    assert (row["kind"], row["outcomes"]) == ("RolledBack", ["node:Person 6 -> 5"])


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_unreadable_sidecar_is_listed_with_its_problem(case: str, tmp_path: Path) -> None:
    root = golden.unpack(case, tmp_path)
    [row] = table(root, "sidecars")
    assert row["decision"] is None
    assert row["operation_id"] in row["problem"]
