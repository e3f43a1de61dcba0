"""What recovery looks at: sidecars, where their datasets stand, and what made each version.

Only reads. Addresses are taken from the manifest and not from the sidecar, which names the place
where the graph was when it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph_spark.clock import derived_ulid, now_us, ulid_again
from omnigraph_spark.errors import BranchNotFoundError, DamagedGraphError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.formats.v4.sidecar import (
    Sidecar,
    SidecarPin,
    WriterKind,
    list_sidecars,
    read_sidecar,
)
from omnigraph_spark.manifest import Manifest, ManifestState
from omnigraph_spark.recovery.classify import Facts, PinState
from omnigraph_spark.recovery.schema_files import is_in_place, is_staged
from omnigraph_spark.storage.datasets import DatasetAddress, probe_version
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.transactions import read_origins
from omnigraph_spark.storage.uri import is_s3

#: Object stores have no lock that ends with its process. There a sidecar of this package counts as
#: a live writer's for as long as an effect window can reasonably take: seconds per type.
LEASE_SECONDS = 120
_LEASE_US = LEASE_SECONDS * 1_000_000


@dataclass(frozen=True)
class Observed:
    """One unfinished write and the state it was found in."""

    sidecar: Sidecar
    facts: Facts
    #: The newest state of its branch; of main when the branch is gone.
    state: ManifestState
    #: The commit that did or undid the work, when there is one.
    done: Commit | None = None
    #: How often the operation was undone: a writer that was not dead may have gone on.
    undone: int = 0


def pending_operations(manifest: Manifest) -> list[str]:
    """Return the ids of all unfinished writes, oldest first: one listing."""
    return list_sidecars(manifest.root, objects_at(manifest.root, manifest.settings))


def pending_sidecars(manifest: Manifest, operations: Iterable[str]) -> Iterator[Sidecar]:
    """Yield the sidecars of operations that are still there; an unreadable one is an error."""
    store = objects_at(manifest.root, manifest.settings)
    for operation_id in operations:
        sidecar = read_sidecar(manifest.root, store, operation_id)
        if sidecar is None:
            # Gone since it was listed: its write was finished.
            continue
        if sidecar.operation_id != operation_id:
            detail = f"sidecar {operation_id} says it is {sidecar.operation_id}: rename the file"
            raise DamagedGraphError(manifest.root, detail)
        yield sidecar


def observe(manifest: Manifest, sidecar: Sidecar) -> Observed:
    """Look at everything one sidecar is about."""
    try:
        state = manifest.head(sidecar.branch)
    except BranchNotFoundError:
        return Observed(sidecar, Facts((), branch_exists=False), manifest.head())
    published = state.lineage.find_repeat(sidecar.operation_id)
    undone = _undone(state, sidecar.operation_id)
    schema_apply = sidecar.writer is WriterKind.SCHEMA_APPLY
    facts = Facts(
        pins=tuple(_pin_state(manifest, state, pin, sidecar.fenced) for pin in sidecar.pins),
        published=published is not None,
        rolled_back=bool(undone),
        reads_hold=_reads_hold(state, sidecar),
        schema_ready=schema_apply
        and (is_staged(manifest) or is_in_place(manifest, state, sidecar)),
        types_settled=_types_settled(state, sidecar),
        maybe_alive=_maybe_alive(manifest, sidecar),
    )
    return Observed(sidecar, facts, state, undone[-1] if undone else published, len(undone))


def dataset_of(manifest: Manifest, state: ManifestState, pin: SidecarPin) -> DatasetAddress:
    """Return where the dataset of a pin lies now."""
    known = state.locations.get(pin.type_key)
    # A type that is not registered lies where its kind and hash say: the last two folders.
    path = known or "/".join(pin.address.split("/")[-2:])
    return DatasetAddress(manifest.root, path, pin.dataset_branch)


def forward_id(operation_id: str) -> str:
    """Return the id of the commit that finishes an operation: it names the same piece of work.

    So whoever repeats the work, and the operation's own writer if it is alive, finds the commit.
    """
    try:
        return ulid_again(operation_id)
    except ValueError:
        # Not a ULID: some other writer's idea of an id.
        return derived_ulid("omnigraph:rolled-forward", operation_id)


def rollback_id(operation_id: str, before: int = 0) -> str:
    """Return the id of the commit that undoes an operation, with the same half in every process.

    `before` says how often it was undone already.
    """
    return derived_ulid(f"omnigraph:rolled-back:{before}", operation_id)


def _undone(state: ManifestState, operation_id: str) -> list[Commit]:
    """Return the visible commits that undid an operation, oldest first."""
    found: list[Commit] = []
    while commit := state.lineage.find_repeat(rollback_id(operation_id, len(found))):
        found.append(commit)
    return found


def _pin_state(manifest: Manifest, state: ManifestState, pin: SidecarPin, fenced: bool) -> PinState:
    address = dataset_of(manifest, state, pin)
    entry = state.entries.get(pin.type_key)
    pinned = 0 if entry is None else entry.dataset_version
    newest = probe_version(address, manifest.settings)
    if newest is None:
        return PinState(pin, pinned, None)
    # Published versions say something only where the writer named itself in them.
    after = min(pinned, pin.expected_version) if fenced else pinned
    origins = read_origins(address, after, newest.number, manifest.settings)
    return PinState(pin, pinned, newest.number, origins)


def _reads_hold(state: ManifestState, sidecar: Sidecar) -> bool:
    """Tell whether the types that were read are as they were; those written have their pins."""
    written = {pin.type_key for pin in sidecar.pins}
    return all(
        state.visible_version(key) == version
        for key, version in (sidecar.expects or {}).items()
        if key not in written
    )


def _types_settled(state: ManifestState, sidecar: Sidecar) -> bool:
    added = all(new.type_key in state.entries for new in sidecar.registrations)
    removed = all(gone.type_key not in state.entries for gone in sidecar.tombstones)
    return added and removed


def _maybe_alive(manifest: Manifest, sidecar: Sidecar) -> bool:
    # A sidecar from the near future is one of a clock that is ahead, and its writer may well live.
    age_us = abs(now_us() - sidecar.started_at_us)
    return sidecar.fenced and is_s3(manifest.root) and age_us < _LEASE_US
