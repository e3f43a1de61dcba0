"""The writes to `__manifest`: creating it, merging one publish into it, and keeping it compact.

Every call ends in one of three ways: it landed, it lost a race and left nothing visible, or a
`StorageError` says what went wrong, and then only a new look at the manifest tells what landed.
"""

from __future__ import annotations

import json
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa

from omnigraph_spark.errors import StorageError
from omnigraph_spark.failpoints import MANIFEST_COMPACTED, MANIFEST_REWRITTEN
from omnigraph_spark.storage.datasets import DatasetAddress, PinnedDataset, open_handle
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.slot import Slot
from omnigraph_spark.storage.staging import (
    STORAGE_VERSION,
    discard,
    stage_fragments,
    staged_file,
)
from omnigraph_spark.storage.translate import CONTENTION, lance_errors
from omnigraph_spark.storage.uri import is_s3, join
from omnigraph_spark.storage.versions import transaction_id

#: Far above the first rows, which are one file.
_FIRST_BYTES = 1 << 30
#: The column that names a row; a row of the same name replaces the old one.
_KEY = "object_id"


@dataclass(frozen=True)
class Landed:
    """A write that is a version now, with the number of fragments of that version."""

    version: int
    fragments: int


@dataclass(frozen=True)
class LostRace:
    """A write that another one overtook; nothing of it is visible."""


def create_manifest(address: DatasetAddress, rows: pa.Table, settings: StorageSettings) -> None:
    """Create the manifest with its first rows; the schema's metadata comes with the table.

    One step, so there is no moment at which it exists and cannot be read. An existing one is left
    alone and is an error.
    """
    import lance

    if not is_s3(address.root):
        _create_from_whole_file(address, rows, settings)
        return
    with lance_errors(address.uri):
        lance.write_dataset(
            rows,
            address.uri,
            mode="create",
            data_storage_version=STORAGE_VERSION,
            enable_stable_row_ids=True,
            storage_options=settings.for_lance(address.uri),
        )


def _create_from_whole_file(
    address: DatasetAddress, rows: pa.Table, settings: StorageSettings
) -> None:
    """Create it in the same step, when the file of its rows has proved to be whole (`whole`)."""
    from lance import LanceDataset, LanceOperation, Transaction

    staged = stage_fragments(
        address, rows.to_batches(), rows.schema, settings, len(rows), _FIRST_BYTES, as_given=True
    )
    uuid = str(uuid4())
    create = LanceOperation.Overwrite(rows.schema, staged)
    try:
        with lance_errors(address.uri):
            LanceDataset.commit(
                address.uri,
                Transaction(read_version=0, operation=create, uuid=uuid),
                max_retries=0,
                enable_stable_row_ids=True,
                enable_v2_manifest_paths=True,
            )
    except StorageError:
        if transaction_id(address, 1, settings) != uuid:
            discard(address, map(staged_file, staged), settings)
            raise


def merge_rows(
    address: DatasetAddress,
    version: int,
    rows: pa.Table,
    settings: StorageSettings,
    opened: PinnedDataset | None = None,
) -> Landed | LostRace:
    """Insert rows, or replace those of the same name, on top of a version.

    `opened` is that version as it was read, which saves an object store a request.

    Two writers that share a row cannot both land, whoever the other one is. Lance's own retries
    would repeat the merge without the checks made on the version, so there are none. An index on
    the key would switch the detection off, so none is used.
    """
    slot = _slot_after(address, version, settings)
    try:
        with lance_errors(address.uri):
            if slot is None and opened is not None:
                # A write moves its handle, and this one is shared.
                handle = copy(opened.handle)
            else:
                handle = open_handle(address, version, settings, more=_asking(slot))
            merge = handle.merge_insert(_KEY)
            merge.when_matched_update_all().when_not_matched_insert_all()
            merge.conflict_retries(0).use_index(False).execute(rows)
            return Landed(int(handle.version), len(handle.get_fragments()))
    except StorageError as error:
        return _lost_or_raise(slot, error)


def compact_fragments(
    address: DatasetAddress, version: int, settings: StorageSettings
) -> Landed | LostRace:
    """Rewrite the fragments of a version into few; rows, their ids and older versions stay.

    One version and not two: Lance's own compaction first reserves numbers in a version of its own,
    past which a concurrent publish would slip, one version later than its commit says. A rewrite
    alone conflicts with every publish, so the publisher that it overtakes looks again.
    """
    from lance import LanceDataset, LanceOperation
    from lance.optimize import Compaction

    rewritten: list[dict[str, Any]] = []
    slot = _slot_after(address, version, settings)
    try:
        with lance_errors(address.uri):
            handle = open_handle(address, version, settings, more=_asking(slot))
            # As JSON: the attributes of a result hold the old fragments for the new ones.
            for task in Compaction.plan(handle, {}).tasks:
                rewritten.append(json.loads(task.execute(handle).json()))  # noqa: PERF401
            if rewritten:
                MANIFEST_REWRITTEN.reached()
                groups = [
                    LanceOperation.RewriteGroup(
                        _fragments(result["original_fragments"]),
                        _fragments(result["new_fragments"]),
                    )
                    for result in rewritten
                ]
                operation = LanceOperation.Rewrite(groups, [])
                handle = LanceDataset.commit(
                    handle,
                    operation,
                    read_version=version,
                    max_retries=0,
                    **_asking(slot),
                )
                MANIFEST_COMPACTED.reached()
            return Landed(int(handle.version), len(handle.get_fragments()))
    except StorageError as error:
        lost = _lost_or_raise(slot, error)
    _discard(address, rewritten, settings)
    return lost


def _slot_after(address: DatasetAddress, version: int, settings: StorageSettings) -> Slot | None:
    """Return the version to take, where files can lose their end and it looks at them (`whole`).

    On an object store none is needed, and it would cost requests: Lance's own commit is as strict.
    """
    return None if is_s3(address.root) else Slot(address, version, str(uuid4()), settings)


def _asking(slot: Slot | None) -> dict[str, Any]:
    return {} if slot is None else slot.as_options()


def _lost_or_raise(slot: Slot | None, error: StorageError) -> LostRace:
    if error.kind == CONTENTION or (slot is not None and slot.was_refused):
        return LostRace()
    raise (slot and slot.failure) or error


def _fragments(described: list[dict[str, Any]]) -> list[Any]:
    from lance.fragment import FragmentMetadata

    return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in described]


def _discard(
    address: DatasetAddress, rewritten: list[dict[str, Any]], settings: StorageSettings
) -> None:
    """Delete the files that a lost compaction wrote; nobody refers to them."""
    store = objects_at(address.root, settings)
    for result in rewritten:
        for fragment in result["new_fragments"]:
            for file in fragment["files"]:
                with suppress(StorageError):
                    store.delete(join(address.uri, "data", file["path"]))
