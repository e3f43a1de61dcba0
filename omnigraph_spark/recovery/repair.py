"""Datasets ahead of what the manifest pins, with no sidecar to explain it: look, then publish.

Reading is exact all the while, at the pin; writing to such a type is refused. Versions that only
moved rows between files are safe to publish. Anything else was written outside of the graph, past
its rules, and is published only on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph_spark.clock import new_ulid, now_us
from omnigraph_spark.errors import DamagedGraphError, RecoveryRequiredError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.formats.v4.sidecar import list_sidecars
from omnigraph_spark.manifest import Entry, Manifest
from omnigraph_spark.names import MAIN
from omnigraph_spark.publish import LineageIntent, publish
from omnigraph_spark.recovery.act import pin_version
from omnigraph_spark.storage.datasets import DatasetAddress, probe_version
from omnigraph_spark.storage.locks import writer_lock
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.transactions import read_origins

_ACTOR, _FORCE_ACTOR = "omnigraph:repair", "omnigraph:repair:force"
#: What compaction is made of. An index build is not counted among it, as by the engine.
_MAINTENANCE = frozenset({"Rewrite", "ReserveFragments"})


class Drift(StrEnum):
    """What lies between the pinned version of a type and its dataset's newest; engine's words."""

    NONE = "no_drift"
    MAINTENANCE = "verified_maintenance"
    SUSPICIOUS = "suspicious"


class RepairAction(StrEnum):
    """What was done about it; the engine's words."""

    NOTHING = "no_op"
    PREVIEW = "preview"
    HEALED = "healed"
    FORCED = "forced"
    REFUSED = "refused"


@dataclass(frozen=True)
class Repair:
    """One type: how far its dataset is ahead, by what, and what was done."""

    type_key: str
    pinned_version: int
    head_version: int
    classification: Drift
    action: RepairAction
    #: Lance's names of the operations that made the versions in between, oldest first.
    operations: tuple[str, ...] = ()
    #: The commit that published the newest version.
    commit: Commit | None = None


def preview_repair(manifest: Manifest, branch: str) -> list[Repair]:
    """Say for every type of a branch whether its dataset is ahead, and by what.

    Raises:
        RecoveryRequiredError: There are unfinished writes, which may explain it.
        SchemaApplyInProgressError: A schema change is under way.
    """
    manifest.refuse_during_schema_apply("repairing")
    _refuse_unfinished(manifest)
    own = None if branch == MAIN else branch
    # A branch inherits the other types, and their newest versions are not its own.
    entries = [e for e in manifest.head(branch).entries.values() if e.dataset_branch == own]
    found = [_look(manifest, entry) for entry in entries]
    # Not everyone takes the lock, but every sidecar is there before a dataset moves: whoever wrote
    # what was found has ended, or still has one now.
    _refuse_unfinished(manifest)
    return found


def _refuse_unfinished(manifest: Manifest) -> None:
    store = objects_at(manifest.root, manifest.settings)
    if operations := list_sidecars(manifest.root, store):
        detail = "repairing has to wait for unfinished writes, which may explain what it would find"
        raise RecoveryRequiredError(tuple(operations), detail)


def repair(manifest: Manifest, branch: str, *, force: bool = False) -> list[Repair]:
    """Publish the newest versions that only moved rows; with `force` all others, too.

    All in one commit. Without `force` the others are refused, which their action says.
    """
    with writer_lock(manifest.root, branch, manifest.settings):
        found = preview_repair(manifest, branch)
        chosen = [one for one in found if _may_publish(one, force)]
        commit = _publish(manifest, branch, chosen) if chosen else None
    return [_after(one, force, commit) for one in found]


def _look(manifest: Manifest, entry: Entry) -> Repair:
    address = DatasetAddress(manifest.root, entry.path, entry.dataset_branch)
    key, pinned = str(entry.type_key), entry.dataset_version
    newest = probe_version(address, manifest.settings)
    if newest is None or newest.number < pinned:
        at = "gone" if newest is None else f"at version {newest.number}"
        detail = f"the manifest pins {key} at version {pinned} but its dataset is {at}"
        raise DamagedGraphError(manifest.root, detail)
    made = read_origins(address, pinned, newest.number, manifest.settings)
    operations = tuple(origin.operation for origin in made)
    drift = Drift.MAINTENANCE if _MAINTENANCE.issuperset(operations) else Drift.SUSPICIOUS
    if not operations:
        return Repair(key, pinned, newest.number, Drift.NONE, RepairAction.NOTHING)
    return Repair(key, pinned, newest.number, drift, RepairAction.PREVIEW, operations)


def _may_publish(found: Repair, force: bool) -> bool:
    return found.classification is Drift.MAINTENANCE or (
        force and found.classification is Drift.SUSPICIOUS
    )


def _publish(manifest: Manifest, branch: str, chosen: Sequence[Repair]) -> Commit:
    entries = manifest.head(branch).entries
    changes = []
    for one in chosen:
        entry = entries[one.type_key]
        address = DatasetAddress(manifest.root, entry.path, entry.dataset_branch)
        changes.append(pin_version(manifest, one.type_key, address, one.head_version))
    forced = any(one.classification is Drift.SUSPICIOUS for one in chosen)
    lineage = LineageIntent(new_ulid(), now_us(), _FORCE_ACTOR if forced else _ACTOR)
    expect = {one.type_key: one.pinned_version for one in chosen}
    return publish(manifest, branch, changes, expect, lineage)


def _after(found: Repair, force: bool, commit: Commit | None) -> Repair:
    if found.classification is Drift.NONE:
        return found
    if not _may_publish(found, force):
        return replace(found, action=RepairAction.REFUSED)
    suspicious = found.classification is Drift.SUSPICIOUS
    action = RepairAction.FORCED if suspicious else RepairAction.HEALED
    return replace(found, action=action, commit=commit)
