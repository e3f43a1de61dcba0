"""From staged rows to what a dataset commits: append, merge, overwrite, delete, on one version.

Appends and overwrites name the staged files as they are. A merge finds the rows it replaces: a
small one is left to Lance, a large one is taken apart file by file. Both keep the row ids of what
they replace. Everything made here is for one dataset version; on another it is made anew.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.empty_blobs import find_mistakable
from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.formats.profile import ChangeSummary
from omnigraph_spark.landing import Prepared
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.merging import delete_places, merge_by_file
from omnigraph_spark.pending import Pending, WriteMode
from omnigraph_spark.scan import ScanSource
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.storage.changes import (
    AppendChange,
    Change,
    DeleteChange,
    MergeChange,
    OverwriteChange,
    UpdateChange,
    new_files,
)
from omnigraph_spark.storage.merging import discard_change, stage_merge
from omnigraph_spark.storage.staging import read_staged
from omnigraph_spark.stored_rows import read_stored
from omnigraph_spark.violations import refuse
from omnigraph_spark.workspace import Workspace

# Measured: up to here Lance's own merge in one process is two to four times faster than taking the
# source apart, and it holds the whole source in memory.
SMALL_MERGE_ROWS = 200_000
SMALL_MERGE_BYTES = 128 << 20


def prepare(manifest: Manifest, pending: Pending, space: Workspace) -> Prepared:
    """Make the change of one type ready to land on the version it was planned on."""
    match pending.mode:
        case WriteMode.APPEND:
            return _prepared(pending, AppendChange(pending.files), inserted=pending.rows)
        case WriteMode.OVERWRITE:
            change = OverwriteChange(arrow_schema(pending.declared), pending.files)
            return _prepared(pending, change, inserted=pending.rows, deleted=pending.entry.rows)
        case WriteMode.MERGE:
            return _merged(manifest, pending, space)
        case WriteMode.DELETE:
            return _deleted(manifest, pending, space)


def discard_prepared(manifest: Manifest, prepared: Prepared) -> None:
    """Delete the files a change brought that are not the staged ones."""
    if prepared.rewritten or isinstance(prepared.change, DeleteChange):
        address = prepared.pending.address(manifest.root)
        discard_change(address, prepared.change, manifest.settings)


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
    change: MergeChange | UpdateChange
    small = pending.rows <= SMALL_MERGE_ROWS and pending.size_bytes <= SMALL_MERGE_BYTES
    if pending.merge_columns is not None and not small:
        raise UnsupportedError(
            f"a merge of some columns of {pending.rows:,} rows",
            f"split it into parts of at most {SMALL_MERGE_ROWS:,} rows",
        )
    if small:
        rows = _complete_rows(manifest, pending)
        version = pending.entry.dataset_version
        change, inserted, updated = stage_merge(address, version, rows, settings)
    else:
        change, inserted, updated = merge_by_file(manifest, pending, space)
    prepared = _prepared(pending, change, inserted=inserted, updated=updated, rewritten=True)
    try:
        refuse(find_mistakable(address, new_files(change), pending.declared, settings))
    except BaseException:
        discard_prepared(manifest, prepared)
        raise
    return prepared


def _complete_rows(manifest: Manifest, pending: Pending) -> pa.Table:
    """Read the staged rows; columns that are not merged keep the values they have."""
    address, settings = pending.address(manifest.root), manifest.settings
    schema = arrow_schema(pending.declared)
    given = schema.names
    if pending.merge_columns is not None:
        given = [name for name in given if name == "id" or name in pending.merge_columns]
    part = pa.schema([schema.field(name) for name in given])
    staged = read_staged(address, pending.files, given, settings, blobs=True)
    rows = pa.Table.from_batches(staged, part)
    if pending.merge_columns is None:
        return rows
    source = ScanSource(manifest.root, settings, pending.branch, pending.entry, pending.declared)
    known = read_stored(source, pending.declared, rows.column("id").combine_chunks())
    at = pc.index_in(rows.column("id"), known.column("id").combine_chunks())
    columns = [
        rows.column(name) if name in given else known.column(name).take(at) for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _deleted(manifest: Manifest, pending: Pending, space: Workspace) -> Prepared:
    updated, removed, count = delete_places(manifest, pending, space, pending.doomed or "")
    change = DeleteChange(updated, removed, f"{count} rows by their places", count)
    return _prepared(pending, change, deleted=count)
