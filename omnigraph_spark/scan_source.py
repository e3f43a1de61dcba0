"""What is scanned: one type of one snapshot, and what a failure to read it means."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.errors import DamagedGraphError, HistoryReclaimedError, StorageError
from omnigraph_spark.manifest import Entry
from omnigraph_spark.schema.columns import Column, columns_of
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.storage.datasets import (
    DatasetAddress,
    PinnedDataset,
    has_version,
    open_dataset,
    probe_version,
)
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import NOT_FOUND, PERMANENT


@dataclass(frozen=True)
class ScanSource:
    """One type of one snapshot as plain values, to be reopened in any process."""

    root: str
    settings: StorageSettings
    #: The graph branch the snapshot was resolved on; only for messages.
    branch: str
    entry: Entry
    declared: EntityType | None

    @classmethod
    def of(cls, state: SnapshotState, type_name: str) -> ScanSource:
        """Take the type named ``Person``, ``node:Person`` or ``edge:Knows`` from a snapshot."""
        entry = state.entry(type_name)
        declared = state.schema.get(entry.type_key)
        return cls(state.root, state.settings, state.branch, entry, declared)

    @property
    def address(self) -> DatasetAddress:
        """Where the dataset lies."""
        return DatasetAddress(self.root, self.entry.path, self.entry.dataset_branch)

    def open(self) -> PinnedDataset:
        """Open the dataset at the pinned version; a reclaimed version has its own error."""
        try:
            return open_dataset(
                self.address, self.entry.dataset_version, self.settings, self.entry.tag
            )
        except StorageError as error:
            raise self.explain(error) from error

    def explain(self, error: StorageError) -> Exception:
        """Say what a storage failure while reading this type means."""
        key = str(self.entry.type_key)
        damage = DamagedGraphError(self.root, f"a file of {key} cannot be read: {error.detail}")
        if error.kind != NOT_FOUND:
            return damage if error.kind == PERMANENT else error
        if probe_version(self.address, self.settings) is None:
            place = self.address.uri.removeprefix(self.root).lstrip("/")
            return DamagedGraphError(self.root, f"the dataset of {key} at {place!r} is missing")
        if not has_version(self.address, self.entry.dataset_version, self.settings):
            return HistoryReclaimedError(self.branch, key, self.entry.dataset_version)
        return damage

    def columns(self) -> tuple[Column, ...]:
        """Return the columns stored at the pinned version, with what the schema says of them."""
        return columns_of(self.open().schema, self.declared, self.entry.type_key.kind)
