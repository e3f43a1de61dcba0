"""The Lance branch of a dataset that a graph branch writes to: made at its first write there.

A fork that the manifest does not place is left over from a write that never became visible. It is
taken over when it still stands exactly where this write would fork, and made anew otherwise. The
engine also leaves forks behind that were visible once: its merge lets a branch pin the main line
again. Branches that were made before that still read such a fork, so it then stays.
"""

from __future__ import annotations

from omnigraph_spark.errors import (
    BranchExistsError,
    BranchNotFoundError,
    RecoveryRequiredError,
    UnsupportedError,
)
from omnigraph_spark.failpoints import FORK_CREATED
from omnigraph_spark.formats.v4.sidecar import list_sidecars, read_sidecar
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.storage.branches import (
    BranchFile,
    UnfinishedBranchError,
    create_branch,
    delete_branch,
    finish_branch,
    read_branch,
)
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.fence import head_version
from omnigraph_spark.storage.half_branches import take_over
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import is_s3
from omnigraph_spark.writing.heads import PlanAgain
from omnigraph_spark.writing.pending import Pending


def ensure_fork(manifest: Manifest, pending: Pending) -> None:
    """Make sure that the dataset has a branch for this write, standing at the planned version."""
    if not pending.forks or pending.dataset_branch is None:
        return
    settings = manifest.settings
    placed = manifest.head(pending.branch).entries.get(pending.key)
    if placed is None or placed.dataset_branch == pending.dataset_branch:
        raise PlanAgain(f"{pending.key} was forked for branch {pending.branch!r} meanwhile")
    trunk = DatasetAddress(manifest.root, pending.entry.path)
    existing = read_branch(trunk, pending.dataset_branch, settings)
    if existing is not None:
        head = head_version(pending.address(manifest.root), settings)
        source = (pending.entry.dataset_branch, pending.entry.dataset_version)
        untouched = head is not None and head.number == pending.entry.dataset_version
        if untouched and (existing.parent, existing.parent_version) == source:
            finish_branch(trunk, existing, settings)
            return
        _refuse_if_owned(manifest, pending)
        _refuse_if_read(manifest, pending)
        _refuse_if_placed(manifest, pending, existing)
        delete_branch(trunk, pending.dataset_branch, settings, keep_data=True)
    try:
        _fork(trunk, pending, settings)
    except BranchExistsError as taken:
        raise PlanAgain(f"{pending.key} is being forked by another writer") from taken
    except UnfinishedBranchError as half:
        if is_s3(manifest.root):
            _take_over(trunk, pending, settings, half)
        else:
            # Here the branch's lock is held, so whoever began to make this fork is gone.
            delete_branch(trunk, pending.dataset_branch, settings, keep_data=True)
            _fork(trunk, pending, settings)
    FORK_CREATED.reached()


def _take_over(
    trunk: DatasetAddress, pending: Pending, settings: StorageSettings, half: UnfinishedBranchError
) -> None:
    """Complete half a fork where no lock tells whether its maker lives."""
    entry, name = pending.entry, pending.dataset_branch or ""
    try:
        done = take_over(trunk, name, entry.dataset_branch, entry.dataset_version, settings)
    except BranchExistsError:
        done = False
    if not done:
        raise PlanAgain(f"{pending.key} is being forked by another writer") from half


def _fork(trunk: DatasetAddress, pending: Pending, settings: StorageSettings) -> None:
    create_branch(
        trunk,
        pending.dataset_branch or "",
        pending.entry.dataset_branch,
        pending.entry.dataset_version,
        settings,
    )


def _refuse_if_owned(manifest: Manifest, pending: Pending) -> None:
    """Leave a fork alone that an unfinished write has moved: recovery decides about it."""
    store = objects_at(manifest.root, manifest.settings)
    for operation_id in list_sidecars(manifest.root, store):
        sidecar = read_sidecar(manifest.root, store, operation_id)
        if sidecar is None or sidecar.branch != pending.branch:
            continue
        if any(pin.type_key == pending.key for pin in sidecar.pins):
            detail = f"the fork of {pending.key} for branch {pending.branch!r} is not finished"
            raise RecoveryRequiredError((operation_id,), detail)


def _refuse_if_placed(manifest: Manifest, pending: Pending, fork: BranchFile) -> None:
    """Leave a fork alone that became visible while it was looked at, or was made anew.

    Where there are no locks a writer may be at work that was taken for dead. It says so in a
    sidecar until its work is visible: so the manifest is read after sidecars were looked for.
    """
    entry = manifest.head(pending.branch).entries.get(pending.key)
    trunk = DatasetAddress(manifest.root, pending.entry.path)
    now = read_branch(trunk, fork.name, manifest.settings)
    if entry is None or entry.dataset_branch == pending.dataset_branch or now != fork:
        raise PlanAgain(f"{pending.key} was forked for branch {pending.branch!r} meanwhile")


def _refuse_if_read(manifest: Manifest, pending: Pending) -> None:
    """Leave a fork alone that another branch reads: it would lose its rows."""
    for name in manifest.branch_names():
        if name == pending.branch:
            continue
        try:
            read = manifest.head(name).entries.get(pending.key)
        except BranchNotFoundError:
            # Deleted since it was listed.
            continue
        if read is not None and read.dataset_branch == pending.dataset_branch:
            raise UnsupportedError(
                f"writing {pending.key} on branch {pending.branch!r}, whose former rows branch "
                f"{name!r} still reads",
                f"write on a new branch made of {pending.branch!r}, or delete {name!r} first",
            )
