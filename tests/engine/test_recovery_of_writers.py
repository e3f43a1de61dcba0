"""Writers of ours that die or fail at any step: finished or undone, by themselves if they live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import (
    ConflictError,
    ForeignCommitError,
    RecoveryRequiredError,
    StorageError,
)
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.formats.v4.sidecar import Sidecar
from omnigraph_spark.recovery import act
from omnigraph_spark.recovery.act import carry_out
from omnigraph_spark.recovery.classify import Decision
from omnigraph_spark.recovery.observe import observe
from omnigraph_spark.recovery.sweep import heal, recover, undo
from omnigraph_spark.storage.local_objects import LocalObjects
from omnigraph_spark.writing import landing
from tests.engine.graphs import add_people, ages, listing
from tests.engine.recovering import (
    POST,
    PRE,
    assert_as_the_engine_left_it,
    assert_settled,
    audit,
    fail,
    fail_once,
    manifest_of,
    reached,
    sidecars,
)
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder
from tests.helpers.crashes import crashing, load

pytestmark = pytest.mark.slow

#: Every step of a write of two types that leaves something behind, and what it ends in.
STEPS: list[tuple[Failpoint, int, dict[str, int], str | None]] = [
    (points.BEFORE_SIDECAR, 1, PRE, None),
    (points.SIDECAR_WRITTEN, 1, PRE, "RolledBack"),
    (points.DATASET_COMMITTED, 1, PRE, "RolledBack"),
    (points.DATASET_COMMITTED, 2, POST, "RolledForward"),
    (points.BEFORE_PUBLISH, 1, POST, "RolledForward"),
    (points.PUBLISH_LANDED, 1, POST, "RolledForward"),
    (points.AFTER_PUBLISH, 1, POST, "RolledForward"),
    (points.SIDECAR_DELETED, 1, POST, None),
]


def step_name(value: object) -> str | None:
    return value.name if isinstance(value, Failpoint) else None


@pytest.mark.parametrize(("point", "at", "ends_in", "kind"), STEPS, ids=step_name)
def test_a_writer_that_dies_at_any_step_is_finished_or_undone(
    written: Path, point: Failpoint, at: int, ends_in: dict[str, int], kind: str | None
) -> None:
    graph = og.open(written)
    with crashing(point, at):
        load(graph)
    found = ages(og.open(written, mode="r"))
    assert found in (PRE, POST)
    recovered = recover(manifest_of(written))
    assert [done.kind for done in recovered] == ([] if kind is None else [kind])
    assert ages(og.open(written)) == ends_in
    assert_settled(written)
    commits = og.open(written).history()
    assert len({commit.id[10:] for commit in commits}) == len(commits)
    if ends_in is PRE:
        load(og.open(written))
    assert ages(og.open(written)) == POST


@pytest.mark.parametrize(("point", "at", "ends_in", "kind"), STEPS, ids=step_name)
def test_the_same_piece_of_work_is_done_once_however_often_its_writer_dies(
    written: Path, point: Failpoint, at: int, ends_in: dict[str, int], kind: str | None
) -> None:
    def work() -> og.Commit | None:
        with og.open(written).transaction(txn_app_id="job", txn_version=1) as tx:
            tx.append("Person", pa.table({"name": ["Carol"], "age": [7]}))
            tx.append("Knows", pa.table({"src": ["Carol"], "dst": ["Alice"]}))
        return tx.commit

    with crashing(point, at):
        work()
    first, second = work(), work()
    assert first is not None
    assert first == second
    graph = og.open(written)
    assert ages(graph) == {**PRE, "Carol": 7}
    assert graph.snapshot().rows("Knows") == 2


#: The same on a branch that never wrote these types: they are forked first.
FIRST_TOUCH: list[tuple[Failpoint, int, dict[str, int], str | None]] = [
    (points.FORK_CREATED, 1, PRE, None),
    (points.FORK_CREATED, 2, PRE, None),
    (points.SIDECAR_WRITTEN, 1, PRE, "RolledBack"),
    (points.DATASET_COMMITTED, 1, PRE, "RolledBack"),
    (points.BEFORE_PUBLISH, 1, POST, "RolledForward"),
]


@pytest.mark.parametrize(("point", "at", "ends_in", "kind"), FIRST_TOUCH, ids=step_name)
def test_the_first_write_on_a_branch_that_dies_leaves_a_branch_that_can_be_written(
    written: Path, point: Failpoint, at: int, ends_in: dict[str, int], kind: str | None
) -> None:
    og.open(written).create_branch("dev")
    with crashing(point, at):
        load(og.open(written, branch="dev"))
    recovered = recover(manifest_of(written))
    assert [done.kind for done in recovered] == ([] if kind is None else [kind])
    dev = og.open(written, branch="dev")
    assert ages(dev) == ends_in
    assert_settled(written, "dev")
    if ends_in is PRE:
        load(dev)
    assert ages(dev) == POST
    assert ages(og.open(written)) == PRE
    assert {str(found.kind) for found in dev.health()} <= {"missing_index"}


def test_a_commit_of_ours_that_went_through_needs_no_second_one(written: Path) -> None:
    with crashing(points.AFTER_PUBLISH):
        load(og.open(written))
    commits = len(og.open(written, mode="r").history())
    [done] = recover(manifest_of(written))
    graph = og.open(written)
    assert len(graph.history()) == commits
    assert done.commit == graph.history()[0]
    assert done.commit.actor == "act-crash"


def test_a_write_begins_after_what_its_branch_has_pending(written: Path) -> None:
    graph = og.open(written)
    with crashing(points.DATASET_COMMITTED):
        load(graph)
    # An overwrite gives up when the head moves, so it has to begin after the recovery.
    commit = graph.write(pa.table({"name": ["Umbra"]}), "Company", mode="overwrite")
    assert commit is not None
    assert [record.kind for record in audit(written)] == ["RolledBack"]
    assert ages(graph) == PRE


def test_other_branches_are_left_to_their_own_writers(written: Path) -> None:
    graph = og.open(written)
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    with crashing(points.DATASET_COMMITTED):
        load(dev)
    assert graph.write(pa.table({"name": ["Umbra"]}), "Company") is not None
    assert len(sidecars(written)) == 1
    [done] = graph.recover()
    assert done.commit.branch == "dev"
    assert ages(og.open(written, branch="dev")) == PRE
    assert_settled(written, "dev")
    load(og.open(written, branch="dev"))
    assert ages(og.open(written, branch="dev")) == POST


def test_a_foreign_commit_beside_a_dead_writer_is_left_to_repair(written: Path) -> None:
    """It took the version that ours would have had: the engine would publish it as ours."""
    with crashing(points.SIDECAR_WRITTEN):
        load(og.open(written))
    folder = str(written / manifest_of(written).head().entries["node:Person"].path)
    lance.dataset(folder).delete("name = 'Alice'")
    [done] = recover(manifest_of(written))
    assert (done.kind, done.tables) == ("RolledBack", ())
    graph = og.open(written)
    assert ages(graph) == PRE
    [found] = [found for found in graph.health() if found.kind == "head_ahead"]
    assert found.type_key == "node:Person"


def test_a_foreign_commit_on_top_of_ours_is_found_by_name(written: Path) -> None:
    with crashing(points.BEFORE_PUBLISH):
        load(og.open(written))
    folder = str(written / manifest_of(written).head().entries["node:Person"].path)
    lance.dataset(folder).delete("name = 'Alice'")
    with pytest.raises(ForeignCommitError, match="Delete"):
        recover(manifest_of(written))
    [done] = recover(manifest_of(written), force=True)
    assert done.kind == "RolledBack"
    assert ages(og.open(written)) == PRE
    assert_settled(written)


# -- a landing that fails half-way -----------------------------------------------------------------


def test_a_writer_undoes_its_own_half_and_tries_again(written: Path) -> None:
    """Another writer takes the second dataset after the first one landed."""
    other = GraphBuilder.open(written)
    with reached(points.DATASET_COMMITTED, lambda: add_people(other, Dave=50) and None):
        load(og.open(written))
    graph = og.open(written)
    assert ages(graph) == {**POST, "Dave": 50}
    assert graph.snapshot().rows("Knows") == 2
    assert [record.kind for record in audit(written)] == ["RolledBack"]
    assert_settled(written)


def test_a_writer_whose_publish_lost_undoes_all_and_tries_again(written: Path) -> None:
    other = GraphBuilder.open(written)
    with reached(points.BEFORE_PUBLISH, lambda: add_people(other, Dave=50) and None):
        og.open(written).write(pa.table({"src": ["Bob"], "dst": ["Alice"]}), "Knows")
    graph = og.open(written)
    assert ages(graph) == {**PRE, "Dave": 50}
    assert graph.snapshot().rows("Knows") == 2
    [record] = audit(written)
    assert [(made.type_key, made.to_version) for made in record.outcomes] == [("edge:Knows", 2)]
    assert_settled(written)


def test_one_that_may_not_try_again_says_who_was_faster(written: Path) -> None:
    other = GraphBuilder.open(written)
    with (
        reached(points.BEFORE_PUBLISH, lambda: add_people(other, Dave=50) and None),
        pytest.raises(ConflictError, match="landed first"),
    ):
        og.open(written).write(pa.table({"name": ["Umbra"]}), "Company", mode="overwrite")
    graph = og.open(written)
    assert graph.snapshot().arrow("Company")["name"].to_pylist() == ["Acme"]
    assert_settled(written)


def test_storage_that_fails_between_two_datasets_costs_nothing_but_the_write(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.open(written)
    with (
        reached(points.DATASET_COMMITTED, lambda: fail_once(monkeypatch, "place", "_versions")),
        pytest.raises(StorageError, match="no space"),
    ):
        load(graph)
    assert ages(og.open(written)) == PRE
    assert [record.kind for record in audit(written)] == ["RolledBack"]
    assert_settled(written)
    load(og.open(written))
    assert ages(og.open(written)) == POST


def test_what_a_writer_cannot_undo_its_sidecar_owns(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.open(written)
    with monkeypatch.context() as broken:
        with (
            reached(points.DATASET_COMMITTED, lambda: fail(broken, "place", "_versions")),
            pytest.raises(RecoveryRequiredError, match="no space"),
        ):
            load(graph)
        assert ages(og.open(written, mode="r")) == PRE
    assert len(sidecars(written)) == 1
    assert ages(og.open(written)) == PRE
    assert_settled(written)


def test_one_that_was_taken_for_dead_undoes_the_rest_of_itself(written: Path) -> None:
    """As on an object store: the sidecar is recovered and gone, and then the writer goes on."""
    graph = og.open(written)

    def taken_for_dead() -> None:
        points.disarm()
        [path] = (written / "__recovery").glob("*.json")
        sidecar = Sidecar.from_bytes(path.read_bytes())
        undo(manifest_of(written), sidecar)

    with reached(points.DATASET_COMMITTED, taken_for_dead):
        load(graph)
    assert ages(og.open(written)) == POST
    assert [record.kind for record in audit(written)] == ["RolledBack"]
    assert_settled(written)


def test_one_that_was_finished_by_another_takes_that_for_its_own(written: Path) -> None:
    graph = og.open(written)

    def finished() -> None:
        points.disarm()
        assert len(heal(manifest_of(written), "main", held=True)) == 1

    with reached(points.BEFORE_PUBLISH, finished):
        load(graph)
    assert ages(og.open(written)) == POST
    head, *_ = og.open(written).history()
    assert head.actor == "omnigraph:recovery"
    assert_settled(written)


def finish_when_restored(root: Path) -> None:
    """Let another process finish the write that is being undone, in the middle of that.

    As on an object store after a lease ran out, and as the engine does, which knows no locks.
    """
    manifest = manifest_of(root)
    [path] = (root / "__recovery").glob("*.json")
    seen = observe(manifest, Sidecar.from_bytes(path.read_bytes()))
    points.arm(
        points.DATASET_RESTORED, lambda: carry_out(manifest, seen, Decision.ROLL_FORWARD) and None
    )


def refuse_once(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: ConflictError | StorageError
) -> None:
    """Let the next publish of a writer fail, and its undoing meet another process."""
    real = landing.publish

    def refusing(*args: Any, **kwargs: Any) -> og.Commit:
        monkeypatch.setattr(landing, "publish", real)
        finish_when_restored(root)
        raise error

    monkeypatch.setattr(landing, "publish", refusing)


def test_a_write_that_is_finished_by_another_while_it_is_undone_keeps_its_files(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was visible: its writer must not take it for somebody else's and throw its rows away."""
    graph = og.open(written)
    refuse_once(written, monkeypatch, ConflictError("too many others"))
    try:
        graph.write(
            pa.table({"name": ["Dave"], "age": [50]}), "Person", txn_app_id="a", txn_version=1
        )
    finally:
        points.disarm()
    graph = og.open(written)
    assert ages(graph) == {**PRE, "Dave": 50}
    assert_settled(written)
    graph.write(pa.table({"name": ["Eve"], "age": [9]}), "Person")
    assert ages(og.open(written)) == {**PRE, "Dave": 50, "Eve": 9}


