"""The effect window: sidecar, one strict commit per dataset, one publish, sidecar gone.

Everything before this is invisible and can be thrown away. Here, and only here, datasets move. The
window costs a few small files per type, never rows. A failure ends in one of three ways: nothing
moved (`PlanAgain`: the writer looks again), it may have happened (`OutcomeUnknownError`), or some
datasets moved and the sidecar owns them (`PartlyLanded`: the writer can undo them itself, or, when
storage did not answer, `RecoveryRequiredError`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from omnigraph_spark.clock import now_us, ulid_again
from omnigraph_spark.errors import (
    ConflictError,
    DamagedGraphError,
    DriftError,
    ExpectedVersionError,
    RecoveryRequiredError,
    StorageError,
)
from omnigraph_spark.failpoints import (
    AFTER_PUBLISH,
    BEFORE_PUBLISH,
    BEFORE_SIDECAR,
    DATASET_COMMITTED,
    SIDECAR_DELETED,
    SIDECAR_WRITTEN,
)
from omnigraph_spark.formats.profile import ChangeSummary, Commit
from omnigraph_spark.formats.v4.sidecar import (
    OPERATION_PROPERTY,
    Sidecar,
    SidecarPin,
    WriterKind,
    delete_sidecar,
    write_sidecar,
)
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.pending import Pending
from omnigraph_spark.publish import LineageIntent, PublishVersion, publish
from omnigraph_spark.storage.changes import Change
from omnigraph_spark.storage.fence import (
    FenceInDoubtError,
    FenceRefusedError,
    LandedVersion,
    commit_fenced,
    head_version,
)
from omnigraph_spark.storage.objects import ObjectStore, objects_at


@dataclass(frozen=True)
class Prepared:
    """One type ready to land: what is committed to its dataset, and to what effect."""

    pending: Pending
    change: Change
    summary: ChangeSummary
    #: Whether the change names new files instead of the staged ones, which are then done with.
    rewritten: bool = False


@dataclass(frozen=True)
class Landing:
    """What is to land on a branch, and what must still hold when it does."""

    branch: str
    prepared: Sequence[Prepared]
    #: The version of every type that was read or is written, as it was planned on.
    expected: Mapping[str, int]
    lineage: LineageIntent
    if_head: str | None = None


@dataclass(eq=False)
class PlanAgain(Exception):
    """Another writer was first, before anything of ours moved; look again and decide."""

    detail: str
    #: The type that moved, the version this write was planned on, and the one it is at.
    type: str = ""
    expected: int = 0
    actual: int = 0

    def __str__(self) -> str:
        return self.detail


#: What `land` raises when it moved nothing: whatever was staged can go.
NOTHING_MOVED = (PlanAgain, DriftError, DamagedGraphError, StorageError)


@dataclass(eq=False)
class PartlyLanded(Exception):
    """Datasets moved by this write alone are not visible, and will not be: they can be undone."""

    sidecar: Sidecar
    #: What to raise once they are.
    reason: PlanAgain | StorageError

    def __str__(self) -> str:
        return str(self.reason)


def land(manifest: Manifest, landing: Landing) -> Commit:
    """Commit every dataset strictly, then make all of it visible with one publish."""
    for item in landing.prepared:
        check_head(manifest, item.pending)
    store = objects_at(manifest.root, manifest.settings)
    sidecar = _sidecar(manifest.root, landing)
    BEFORE_SIDECAR.reached()
    write_sidecar(manifest.root, store, sidecar)
    SIDECAR_WRITTEN.reached()
    landed = _commit_all(manifest, landing, sidecar, store)
    BEFORE_PUBLISH.reached()
    changes = [
        PublishVersion(item.pending.key, version, item.pending.dataset_branch, item.summary.rows)
        for item, version in zip(landing.prepared, landed, strict=True)
    ]
    try:
        commit = publish(
            manifest, landing.branch, changes, landing.expected, landing.lineage, landing.if_head
        )
    except StorageError as error:
        raise PartlyLanded(sidecar, error) from error
    except ConflictError as error:
        raise PartlyLanded(sidecar, _overtaken(error)) from error
    if commit.id != landing.lineage.commit_id:
        # Another process did the same piece of work, and perhaps with other types than these.
        raise PartlyLanded(sidecar, PlanAgain(f"commit {commit.id} did this work already"))
    AFTER_PUBLISH.reached()
    _end(manifest.root, store, sidecar)
    SIDECAR_DELETED.reached()
    return commit


def _overtaken(error: ConflictError) -> PlanAgain:
    if isinstance(error, ExpectedVersionError):
        return PlanAgain(error.detail, error.type, error.expected, error.actual)
    return PlanAgain(error.detail)


def check_head(manifest: Manifest, pending: Pending) -> None:
    """Refuse a dataset that is not where the manifest pins it."""
    head = head_version(pending.address(manifest.root), manifest.settings)
    pinned = pending.entry.dataset_version
    if head is not None and head.number == pinned:
        return
    newest = manifest.head(pending.branch).entries.get(pending.key)
    if newest is not None and newest.dataset_version != pinned:
        detail = f"{pending.key} was at version {pinned} and is at {newest.dataset_version}"
        raise PlanAgain(detail, pending.key, pinned, newest.dataset_version)
    if head is None or head.number < pinned:
        found = "gone" if head is None else f"at version {head.number}"
        detail = f"the manifest pins {pending.key} at version {pinned} but its dataset is {found}"
        raise DamagedGraphError(manifest.root, detail)
    raise DriftError(pending.key, pinned, head.number)


def _sidecar(root: str, landing: Landing) -> Sidecar:
    pins = tuple(
        SidecarPin(
            type_key=item.pending.key,
            address=item.pending.address(root).base,
            expected_version=item.pending.entry.dataset_version,
            next_version=item.pending.entry.dataset_version + 1,
            dataset_branch=item.pending.dataset_branch,
        )
        for item in landing.prepared
    )
    return Sidecar(
        # It names the same piece of work as the commit, so whoever finishes the one in the place of
        # this writer makes a commit that a repetition of the work finds.
        operation_id=ulid_again(landing.lineage.commit_id),
        started_at_us=now_us(),
        writer=WriterKind.LOAD,
        pins=pins,
        branch=landing.branch,
        actor=landing.lineage.actor,
        expects=landing.expected,
    )


def _commit_all(
    manifest: Manifest, landing: Landing, sidecar: Sidecar, store: ObjectStore
) -> list[LandedVersion]:
    landed: list[LandedVersion] = []
    for item in landing.prepared:
        try:
            landed.append(
                commit_fenced(
                    item.pending.address(manifest.root),
                    item.pending.entry.dataset_version,
                    item.change,
                    manifest.settings,
                    str(uuid4()),
                    {OPERATION_PROPERTY: sidecar.operation_id},
                )
            )
        except FenceInDoubtError as doubt:
            raise RecoveryRequiredError((sidecar.operation_id,), str(doubt)) from doubt
        except (FenceRefusedError, StorageError) as failure:
            reason = failure if isinstance(failure, StorageError) else PlanAgain(str(failure))
            if landed:
                raise PartlyLanded(sidecar, reason) from failure
            _end(manifest.root, store, sidecar)
            if reason is failure:
                raise
            raise reason from failure
        DATASET_COMMITTED.reached()
    return landed


def _end(root: str, store: ObjectStore, sidecar: Sidecar) -> None:
    try:
        delete_sidecar(root, store, sidecar.operation_id)
    except StorageError as error:
        # What it describes is over; the next writer sees that and removes it.
        warnings.warn(f"sidecar {sidecar.operation_id} stayed behind: {error}", stacklevel=3)
