"""The strict commit: a change lands on exactly the version it was made for, or not at all.

Lance rebases most transactions silently over whatever landed meanwhile. Here a commit may take the
version after its base and no other (see `slot`), so what was checked is what becomes a version. It
ends in one of three ways: `LandedVersion`, `FenceRefusedError`, `FenceInDoubtError`. Any other
error means, like a refusal, that nothing landed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.changes import (
    AppendChange,
    Change,
    DeleteChange,
    MergeChange,
    OverwriteChange,
    UpdateChange,
    operation_of,
)
from omnigraph_spark.storage.datasets import (
    DatasetAddress,
    PinnedDataset,
    open_handle,
    probe_version,
)
from omnigraph_spark.storage.objects import IN_DOUBT, objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import lance_errors
from omnigraph_spark.storage.uri import join
from omnigraph_spark.storage.versions import (
    LandedVersion,
    describe_version,
    landed_version,
    transaction_id,
)

__all__ = [
    "AppendChange",
    "Change",
    "DeleteChange",
    "FenceInDoubtError",
    "FenceRefusedError",
    "LandedVersion",
    "MergeChange",
    "OverwriteChange",
    "UpdateChange",
    "commit_fenced",
    "head_version",
    "landed_version",
    "transaction_id",
]


@dataclass(eq=False)
class FenceRefusedError(Exception):
    """The dataset is not at the version the change was made for; nothing landed."""

    uri: str
    base_version: int
    #: The newest version, None when there is no dataset.
    found_version: int | None

    def __str__(self) -> str:
        return f"{self.uri} is at version {self.found_version}, not at {self.base_version}"


@dataclass(eq=False)
class FenceInDoubtError(Exception):
    """The storage did not answer: our version may be there, or may still appear."""

    uri: str
    version: int
    detail: str

    def __str__(self) -> str:
        return f"version {self.version} of {self.uri} may have been written: {self.detail}"


#: Which version is newest, and its tag.
head_version = probe_version


def commit_fenced(
    address: DatasetAddress,
    base_version: int,
    change: Change,
    settings: StorageSettings,
    uuid: str,
    properties: Mapping[str, str],
    base: PinnedDataset | None = None,
) -> LandedVersion:
    """Make a change the version after `base_version`.

    `uuid` names the transaction: `transaction_id` finds it again, also after a crash. Whatever is
    not landed leaves no manifest behind; the data files stay for the caller. `base` is that version
    where it is open already.
    """
    from lance import LanceDataset, Transaction

    from omnigraph_spark.storage.slot import Slot

    if isinstance(change, MergeChange) and change.version != base_version:
        raise ValueError(f"a merge of version {change.version} cannot land on {base_version}")
    slot = Slot(address, base_version, uuid, settings)
    failure: StorageError | None = None
    try:
        with lance_errors(address.uri):
            # A handle, because it knows the places of a branch that was moved.
            handle = base.handle if base else open_handle(address, base_version, settings)
            transaction = Transaction(
                read_version=base_version,
                operation=operation_of(change, handle),
                uuid=uuid,
                transaction_properties=dict(properties),
            )
            LanceDataset.commit(
                handle,
                transaction,
                storage_options=settings.for_lance(address.uri),
                # It only spares useless work: no number of retries gets past the slot.
                max_retries=0,
                **slot.as_options(),
            )
    except StorageError as error:
        # What Lance reports is not asked: it cannot tell a refusal from a lost answer.
        failure = error
    if slot.taken is not None:
        return describe_version(address, base_version + 1, slot.taken)
    if failure is None or (slot.failure is not None and slot.failure.kind == IN_DOUBT):
        return _look(address, base_version + 1, uuid, settings)
    # Nothing landed. Lance keeps the transaction in a file of its own, which would stay for good.
    store = objects_at(address.root, settings)
    for read_version in {base_version, *(tried - 1 for tried in slot.tried)}:
        store.delete(join(address.uri, "_transactions", f"{read_version}-{uuid}.txn"))
    _refuse_unless_head(address, base_version, settings)
    raise slot.failure or failure


def _refuse_unless_head(address: DatasetAddress, version: int, settings: StorageSettings) -> None:
    head = probe_version(address, settings)
    if head is None or head.number != version:
        raise FenceRefusedError(address.uri, version, None if head is None else head.number)


def _look(
    address: DatasetAddress, version: int, uuid: str, settings: StorageSettings
) -> LandedVersion:
    """Decide what became of a commit whose answer was lost."""
    try:
        found = transaction_id(address, version, settings)
        if found == uuid:
            return landed_version(address, version, settings)
        head = probe_version(address, settings)
    except StorageError as error:
        raise FenceInDoubtError(address.uri, version, error.detail) from error
    if found is None or head is None:
        # The request may still be under way, so absence proves nothing.
        raise FenceInDoubtError(address.uri, version, "the storage did not answer")
    raise FenceRefusedError(address.uri, version - 1, head.number)
