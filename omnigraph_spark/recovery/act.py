"""Carrying a decision out: one publish by `omnigraph:recovery`, the audit row, the sidecar's end.

Every step finds out for itself whether it was done before. The commit that finishes or undoes an
operation has an id drawn from the operation's, so it is made once, whoever makes it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import uuid4

from omnigraph_spark.clock import new_ulid, now_us
from omnigraph_spark.errors import DamagedGraphError, StorageError
from omnigraph_spark.failpoints import (
    DATASET_RESTORED,
    RECOVERY_AUDITED,
    RECOVERY_ENDED,
    RECOVERY_PUBLISHED,
)
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.formats.v4.recoveries import (
    RecoveryKind,
    RecoveryRecord,
    TableOutcome,
    append_recovery,
)
from omnigraph_spark.formats.v4.sidecar import WriterKind, delete_sidecar
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.names import MAIN
from omnigraph_spark.publish import (
    Change,
    LineageIntent,
    PublishVersion,
    RegisterType,
    TombstoneType,
    publish,
)
from omnigraph_spark.recovery.classify import (
    RECOVERY_PROPERTY,
    Decision,
    PinState,
    is_undone_in_vain,
    is_untouched,
)
from omnigraph_spark.recovery.observe import Observed, dataset_of, forward_id, rollback_id
from omnigraph_spark.recovery.schema_files import complete_schema_files, discard_schema_files
from omnigraph_spark.storage.changes import RestoreChange
from omnigraph_spark.storage.datasets import DatasetAddress, open_dataset, probe_version
from omnigraph_spark.storage.fence import FenceInDoubtError, commit_fenced
from omnigraph_spark.storage.objects import IN_DOUBT, objects_at
from omnigraph_spark.storage.transactions import read_origins
from omnigraph_spark.storage.versions import LandedVersion, landed_version

RECOVERY_ACTOR = "omnigraph:recovery"


@dataclass(frozen=True)
class Recovery:
    """What was done about one unfinished write."""

    operation_id: str
    kind: RecoveryKind
    #: The types that moved; empty when nothing had to.
    tables: tuple[TableOutcome, ...]
    #: The commit that did it, or that had done it before.
    commit: Commit


def carry_out(manifest: Manifest, found: Observed, decision: Decision) -> Recovery:
    """Do what was decided, record it, and end the sidecar last.

    A `ConflictError` or `FenceRefusedError` means that somebody else moved first: look again.
    """
    match decision:
        case Decision.ROLL_FORWARD:
            done = _roll_forward(manifest, found)
        case Decision.ROLL_BACK:
            done = _roll_back(manifest, found)
        case Decision.FINISH:
            done = _finish(manifest, found)
        case Decision.FINISH_ROLLED_BACK:
            done = _finish_rolled_back(manifest, found)
        case Decision.DISCARD:
            done = _discard(manifest, found)
        case Decision.WAIT | Decision.REFUSE | Decision.ABORT:
            raise ValueError(f"{decision} is nothing to do")
    RECOVERY_PUBLISHED.reached()
    if found.sidecar.writer is WriterKind.SCHEMA_APPLY:
        if done.kind is RecoveryKind.ROLLED_FORWARD:
            complete_schema_files(manifest)
        else:
            discard_schema_files(manifest)
    _record(manifest, found, done)
    RECOVERY_AUDITED.reached()
    _end_sidecar(manifest, done.operation_id)
    RECOVERY_ENDED.reached()
    return done


def _end_sidecar(manifest: Manifest, operation_id: str) -> None:
    """Delete a sidecar whose operation is over; one that stays changes nothing when met again."""
    store = objects_at(manifest.root, manifest.settings)
    try:
        delete_sidecar(manifest.root, store, operation_id)
    except StorageError as error:
        warnings.warn(f"sidecar {operation_id} stayed behind: {error}", stacklevel=3)


def _roll_forward(manifest: Manifest, found: Observed) -> Recovery:
    changes: list[Change] = []
    # What the write read, too: somebody may have changed it since it was looked at.
    expect = dict(found.sidecar.expects or {})
    for state in found.facts.pins:
        pin, address = state.pin, dataset_of(manifest, found.state, state.pin)
        expect[pin.type_key] = state.pinned
        # Another writer, who went on on top of it, may have published a part of it with its own.
        if state.pinned == pin.expected_version:
            changes.append(pin_version(manifest, pin.type_key, address, state.head or 0))
    for new in found.sidecar.registrations:
        if new.type_key in found.state.entries:
            continue
        address = DatasetAddress(manifest.root, new.path, new.dataset_branch)
        newest = probe_version(address, manifest.settings)
        if newest is None:
            detail = f"the dataset of {new.type_key}, which a schema change was to add, is gone"
            raise DamagedGraphError(manifest.root, detail)
        changes.append(RegisterType(new.type_key, new.path))
        changes.append(pin_version(manifest, new.type_key, address, newest.number))
        expect[new.type_key] = 0
    for gone in found.sidecar.tombstones:
        if gone.type_key in found.state.entries:
            changes.append(TombstoneType(gone.type_key, gone.version))
            expect[gone.type_key] = gone.version - 1
    lineage = _lineage(found, forward_id(found.sidecar.operation_id))
    commit = publish(manifest, found.sidecar.branch, changes, expect, lineage)
    outcomes = [
        TableOutcome(change.type_key, expect[change.type_key], change.landed.number)
        for change in changes
        if isinstance(change, PublishVersion)
    ]
    return _recovery(found, RecoveryKind.ROLLED_FORWARD, outcomes, commit)


def _roll_back(manifest: Manifest, found: Observed) -> Recovery:
    changes: list[Change] = []
    expect: dict[str, int] = {}
    outcomes: list[TableOutcome] = []
    for state in found.facts.pins:
        key, head = state.pin.type_key, state.head or 0
        entry = found.state.entries.get(key)
        if entry is None or head <= state.pinned or is_untouched(found.sidecar, state):
            continue
        restored = _restore(manifest, found, state, head)
        changes.append(PublishVersion(key, restored, state.pin.dataset_branch, entry.rows))
        expect[key] = state.pinned
        outcomes.append(TableOutcome(key, restored.number - 1, state.pinned))
    commit_id = rollback_id(found.sidecar.operation_id, found.undone)
    lineage = _lineage(found, commit_id, merged=False)
    commit = publish(manifest, found.sidecar.branch, changes, expect, lineage)
    return _recovery(found, RecoveryKind.ROLLED_BACK, outcomes, commit)


def _restore(manifest: Manifest, found: Observed, state: PinState, head: int) -> LandedVersion:
    """Bring the pinned content back as a new version; one that does so already is taken."""
    address, settings = dataset_of(manifest, found.state, state.pin), manifest.settings
    if state.is_restored:
        return landed_version(address, head, settings)
    change = RestoreChange(state.pinned)
    undoes = {RECOVERY_PROPERTY: found.sidecar.operation_id}
    try:
        landed = commit_fenced(address, head, change, settings, str(uuid4()), undoes)
    except FenceInDoubtError as doubt:
        raise StorageError(IN_DOUBT, address.uri, str(doubt)) from doubt
    DATASET_RESTORED.reached()
    return landed


def _finish(manifest: Manifest, found: Observed) -> Recovery:
    """End a write that is visible; one without a commit of its own id gets one without changes."""
    entries = found.state.entries
    outcomes = [
        TableOutcome(state.pin.type_key, state.pin.expected_version, state.pinned)
        for state in found.facts.pins
        if state.pinned > state.pin.expected_version
    ]
    outcomes += [
        TableOutcome(new.type_key, 0, entries[new.type_key].dataset_version)
        for new in found.sidecar.registrations
        if new.type_key in entries
    ]
    changes, expect = _keep(manifest, found)
    commit = found.done
    if commit is None:
        lineage = _lineage(found, forward_id(found.sidecar.operation_id))
        commit = publish(manifest, found.sidecar.branch, changes, expect, lineage)
    elif changes:
        lineage = _lineage(found, new_ulid(), merged=False)
        publish(manifest, found.sidecar.branch, changes, expect, lineage)
    return _recovery(found, RecoveryKind.ROLLED_FORWARD, outcomes, commit)


def _keep(manifest: Manifest, found: Observed) -> tuple[list[Change], dict[str, int]]:
    """Bring back what is visible where somebody was undoing it while another finished it."""
    changes: list[Change] = []
    expect: dict[str, int] = {}
    for state in found.facts.pins:
        key, entry = state.pin.type_key, found.state.entries.get(state.pin.type_key)
        if entry is not None and is_undone_in_vain(found.sidecar, state):
            kept = _restore(manifest, found, state, state.head or 0)
            changes.append(PublishVersion(key, kept, state.pin.dataset_branch, entry.rows))
            expect[key] = state.pinned
    return changes, expect


def _finish_rolled_back(manifest: Manifest, found: Observed) -> Recovery:
    if found.done is None:
        raise ValueError("nothing was rolled back")
    outcomes = []
    for state in found.facts.pins:
        address = dataset_of(manifest, found.state, state.pin)
        for made in read_origins(address, state.pinned - 1, state.pinned, manifest.settings):
            undone = made.properties.get(RECOVERY_PROPERTY) == found.sidecar.operation_id
            if undone and made.restored is not None:
                key = state.pin.type_key
                outcomes.append(TableOutcome(key, made.version - 1, made.restored))
    return _recovery(found, RecoveryKind.ROLLED_BACK, outcomes, found.done)


def _discard(manifest: Manifest, found: Observed) -> Recovery:
    """Record on main that a write on a branch that is gone came to nothing."""
    lineage = _lineage(found, rollback_id(found.sidecar.operation_id), merged=False)
    commit = publish(manifest, MAIN, [], {}, lineage)
    return _recovery(found, RecoveryKind.ORPHANED_BRANCH_DISCARDED, [], commit)


def pin_version(
    manifest: Manifest, type_key: str, address: DatasetAddress, version: int
) -> PublishVersion:
    """Return the change that pins a type to a version that exists, with its number of rows."""
    settings = manifest.settings
    landed = landed_version(address, version, settings)
    fragments = open_dataset(address, version, settings, landed.e_tag).fragments()
    rows = sum(fragment.rows for fragment in fragments)
    return PublishVersion(type_key, landed, address.branch, rows)


def _lineage(found: Observed, commit_id: str, merged: bool = True) -> LineageIntent:
    source = found.sidecar.merge_source_id if merged else None
    return LineageIntent(commit_id, now_us(), RECOVERY_ACTOR, source)


def _recovery(
    found: Observed, kind: RecoveryKind, outcomes: Iterable[TableOutcome], commit: Commit
) -> Recovery:
    return Recovery(found.sidecar.operation_id, kind, tuple(outcomes), commit)


def _record(manifest: Manifest, found: Observed, done: Recovery) -> None:
    record = RecoveryRecord(
        commit_id=done.commit.id,
        kind=done.kind,
        for_actor=found.sidecar.actor,
        operation_id=done.operation_id,
        writer=str(found.sidecar.writer),
        outcomes=done.tables,
        created_at_us=now_us(),
    )
    append_recovery(manifest.root, record, manifest.settings)
