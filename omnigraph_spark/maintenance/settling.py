"""The effect window of maintenance: rows stay as they are, files and indexes change places.

It is the window of a write (`writing.landing`) with another kind of sidecar: the datasets of one
landing make one strict commit each and become visible with one publish. Maintenance is polite: what
another writer has moved meanwhile is given up, and never waited for or repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from omnigraph_spark.clock import new_ulid, now_us
from omnigraph_spark.errors import ConflictError, StorageError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.formats.v4.sidecar import WriterKind
from omnigraph_spark.manifest import Entry, Manifest, ManifestState
from omnigraph_spark.names import MAIN
from omnigraph_spark.publish import LineageIntent
from omnigraph_spark.recovery.sweep import heal, undo
from omnigraph_spark.storage.changes import Change
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.locks import writer_lock
from omnigraph_spark.storage.rewriting import discard_change
from omnigraph_spark.storage.staging import leftovers_told
from omnigraph_spark.writing.heads import PlanAgain
from omnigraph_spark.writing.landing import NOTHING_MOVED, Landing, PartlyLanded, land

#: Why a type was left as it was, where another writer came first.
OVERTAKEN = "another write came first; run it again"


@dataclass(frozen=True)
class Held:
    """One type of a branch that owns its dataset, at the version that work was planned on."""

    entry: Entry
    branch: str

    @property
    def key(self) -> str:
        """The type key as text."""
        return str(self.entry.type_key)

    @property
    def dataset_branch(self) -> str | None:
        """The Lance branch of the dataset."""
        return self.entry.dataset_branch

    def address(self, root: str) -> DatasetAddress:
        """Return where the dataset lies."""
        return DatasetAddress(root, self.entry.path, self.entry.dataset_branch)


@dataclass(frozen=True)
class Rework:
    """A change of one type's dataset that changes no row."""

    pending: Held
    change: Change

    @property
    def rows(self) -> int:
        """How many rows the type has, before and after."""
        return self.pending.entry.rows


def heal_first(manifest: Manifest, branch: str, operation: str) -> ManifestState:
    """Recover unfinished writes of a branch, as a write does, and return its newest state.

    Raises:
        SchemaApplyInProgressError: A schema change is under way.
        RecoveryRequiredError: There is an unfinished write that only a person may undo.
        ConflictError: A live writer did not end in time.
    """
    manifest.refuse_during_schema_apply(operation)
    with writer_lock(manifest.root, branch, manifest.settings):
        heal(manifest, branch, held=True)
    return manifest.head(branch)


def owned(state: ManifestState) -> list[Held]:
    """Return the types whose datasets a branch owns; the others are their owners' business."""
    own = None if state.branch == MAIN else state.branch
    entries = state.entries.values()
    return [Held(entry, state.branch) for entry in entries if entry.dataset_branch == own]


def settle(
    manifest: Manifest, branch: str, writer: WriterKind, reworks: Sequence[Rework]
) -> tuple[Commit | None, frozenset[str]]:
    """Land what still can land; return the commit, and the type keys that are part of it.

    What cannot land leaves no file behind.
    """
    current: list[Rework] = []
    try:
        with writer_lock(manifest.root, branch, manifest.settings):
            manifest.refuse_during_schema_apply("maintenance")
            if not _is_busy(manifest, branch):
                entries = manifest.head(branch).entries
                # A version made anew under the same number has another tag.
                current = [r for r in reworks if entries.get(r.pending.key) == r.pending.entry]
            commit = _land(manifest, branch, writer, current) if current else None
    finally:
        _discard(manifest, [each for each in reworks if each not in current])
    return commit, frozenset(each.pending.key for each in current if commit is not None)


def _is_busy(manifest: Manifest, branch: str) -> bool:
    """Recover unfinished writes; tell whether one may have a live writer, where none has a lock."""
    try:
        heal(manifest, branch, held=True)
    except ConflictError:
        return True
    return False


def _land(
    manifest: Manifest, branch: str, writer: WriterKind, reworks: Sequence[Rework]
) -> Commit | None:
    """Land all of it; None when another writer was first."""
    landing = Landing(
        branch=branch,
        prepared=reworks,
        expected={each.pending.key: each.pending.entry.dataset_version for each in reworks},
        # Without an actor, as the engine does: nobody's rows change.
        lineage=LineageIntent(new_ulid(), now_us()),
        maintenance=writer,
    )
    try:
        return land(manifest, landing)
    except NOTHING_MOVED as failure:
        _discard(manifest, reworks)
        if isinstance(failure, PlanAgain):
            return None
        raise
    except PartlyLanded as failed:
        # The files stay: versions that were undone name them.
        visible = undo(manifest, failed.sidecar)
        if visible is None and isinstance(failed.reason, StorageError):
            raise failed.reason from failed
        return visible


def _discard(manifest: Manifest, reworks: Iterable[Rework]) -> None:
    """Delete files that no version names; if that fails, a cleanup will do it."""
    for each in reworks:
        with leftovers_told():
            discard_change(each.pending.address(manifest.root), each.change, manifest.settings)
