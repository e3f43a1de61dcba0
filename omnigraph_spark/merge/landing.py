"""The effects of a merge: forks, a commit per dataset that moves, a publish with two parents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from omnigraph_spark.clock import new_ulid, now_us
from omnigraph_spark.errors import HeadMovedError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.merge.heads import Ends, Heads
from omnigraph_spark.merge.plan import Step, TypePlan
from omnigraph_spark.publish import LineageIntent, PublishVersion
from omnigraph_spark.recovery.sweep import heal, undo
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.locks import writer_lock
from omnigraph_spark.storage.staging import discard, leftovers_told
from omnigraph_spark.storage.versions import landed_version
from omnigraph_spark.writing.forks import ensure_fork
from omnigraph_spark.writing.heads import PlanAgain, check_head
from omnigraph_spark.writing.inspect import types_read
from omnigraph_spark.writing.landing import NOTHING_MOVED, Landing, PartlyLanded, Prepared, land
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.preparing import discard_all, prepare
from omnigraph_spark.writing.workspace import Workspace


def land_merge(
    manifest: Manifest,
    ends: Ends,
    heads: Heads,
    pending: list[Pending],
    space: Workspace,
    actor: str | None,
) -> Commit:
    """Make a merge visible, if both branches are still those it was planned on.

    What landed is taken out of `pending`: its files belong to a version now.
    """
    with writer_lock(manifest.root, heads.target.branch, manifest.settings):
        try:
            return _land(manifest, ends, heads, pending, space, actor)
        except PlanAgain as moved:
            raise HeadMovedError(str(moved)) from moved


def _land(
    manifest: Manifest,
    ends: Ends,
    heads: Heads,
    pending: list[Pending],
    space: Workspace,
    actor: str | None,
) -> Commit:
    branch = heads.target.branch
    manifest.refuse_during_schema_apply(f"merging into {branch!r}")
    if heal(manifest, branch, held=True):
        raise PlanAgain(f"an unfinished write on branch {branch!r} was recovered")
    _check_heads(ends, heads)
    for change in pending:
        if not change.forks:
            check_head(manifest, change)
    with ExitStack() as undoing:
        prepared: list[Prepared] = []
        undoing.callback(discard_all, manifest, prepared)
        pins = [pin for plan in heads.types for pin in _pin(manifest, heads, plan)]
        for change in pending:
            ensure_fork(manifest, change)
            prepared.append(prepare(manifest, change, space))
        landing = Landing(
            branch,
            prepared,
            _expected(heads, pending),
            LineageIntent(new_ulid(), now_us(), actor, heads.source.commit.id),
            heads.target.commit.id,
            pins,
        )
        commit = _landed(manifest, landing, undoing, pending)
    summaries = {item.pending.key: item.summary for item in prepared}
    discard_staged(heads.target, (item.pending for item in prepared if item.rewritten))
    return replace(commit, changes=summaries)


def _landed(
    manifest: Manifest, landing: Landing, undoing: ExitStack, pending: list[Pending]
) -> Commit:
    """Land; only what surely moved nothing leaves files to delete."""
    kept = undoing.pop_all()
    mine = list(pending)
    pending.clear()
    try:
        return land(manifest, landing)
    except NOTHING_MOVED:
        pending += mine
        kept.close()
        raise
    except PartlyLanded as failed:
        # Commits of our own, under our own lock: nobody else has to recover them.
        visible = undo(manifest, failed.sidecar)
        if visible is None:
            raise failed.reason from failed
        return visible


def _check_heads(ends: Ends, heads: Heads) -> None:
    """Refuse branches that are not those the merge was planned on; the source may have grown."""
    ends.source.state()
    head = ends.target.state().lineage.head
    if head is None or head.id != heads.target.commit.id:
        found = "has no commit" if head is None else f"is at commit {head.id}"
        planned = heads.target.commit.id
        raise PlanAgain(f"branch {heads.target.branch!r} {found}, and the merge was for {planned}")


def _expected(heads: Heads, pending: Sequence[Pending]) -> dict[str, int]:
    keys = types_read(pending, heads.target) | {plan.key for plan in heads.types}
    return {key: heads.target.entries[key].dataset_version for key in sorted(keys)}


def _pin(manifest: Manifest, heads: Heads, plan: TypePlan) -> Iterable[PublishVersion]:
    """Return the pin of a type whose dataset the target takes over as it is."""
    if not plan.adopts:
        return
    entry, own = plan.source, plan.source.dataset_branch
    if plan.step is Step.HAND_OVER:
        declared = heads.target.schema.get(entry.type_key)
        if declared is None:
            raise AssertionError(f"{plan.key} is written on a branch, so it is declared")
        change = Pending(entry, declared, WriteMode.MERGE, heads.target.branch)
        ensure_fork(manifest, change)
        own = change.dataset_branch
    address = DatasetAddress(manifest.root, entry.path, own)
    landed = landed_version(address, entry.dataset_version, manifest.settings)
    yield PublishVersion(plan.key, landed, own, entry.rows)


def discard_staged(target: SnapshotState, pending: Iterable[Pending]) -> None:
    """Delete staged files that no version names."""
    for change in pending:
        with leftovers_told():
            discard(change.address(target.root), change.staged, target.settings)
