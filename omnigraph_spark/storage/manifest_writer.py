"""The writes to `__manifest`: creating it, merging one publish into it, and keeping it compact.

Every call ends in one of three ways: it landed, it lost a race and left nothing visible, or a
`StorageError` says what went wrong, and then only a new look at the manifest tells what landed.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.datasets import DatasetAddress, open_handle
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import CONTENTION, lance_errors
from omnigraph_spark.storage.uri import join

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

    with lance_errors(address.uri):
        lance.write_dataset(
            rows,
            address.uri,
            mode="create",
            data_storage_version="2.2",
            enable_stable_row_ids=True,
            storage_options=settings.for_lance(),
        )


def merge_rows(
    address: DatasetAddress, version: int, rows: pa.Table, settings: StorageSettings
) -> Landed | LostRace:
    """Insert rows, or replace those of the same name, on top of a version.

    Two writers that share a row cannot both land, whoever the other one is. Lance's own retries
    would repeat the merge without the checks made on the version, so there are none. An index on
    the key would switch the detection off, so none is used.
    """
    try:
        with lance_errors(address.uri):
            handle = open_handle(address, version, settings)
            merge = handle.merge_insert(_KEY)
            merge.when_matched_update_all().when_not_matched_insert_all()
            merge.conflict_retries(0).use_index(False).execute(rows)
            return Landed(int(handle.version), len(handle.get_fragments()))
    except StorageError as error:
        if error.kind == CONTENTION:
            return LostRace()
        raise


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
    try:
        with lance_errors(address.uri):
            handle = open_handle(address, version, settings)
            # As JSON: the attributes of a result hold the old fragments for the new ones.
            for task in Compaction.plan(handle, {}).tasks:
                rewritten.append(json.loads(task.execute(handle).json()))  # noqa: PERF401
            if rewritten:
                groups = [
                    LanceOperation.RewriteGroup(
                        _fragments(result["original_fragments"]),
                        _fragments(result["new_fragments"]),
                    )
                    for result in rewritten
                ]
                operation = LanceOperation.Rewrite(groups, [])
                handle = LanceDataset.commit(handle, operation, read_version=version, max_retries=0)
            return Landed(int(handle.version), len(handle.get_fragments()))
    except StorageError as error:
        if error.kind != CONTENTION:
            raise
    _discard(address, rewritten, settings)
    return LostRace()


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
