"""The effect window: sidecar, one strict commit per dataset, one publish, sidecar gone.

Everything before this is invisible and can be thrown away. Here, and only here, datasets move. The
window costs a few small files per type, never rows. A failure ends in one of three ways: nothing
moved (`PlanAgain`: the writer looks again), it may have happened (`OutcomeUnknownError`), or some
datasets moved and the sidecar owns them (`PartlyLanded`: the writer can undo them itself, or, when
storage did not answer, `RecoveryRequiredError`).

A branch merge writes its sidecar again once every dataset is committed: from then on it is finished
and not undone. One that also pins types elsewhere, without a commit to their datasets, does not:
whoever finished it would know nothing of them, so until its publish it is undone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
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
    MERGE_CONFIRMED,
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
from omnigraph_spark.manifest import Manifest, ManifestState
from omnigraph_spark.publish import LineageIntent, PublishVersion, publish
from omnigraph_spark.storage.changes import Change
from omnigraph_spark.storage.datasets import (
    PinnedDataset,
    open_dataset,
)
from omnigraph_spark.storage.fence import (
    FenceInDoubtError,
    FenceRefusedError,
    LandedVersion,
    commit_fenced,
)
from omnigraph_spark.storage.objects import ObjectStore, objects_at
from omnigraph_spark.storage.uri import is_s3
from omnigraph_spark.writing.heads import Place, PlanAgain, check_head
from omnigraph_spark.writing.pending import Pending

#: How many datasets of an object store are committed at once: as many as boto3 keeps connections.
_AT_ONCE = 10


class Move(Protocol):
    """What is committed to the dataset of one type, and how many rows it has then."""

    @property
    def pending(self) -> Place: ...

    @property
    def change(self) -> Change: ...

    @property
    def rows(self) -> int: ...


@dataclass(frozen=True)
class Prepared:
    """One type ready to land: what is committed to its dataset, and to what effect."""

    pending: Pending
    change: Change
    summary: ChangeSummary
    #: Whether the change names new files instead of the staged ones, which are then done with.
    rewritten: bool = False

    @property
    def rows(self) -> int:
        """How many rows the type has then."""
        return self.summary.rows


@dataclass(frozen=True)
class Landing:
    """What is to land on a branch, and what must still hold when it does."""

    branch: str
    prepared: Sequence[Move]
    #: The version of every type that was read or is written, as it was planned on.
    expected: Mapping[str, int]
    lineage: LineageIntent
    if_head: str | None = None
    #: Types that are pinned elsewhere, and whose datasets do not move.
    pins: Sequence[PublishVersion] = ()
    #: What kind of maintenance this is, which changes no row; None for a write.
    maintenance: WriterKind | None = None
    #: The branch as it was just now, where the caller looked; None asks storage again.
    seen: ManifestState | None = None

    @property
    def confirms(self) -> bool:
        """Whether this is a merge that can be finished once its datasets are committed."""
        return self.lineage.merged_parent_id is not None and not self.pins

    @property
    def writer(self) -> WriterKind:
        """What kind of write this is to whoever recovers it."""
        merges = self.lineage.merged_parent_id is not None
        return self.maintenance or (WriterKind.BRANCH_MERGE if merges else WriterKind.LOAD)


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
    if not landing.prepared:
        # No dataset moves, so there is nothing to recover: the publish is all there is.
        return _publish_pins(manifest, landing)
    for item in landing.prepared:
        check_head(manifest, item.pending)
    sidecar = _sidecar(manifest.root, landing)
    BEFORE_SIDECAR.reached()
    write_sidecar(manifest.root, _store(manifest), sidecar)
    SIDECAR_WRITTEN.reached()
    landed = _commit_all(manifest, landing, sidecar)
    if landing.confirms:
        _confirm(manifest, sidecar, landed)
    BEFORE_PUBLISH.reached()
    changes = [
        PublishVersion(item.pending.key, version, item.pending.dataset_branch, item.rows)
        for item, version in zip(landing.prepared, landed, strict=True)
    ]
    try:
        commit = _publish(manifest, landing, [*changes, *landing.pins])
    except StorageError as error:
        raise PartlyLanded(sidecar, error) from error
    except ConflictError as error:
        raise PartlyLanded(sidecar, _overtaken(error)) from error
    except DamagedGraphError as error:
        # To callers it would mean that nothing moved, and that what was staged can go.
        raise RecoveryRequiredError((sidecar.operation_id,), str(error)) from error
    if commit.id != landing.lineage.commit_id:
        # Another process did the same piece of work, and perhaps with other types than these.
        raise PartlyLanded(sidecar, PlanAgain(f"commit {commit.id} did this work already"))
    AFTER_PUBLISH.reached()
    _end(manifest, sidecar)
    SIDECAR_DELETED.reached()
    return commit


def _publish(manifest: Manifest, landing: Landing, changes: Sequence[PublishVersion]) -> Commit:
    return publish(
        manifest,
        landing.branch,
        changes,
        landing.expected,
        landing.lineage,
        landing.if_head,
        landing.seen,
    )


def _publish_pins(manifest: Manifest, landing: Landing) -> Commit:
    try:
        return _publish(manifest, landing, landing.pins)
    except ConflictError as error:
        raise _overtaken(error) from error


def _store(manifest: Manifest) -> ObjectStore:
    """Return where sidecars lie; asked for anew each time, because its keys may expire."""
    return objects_at(manifest.root, manifest.settings)


def _confirm(manifest: Manifest, sidecar: Sidecar, landed: Sequence[LandedVersion]) -> None:
    """Say which versions a merge reached, so that it is finished and not undone."""
    pins = tuple(
        replace(pin, confirmed_version=version.number)
        for pin, version in zip(sidecar.pins, landed, strict=True)
    )
    try:
        write_sidecar(manifest.root, _store(manifest), replace(sidecar, pins=pins))
    except StorageError as error:
        raise PartlyLanded(sidecar, error) from error
    MERGE_CONFIRMED.reached()


def _overtaken(error: ConflictError) -> PlanAgain:
    if isinstance(error, ExpectedVersionError):
        return PlanAgain(error.detail, error.type, error.expected, error.actual)
    return PlanAgain(error.detail)


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
        writer=landing.writer,
        pins=pins,
        branch=landing.branch,
        actor=landing.lineage.actor,
        merge_source_id=landing.lineage.merged_parent_id,
        expects=landing.expected,
    )


def _commit_all(manifest: Manifest, landing: Landing, sidecar: Sidecar) -> list[LandedVersion]:
    landed: list[LandedVersion] = []
    for items in _portions(manifest.root, landing.prepared):
        commit = partial(_commit_one, manifest, sidecar)
        with ThreadPoolExecutor(len(items)) if len(items) > 1 else nullcontext() as pool:
            outcomes = list(pool.map(commit, items) if pool else map(commit, items))
        done = [outcome for outcome in outcomes if isinstance(outcome, LandedVersion)]
        landed += done
        for _ in done:
            DATASET_COMMITTED.reached()
        for failure in outcomes:
            if isinstance(failure, FenceInDoubtError):
                raise RecoveryRequiredError((sidecar.operation_id,), str(failure)) from failure
        for failure in outcomes:
            if isinstance(failure, (FenceRefusedError, StorageError)):
                reason = failure if isinstance(failure, StorageError) else PlanAgain(str(failure))
                if landed:
                    raise PartlyLanded(sidecar, reason) from failure
                _end(manifest, sidecar)
                if reason is failure:
                    raise failure
                raise reason from failure
    return landed


def _portions(root: str, prepared: Sequence[Move]) -> list[Sequence[Move]]:
    """Return what is committed at once: on object stores the first, and then all others.

    Who lost to another writer mostly learns it from the first, and then has nothing to undo.
    """
    if not is_s3(root):
        return [[item] for item in prepared]
    rest = prepared[1:]
    return [
        prepared[:1],
        *(rest[at : at + _AT_ONCE] for at in range(0, len(rest), _AT_ONCE)),
    ]


def _commit_one(
    manifest: Manifest, sidecar: Sidecar, item: Move
) -> LandedVersion | FenceInDoubtError | FenceRefusedError | StorageError:
    """Commit one dataset; a failure is an answer too, because others may be under way."""
    try:
        return commit_fenced(
            item.pending.address(manifest.root),
            item.pending.entry.dataset_version,
            item.change,
            manifest.settings,
            str(uuid4()),
            {OPERATION_PROPERTY: sidecar.operation_id},
            _opened(manifest, item.pending),
        )
    except (FenceInDoubtError, FenceRefusedError, StorageError) as failure:
        return failure


def _opened(manifest: Manifest, place: Place) -> PinnedDataset | None:
    """Return the dataset as it was read to be checked; of a new fork nothing was read."""
    entry = place.entry
    if entry.dataset_branch != place.dataset_branch:
        return None
    address = place.address(manifest.root)
    return open_dataset(address, entry.dataset_version, manifest.settings, entry.tag)


def _end(manifest: Manifest, sidecar: Sidecar) -> None:
    try:
        delete_sidecar(manifest.root, _store(manifest), sidecar.operation_id)
    except StorageError as error:
        # What it describes is over; the next writer sees that and removes it.
        warnings.warn(f"sidecar {sidecar.operation_id} stayed behind: {error}", stacklevel=3)
