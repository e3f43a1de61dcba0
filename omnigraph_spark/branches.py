"""The branches of a graph: listing, making and deleting them.

A graph branch is a Lance branch of `__manifest` and nothing else; a dataset gets a branch of the
same name when it is first written there. So making one costs the same for any graph, and deleting
one first takes the name away and then, as well as it can, the datasets' own branches.
"""

from __future__ import annotations

import datetime as dt
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from omnigraph_spark.errors import (
    BranchExistsError,
    BranchInUseError,
    BranchNotFoundError,
    CommitNotFoundError,
    ConflictError,
    DamagedGraphError,
    HistoryReclaimedError,
    InvalidNameError,
    RecoveryRequiredError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.formats.profile import STAMP_KEY, Commit, graph_branch
from omnigraph_spark.formats.v4.sidecar import list_sidecars, read_sidecar
from omnigraph_spark.manifest import Entry, Manifest, ManifestState
from omnigraph_spark.names import MAIN, check_branch_name
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.storage import branches as stored
from omnigraph_spark.storage.datasets import DatasetAddress, open_dataset
from omnigraph_spark.storage.locks import writer_lock
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.translate import NOT_FOUND

#: What Lance keeps in the folder of a branch; a branch `dev/data` would lie among the files of
#: `dev`.
_LANCE_FOLDERS = frozenset({"_versions", "_transactions", "data", "_deletions", "_indices", "tree"})
#: The engine stamps a new manifest in its third version; the first two hold the same rows.
_VERSIONS_UNSTAMPED = 2


@dataclass(frozen=True)
class Branch:
    """One branch; main has no parent."""

    name: str
    head: Commit
    parent: str | None
    created_at_us: int
    manifest_version: int
    #: Types whose dataset has a branch of this name, because they were written here.
    forked_types: tuple[str, ...]

    @property
    def created_at(self) -> dt.datetime:
        """When the branch was made, in UTC (Lance records whole seconds)."""
        return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=self.created_at_us)

    def __repr__(self) -> str:
        origin = f" from {self.parent}" if self.parent else ""
        return f"Branch({self.name}{origin}, head {self.head.id})"


def read_branches(manifest: Manifest) -> list[Branch]:
    """Read all branches of a graph, in byte order of their names."""
    branches = []
    for name in manifest.branch_names():
        try:
            branches.append(read_branch(manifest, name))
        except BranchNotFoundError:
            # Deleted between the listing and the reading: it does not exist, so it is not listed.
            continue
    return branches


def read_branch(manifest: Manifest, name: str) -> Branch:
    """Read one branch."""
    state = manifest.head(name)
    head = state.lineage.head
    if head is None:
        raise DamagedGraphError(manifest.root, f"branch {name!r} has no graph commit")
    if name == MAIN:
        created_at_us, parent = state.lineage.commits[0].created_at_us, None
    else:
        file = manifest.branch_file(name)
        if file is None:
            raise BranchNotFoundError(name, tuple(manifest.branch_names()))
        created_at_us, parent = file.created_at_us, graph_branch(file.parent)
    forked = (key for key, entry in state.entries.items() if entry.dataset_branch == name)
    return Branch(name, head, parent, created_at_us, state.version, tuple(forked))


