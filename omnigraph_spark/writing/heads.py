"""Where datasets stand before something lands on them: where they were planned on, or why not.

One that moved on was moved by a commit, by a writer who is just landing, or past the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from omnigraph_spark.errors import DamagedGraphError, DriftError
from omnigraph_spark.manifest import Entry, Manifest
from omnigraph_spark.recovery.observe import pending_operations, pending_sidecars
from omnigraph_spark.storage.datasets import DatasetAddress, version_file
from omnigraph_spark.storage.fence import head_version
from omnigraph_spark.storage.objects import objects_at


class Place(Protocol):
    """Where a change lands: one type on one branch, at the version it was planned on."""

    @property
    def entry(self) -> Entry: ...

    @property
    def branch(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def dataset_branch(self) -> str | None: ...

    def address(self, root: str) -> DatasetAddress: ...


@dataclass(eq=False)
class PlanAgain(Exception):
    """Another writer was first, before anything of ours moved; look again and decide."""

    detail: str
    #: The type that moved, the version this write was planned on, and the one it is at.
    type: str = ""
    expected: int = 0
    actual: int = 0
    #: Whether nothing was found to do: then no decision is overthrown, whatever the terms say.
    in_vain: bool = False

    def __str__(self) -> str:
        return self.detail


def check_head(manifest: Manifest, pending: Place) -> None:
    """Refuse a dataset that is not where the manifest pins it."""
    head = head_version(pending.address(manifest.root), manifest.settings)
    pinned = pending.entry.dataset_version
    if head is not None and head.number == pinned:
        return
    _check_pin(manifest, pending)
    if head is None or head.number < pinned:
        address = pending.address(manifest.root)
        if objects_at(manifest.root, manifest.settings).stat(version_file(address, pinned)):
            raise PlanAgain(f"a listing of {pending.key} was older than its version {pinned}")
        found = "gone" if head is None else f"at version {head.number}"
        detail = f"the manifest pins {pending.key} at version {pinned} but its dataset is {found}"
        raise DamagedGraphError(manifest.root, detail)
    if _is_landing(manifest, pending):
        raise PlanAgain(f"a writer that takes no lock is landing on {pending.key}")
    # Or it was, and is done by now.
    _check_pin(manifest, pending)
    raise DriftError(pending.key, pinned, head.number)


def _check_pin(manifest: Manifest, pending: Place) -> None:
    pinned, newest = pending.entry.dataset_version, manifest.head(pending.branch)
    entry = newest.entries.get(pending.key)
    if entry is not None and entry.dataset_version != pinned:
        detail = f"{pending.key} was at version {pinned} and is at {entry.dataset_version}"
        raise PlanAgain(detail, pending.key, pinned, entry.dataset_version)


def _is_landing(manifest: Manifest, pending: Place) -> bool:
    """Tell whether somebody said beforehand, in a sidecar, that this dataset would move."""
    return any(
        sidecar.branch == pending.branch and pending.key in {pin.type_key for pin in sidecar.pins}
        for sidecar in pending_sidecars(manifest, pending_operations(manifest))
    )
