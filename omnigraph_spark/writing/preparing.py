"""From staged rows to what a dataset commits: append, merge, overwrite, delete, on one version.

Appends and overwrites name the staged files as they are. A merge finds the rows it replaces: a
small one of whole rows is left to Lance, any other is taken apart file by file. Both keep the row
ids of what they replace. Everything made here is for one dataset version; on another it is
made anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import pyarrow as pa

from omnigraph_spark.errors import ConflictError
from omnigraph_spark.formats.profile import ChangeSummary
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.storage.blob_values import described_bytes
from omnigraph_spark.storage.changes import (
    AppendChange,
    Change,
    DeleteChange,
    OverwriteChange,
    new_files,
)
from omnigraph_spark.storage.fresh_rows import kept_rows
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.rewriting import discard_change, stage_merge
from omnigraph_spark.storage.staging import leftovers_told, read_staged
from omnigraph_spark.storage.uncommitted import is_blob_field
from omnigraph_spark.storage.uri import join
from omnigraph_spark.writing.empty_blobs import find_mistakable, nullable_blobs
from omnigraph_spark.writing.landing import Prepared
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.upserting import Upsert, delete_places, merge_by_file
from omnigraph_spark.writing.violations import refuse
from omnigraph_spark.writing.workspace import Workspace

# Measured: up to here Lance's own merge in one process is two to four times faster than taking the
# source apart, and it holds the whole source in memory.
SMALL_MERGE_ROWS = 200_000
SMALL_MERGE_BYTES = 128 << 20


class Preparation:
    """The changes of one attempt to land, prepared when asked for or before; as a context.

    What was prepared before is for the versions it was planned on, like all of it: who holds the
    lock takes it out once nothing has moved. What is not taken out leaves no file behind.
    """

    def __init__(self, manifest: Manifest, space: Workspace) -> None:
        self._manifest, self._space = manifest, space
        self._ready: dict[str, Prepared] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        discard_all(self._manifest, self._ready.values())

    def begin(self, pending: Iterable[Pending]) -> None:
        """Prepare what needs no fork, which only who holds the lock may make."""
        for change in pending:
            if not change.forks:
                self._ready[change.key] = prepare(self._manifest, change, self._space)

    def take(self, change: Pending) -> Prepared:
        """Hand a change over, which is the caller's to land or to discard then."""
        if change.key in self._ready:
            return self._ready.pop(change.key)
        return prepare(self._manifest, change, self._space)


def prepare(manifest: Manifest, pending: Pending, space: Workspace) -> Prepared:
    """Make the change of one type ready to land on the version it was planned on."""
    match pending.mode:
        case WriteMode.APPEND:
            return _prepared(pending, AppendChange(pending.files), inserted=pending.rows)
        case WriteMode.OVERWRITE:
            change = OverwriteChange(arrow_schema(pending.declared), pending.files)
            return _prepared(pending, change, inserted=pending.rows, deleted=pending.entry.rows)
        case WriteMode.MERGE if pending.only_adds:
            return _prepared(pending, AppendChange(pending.fresh), inserted=pending.rows)
        case WriteMode.MERGE:
            return _merged(manifest, pending, space)
        case WriteMode.DELETE:
            return _deleted(manifest, pending, space)


def discard_prepared(manifest: Manifest, prepared: Prepared) -> None:
    """Delete the files a change brought that are not the staged ones."""
    if prepared.rewritten or isinstance(prepared.change, DeleteChange):
        address = prepared.pending.address(manifest.root)
        discard_change(address, prepared.change, manifest.settings)


def discard_all(manifest: Manifest, prepared: Iterable[Prepared]) -> None:
    """Discard changes that do not land, each for itself."""
    for item in prepared:
        with leftovers_told():
            discard_prepared(manifest, item)


def refuse_given_up(manifest: Manifest, prepared: Iterable[Prepared]) -> None:
    """Refuse files that another process threw away, as Spark does with what it cancelled.

    Whoever does so begins with the first of them, and holds the lock that is held here; of a merge
    they may have been read before. Of what was staged in this process nobody else knows.
    """
    store = objects_at(manifest.root, manifest.settings)
    for item in prepared:
        address = item.pending.address(manifest.root)
        for file in (*item.pending.files[:1], *item.pending.fresh[:1]):
            known = kept_rows(address.uri, [file.path], ["id"]) is not None
            if not known and store.stat(join(address.uri, "data", file.path)) is None:
                raise ConflictError(f"the write to {item.pending.key} was given up meanwhile")


def _prepared(
    pending: Pending,
    change: Change,
    *,
    inserted: int = 0,
    updated: int = 0,
    deleted: int = 0,
    rewritten: bool = False,
) -> Prepared:
    summary = ChangeSummary(
        mode=pending.mode,
        dataset_version=pending.entry.dataset_version + 1,
        rows=pending.entry.rows + inserted - deleted,
        inserted=inserted,
        updated=updated,
        deleted=deleted,
    )
    return Prepared(pending, change, summary, rewritten)


def _merged(manifest: Manifest, pending: Pending, space: Workspace) -> Prepared:
    address, settings = pending.address(manifest.root), manifest.settings
    small = pending.rows <= SMALL_MERGE_ROWS and pending.size_bytes <= SMALL_MERGE_BYTES
    # Rows that are completed may have stored blobs of any size, of which nothing is known here.
    plain = pending.merge_columns is None and pending.doomed is None and not pending.is_located
    if small and plain and _blob_bytes(manifest, pending) <= SMALL_MERGE_BYTES:
        schema = arrow_schema(pending.declared)
        staged = read_staged(address, pending.staged, schema.names, settings, blobs=True)
        rows = pa.Table.from_batches(staged, schema)
        version = pending.entry.dataset_version
        upsert = Upsert(*stage_merge(address, version, rows, settings))
    else:
        upsert = merge_by_file(manifest, pending, space)
    prepared = _prepared(
        pending,
        upsert.change,
        inserted=upsert.inserted,
        updated=upsert.updated,
        deleted=upsert.deleted,
        rewritten=True,
    )
    if not nullable_blobs(pending.declared):
        # To list the files of a merge is to spell out the row ids of all its rows.
        return prepared
    try:
        refuse(find_mistakable(address, new_files(upsert.change), pending.declared, settings))
    except BaseException:
        discard_prepared(manifest, prepared)
        raise
    return prepared


def _blob_bytes(manifest: Manifest, pending: Pending) -> int:
    """Return how large the staged blobs are, most of which lie in files of their own."""
    names = [field.name for field in arrow_schema(pending.declared) if is_blob_field(field)]
    if not names:
        return 0
    address = pending.address(manifest.root)
    batches = read_staged(address, pending.staged, names, manifest.settings)
    return sum(described_bytes(batch, names) for batch in batches)


def _deleted(manifest: Manifest, pending: Pending, space: Workspace) -> Prepared:
    updated, removed, count = delete_places(manifest, pending, space, [pending.doomed or ""])
    change = DeleteChange(updated, removed, f"{count} rows by their places", count)
    return _prepared(pending, change, deleted=count)