def create_branch(manifest: Manifest, name: str, origin: SnapshotState) -> Branch:
    """Make a branch that begins at a snapshot: the head of a branch, a commit or a version.

    Raises:
        InvalidNameError: It cannot be the name of a branch.
        BranchExistsError: There is one of that name.
        ConflictError: Another process is making it (or died doing so), a live writer kept the
            branch that it begins on for too long, or a schema change is under way
            (`SchemaApplyInProgressError`).
        UnsupportedError: The schema was changed since the snapshot.
    """
    _check_new_name(name)
    if name == MAIN or manifest.branch_file(name) is not None:
        raise BranchExistsError(name)
    operation = f"creating branch {name!r}"
    manifest.refuse_during_schema_apply(operation)
    # Main is never deleted, so nobody has to wait there.
    begun_on_main = origin.branch == MAIN
    with nullcontext() if begun_on_main else _undeleted(manifest, origin.branch):
        _create(manifest, name, origin)
    # A schema change takes its lock and then looks for branches; here it is the other way round, so
    # at least one of the two sees the other. A branch that is written to was there before the lock,
    # so the schema change sees it and gives way.
    with stored.already_made(manifest.address(), name):
        if manifest.schema_apply_in_progress() and not _is_used(manifest, name):
            stored.delete_branch(manifest.address(), name, manifest.settings)
            manifest.refuse_during_schema_apply(operation)
        # The same with who deletes the branch that this one begins on, where locks run out.
        if not begun_on_main and manifest.branch_file(origin.branch) is None:
            stored.delete_branch(manifest.address(), name, manifest.settings)
            raise BranchNotFoundError(origin.branch, tuple(manifest.branch_names()))
        return read_branch(manifest, name)


def _is_used(manifest: Manifest, name: str) -> bool:
    """Tell whether somebody writes, wrote or began another branch on a branch just made."""
    file = manifest.branch_file(name)
    try:
        _refuse_users(manifest, name)
        _refuse_unfinished(manifest, name)
    except (BranchInUseError, RecoveryRequiredError):
        return True
    return file is not None and manifest.newest(name).number != file.parent_version


def _undeleted(manifest: Manifest, name: str) -> AbstractContextManager[None]:
    """Keep others from deleting a branch for a while: both who delete and who build on it ask."""
    return writer_lock(manifest.root, name, manifest.settings)


def _create(manifest: Manifest, name: str, origin: SnapshotState) -> None:
    state = manifest.at(origin.branch, origin.manifest_version)
    if state.lineage.find(origin.commit.id) is None:
        reason = f"branch {origin.branch!r} was deleted and made again since"
        raise CommitNotFoundError(origin.commit.id, reason)
    if state.version != state.newest.number:
        _check_readable(manifest, state, origin.schema)
    parent = None if state.branch == MAIN else state.branch
    version = _stamped_version(manifest, state)
    try:
        stored.create_branch(manifest.address(), name, parent, version, manifest.settings)
    except stored.UnfinishedBranchError as error:
        detail = f"branch {name!r} is being made by another process, or was left half made"
        raise ConflictError(f"{detail} (then delete it first)") from error


def delete_branch(manifest: Manifest, name: str) -> tuple[str, ...]:
    """Delete a branch, and the branches of datasets that were made for it.

    What is left of a branch whose creation was interrupted is deleted as well.

    Returns:
        The types whose dataset branch could not be deleted. Nobody reads it any more; the next
        write on a branch of that name makes it anew.

    Raises:
        BranchInUseError: It is main, or other branches began on it or read its datasets.
        BranchNotFoundError: There is no such branch.
        RecoveryRequiredError: A write on it is not finished.
        ConflictError: A live writer kept it for too long.
        SchemaApplyInProgressError: A schema change is under way.
    """
    check_branch_name(name)
    if name == MAIN:
        raise BranchInUseError(name, "it is the main line of the graph")
    trunk, settings = manifest.address(), manifest.settings
    exists = manifest.branch_file(name) is not None
    if not exists and not stored.is_half_made(trunk, name, settings):
        raise BranchNotFoundError(name, tuple(manifest.branch_names()))
    manifest.refuse_during_schema_apply(f"deleting branch {name!r}")
    # What is refused leaves no trace, not even a lock; what is true before the lock may change.
    _refuse_users(manifest, name)
    _refuse_unfinished(manifest, name)
    with _undeleted(manifest, name):
        _refuse_users(manifest, name)
        _refuse_unfinished(manifest, name)
        locations = dict(manifest.head().locations)
        if exists:
            locations |= manifest.head(name).locations
        try:
            stored.delete_branch(trunk, name, settings)
        except StorageError as error:
            if not exists or manifest.branch_file(name) is not None:
                raise
            left_behind = (
                f"branch {name!r} is deleted, and some of its files stayed behind, which are to be "
                f"deleted (in the same way) before another one of that name is made: {error}"
            )
            warnings.warn(left_behind, stacklevel=3)
        left = [key for key, path in locations.items() if not _delete_fork(manifest, path, name)]
    return tuple(sorted(left))