def test_a_write_that_is_finished_by_another_while_it_is_undone_is_no_failure(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever were told that nothing happened would do it again."""
    graph = og.open(written)
    refuse_once(written, monkeypatch, StorageError("permanent", str(written), "no space"))
    try:
        graph.write(pa.table({"name": ["Dave"], "age": [50]}), "Person")
    finally:
        points.disarm()
    assert ages(og.open(written)) == {**PRE, "Dave": 50}
    assert_settled(written)


def test_a_write_is_not_finished_on_what_it_read_before_somebody_changed_it(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine deletes an end of the edge after recovery looked and before it publishes."""
    graph = og.open(written)
    graph.write(pa.table({"name": ["Dave"], "age": [50]}), "Person")
    with crashing(points.BEFORE_PUBLISH):
        graph.write(pa.table({"src": ["Bob"], "dst": ["Dave"]}), "Knows")
    real, other = act.publish, GraphBuilder.open(written)

    def overtaken(*args: Any, **kwargs: Any) -> og.Commit:
        monkeypatch.setattr(act, "publish", real)
        other.delete("node:Person", "id = 'Dave'")
        other.publish()
        return real(*args, **kwargs)

    monkeypatch.setattr(act, "publish", overtaken)
    [done] = recover(manifest_of(written))
    assert done.kind == "RolledBack"
    graph = og.open(written)
    assert ages(graph) == PRE
    assert graph.snapshot().rows("Knows") == 1
    assert_settled(written)


# -- sidecars and storage that fails ---------------------------------------------------------------


def test_a_sidecar_that_cannot_be_written_means_that_nothing_happened(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.open(written)
    load_files = set(listing(written))
    with monkeypatch.context() as broken:
        fail(broken, "write", "__recovery")
        with pytest.raises(StorageError, match="no space"):
            load(graph)
    assert ages(og.open(written)) == PRE
    assert audit(written) == []
    assert_settled(written)
    left = {path for path in set(listing(written)) - load_files if path.endswith(".lance")}
    assert left == set()


def test_a_sidecar_that_cannot_be_deleted_is_a_warning_and_healed_later(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.open(written)
    with monkeypatch.context() as broken:
        fail(broken, "delete", "__recovery")
        with pytest.warns(UserWarning, match="stayed behind"):
            load(graph)
    assert ages(graph) == POST
    assert len(sidecars(written)) == 1
    assert graph.write(pa.table({"name": ["Umbra"]}), "Company") is not None
    assert sidecars(written) == []
    assert [record.kind for record in audit(written)] == ["RolledForward"]


def test_sidecars_that_cannot_be_listed_stop_writers_loudly(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.open(written)
    with monkeypatch.context() as broken:
        fail(broken, "listing", "__recovery")
        for write in (lambda: og.open(written), graph.recover, lambda: load(graph)):
            with pytest.raises(StorageError, match="no space"):
                write()
        assert ages(og.open(written, mode="r")) == PRE
    load(graph)


def test_a_sidecar_that_goes_while_it_is_read_was_finished(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crashing(points.AFTER_PUBLISH):
        load(og.open(written))
    real = LocalObjects.read

    def gone(self: LocalObjects, address: str) -> bytes | None:
        if "__recovery" in address:
            Path(address).unlink(missing_ok=True)
        return real(self, address)

    monkeypatch.setattr(LocalObjects, "read", gone)
    assert recover(manifest_of(written)) == []
    assert ages(og.open(written)) == POST


@pytest.mark.parametrize("case", ["crashed-partial", "crashed-unpublished", "crashed-undeleted"])
def test_an_audit_row_that_fails_keeps_the_sidecar_and_there_is_one_in_the_end(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden.unpack(case, tmp_path)
    with monkeypatch.context() as broken:
        fail(broken, "place", "_graph_commit_recoveries")
        with pytest.raises(StorageError, match="no space"):
            recover(manifest_of(root))
    assert len(sidecars(root)) == 1
    assert len(recover(manifest_of(root))) == 1
    assert_as_the_engine_left_it(root, case)


def test_a_lock_that_cannot_be_taken_is_a_warning_of_opening(tmp_path: Path) -> None:
    root = golden.unpack("crashed-unpublished", tmp_path)
    (root / "__recovery" / "main.lock").mkdir()
    with pytest.warns(UserWarning, match=r"main\.lock"):
        graph = og.open(root)
    assert len(ages(graph)) == 4
    with pytest.raises(StorageError, match=r"main\.lock"):
        graph.recover()


def test_checking_rows_in_a_graph_opened_for_reading_recovers_nothing(written: Path) -> None:
    with crashing(points.BEFORE_PUBLISH):
        load(og.open(written))
    assert og.open(written, mode="r").check(pa.table({"name": ["Zoe"]}), "Person") == []
    assert len(sidecars(written)) == 1