def _check_new_name(name: str) -> None:
    check_branch_name(name)
    _, *below = name.split("/")
    if taken := sorted(_LANCE_FOLDERS.intersection(below)):
        rule = f"{taken[0]!r} after a slash is the name of a folder that Lance keeps there"
        raise InvalidNameError("branch name", name, rule)


def _stamped_version(manifest: Manifest, state: ManifestState) -> int:
    """Return the version to begin at: the state's, or the next one that holds it with a stamp."""
    last = min(state.version + _VERSIONS_UNSTAMPED, state.newest.number)
    for version in range(state.version, last + 1):
        dataset = manifest.open_version(state.branch, version, state.newest)
        same = manifest.at(state.branch, version).lineage.head == state.lineage.head
        if same and STAMP_KEY in dataset.schema_metadata:
            return version
    detail = f"version {state.version} of branch {state.branch!r} has no format stamp"
    raise DamagedGraphError(manifest.root, detail)


def _check_readable(manifest: Manifest, state: ManifestState, schema: GraphSchema) -> None:
    """Refuse an old state that a branch could not be read or written at.

    There is one schema for all branches. At the head of a branch datasets have it, because it is
    changed only while main is the only branch.
    """
    declared = {str(entity.type_key): entity for entity in schema.types()}
    for key in sorted(declared.keys() | state.entries.keys()):
        entry, entity = state.entries.get(key), declared.get(key)
        if entry is None or entity is None:
            change = "came later" if entry is None else "was removed since"
            raise _changed_since(state, f"{key} {change}")
        if _columns(manifest, state, entry) != arrow_schema(entity).names:
            raise _changed_since(state, f"the columns of {key} were changed since")


def _columns(manifest: Manifest, state: ManifestState, entry: Entry) -> list[str]:
    address = DatasetAddress(manifest.root, entry.path, entry.dataset_branch)
    version = entry.dataset_version
    try:
        return open_dataset(address, version, manifest.settings, entry.tag).schema.names
    except StorageError as error:
        if error.kind != NOT_FOUND:
            raise
        raise HistoryReclaimedError(state.branch, str(entry.type_key), version) from error


def _changed_since(state: ManifestState, change: str) -> UnsupportedError:
    what = f"a branch from version {state.version} of {state.branch!r}"
    return UnsupportedError(what, f"{change}: begin at a commit after the schema change")


def _refuse_users(manifest: Manifest, name: str) -> None:
    for other in manifest.branch_names():
        if other == name:
            continue
        file = manifest.branch_file(other)
        if file is not None and file.parent == name:
            raise BranchInUseError(name, f"branch {other!r} began on it")
        try:
            entries = manifest.head(other).entries.items()
        except BranchNotFoundError:
            # Deleted since it was listed.
            continue
        if used := [key for key, entry in entries if entry.dataset_branch == name]:
            raise BranchInUseError(name, f"branch {other!r} reads its {', '.join(used)}")


def _refuse_unfinished(manifest: Manifest, name: str) -> None:
    store = objects_at(manifest.root, manifest.settings)
    for operation_id in list_sidecars(manifest.root, store):
        sidecar = read_sidecar(manifest.root, store, operation_id)
        if sidecar is not None and sidecar.branch == name:
            detail = f"branch {name!r} cannot be deleted: a write on it is not finished"
            raise RecoveryRequiredError((operation_id,), detail)


def _delete_fork(manifest: Manifest, path: str, name: str) -> bool:
    """Delete the branch of one dataset, if it has one; False when that was not possible."""
    trunk = DatasetAddress(manifest.root, path)
    settings = manifest.settings
    try:
        if stored.read_branch(trunk, name, settings) or stored.is_half_made(trunk, name, settings):
            stored.delete_branch(trunk, name, settings)
    except (BranchInUseError, StorageError):
        return False
    return True
