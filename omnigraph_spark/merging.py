"""A large merge, taken apart: which rows are replaced, file by file of the source.

Memory holds one staged file at a time; the rest is joined out of core in the workspace. Replaced
rows are marked deleted where they lie and come again, with their row ids, in new files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.manifest import Manifest
from omnigraph_spark.pending import Pending
from omnigraph_spark.scan import ROW_ID, ScanSource
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.stage import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from omnigraph_spark.storage.changes import DeleteChange, UpdateChange
from omnigraph_spark.storage.merging import delete_offsets, discard_change, stage_rewritten
from omnigraph_spark.storage.staging import StagedFile, discard, read_staged
from omnigraph_spark.workspace import Interest, Workspace


def merge_by_file(
    manifest: Manifest, pending: Pending, space: Workspace
) -> tuple[UpdateChange, int, int]:
    """Prepare an upsert by id; return it with the numbers of inserted and updated rows."""
    address, settings = pending.address(manifest.root), manifest.settings
    files: list[StagedFile] = []
    with _targets(manifest, pending, space):
        updated, removed, replaced = delete_places(manifest, pending, space, "merge_targets")
        try:
            for file in pending.files:
                files += _rewrite(manifest, pending, file, space)
        except BaseException:
            marked = DeleteChange(updated, removed, "", replaced)
            discard_change(address, marked, settings)
            discard(address, files, settings)
            raise
    change = UpdateChange(removed, updated, tuple(files))
    return change, pending.rows - replaced, replaced


@contextmanager
def _targets(manifest: Manifest, pending: Pending, space: Workspace) -> Iterator[None]:
    """Have the rows that are replaced at hand as `merge_targets`, with their places."""
    address, settings = pending.address(manifest.root), manifest.settings
    ids = pa.schema([arrow_schema(pending.declared).field("id")])
    space.add_rows("merge_ids", read_staged(address, pending.files, ["id"], settings), ids)
    # The dataset as it is planned on; a fork has the same rows at the same places.
    source = ScanSource(manifest.root, settings, pending.branch, pending.entry, pending.declared)
    interest = Interest(("id",), "merge_ids", ("id",))
    space.add_committed("merge_targets", source, {"id": "id"}, [interest], places=True)
    try:
        yield
    finally:
        # Another type of the transaction needs the names.
        space.drop("merge_ids")
        space.drop("merge_targets")


def _rewrite(
    manifest: Manifest, pending: Pending, file: StagedFile, space: Workspace
) -> list[StagedFile]:
    """Write the rows of one staged file again: replaced ones first, with their row ids."""
    address, settings = pending.address(manifest.root), manifest.settings
    schema = arrow_schema(pending.declared)
    staged = read_staged(address, [file], schema.names, settings, blobs=True)
    rows = pa.Table.from_batches(staged, schema)
    ids = rows.column("id")
    known = _row_ids(space, ids)
    at = pc.index_in(ids, known.column("id").combine_chunks())
    matched = rows.filter(at.is_valid())
    row_ids = known.column("row_id").take(at.drop_null())
    matched = matched.append_column(ROW_ID, row_ids).sort_by(ROW_ID)
    inserts = rows.filter(at.is_null())
    return stage_rewritten(
        address,
        schema,
        matched.to_batches(),
        inserts.to_batches(),
        settings,
        MAX_ROWS_PER_FILE,
        MAX_BYTES_PER_FILE,
    )


def _row_ids(space: Workspace, ids: pa.ChunkedArray[Any]) -> pa.Table:
    """Return id and row id of those ids that are replaced."""
    schema = pa.schema([pa.field("id", pa.string())])
    table = pa.Table.from_arrays([ids], schema=schema)
    space.add_rows("merge_file", table.to_batches(), schema)
    try:
        return space.table(
            "SELECT t.id, t.row_id FROM merge_targets t "
            "WHERE EXISTS (SELECT 1 FROM merge_file f WHERE f.id = t.id)"
        )
    finally:
        space.drop("merge_file")


def delete_places(
    manifest: Manifest, pending: Pending, space: Workspace, relation: str
) -> tuple[tuple[str, ...], tuple[int, ...], int]:
    """Mark the rows of a relation deleted, a fragment at a time.

    Returns the fragments that changed, those left empty, and the number of rows.
    """
    address, version = pending.address(manifest.root), pending.entry.dataset_version
    counts = space.rows(
        f"SELECT fragment, count(*) FROM {relation} GROUP BY fragment ORDER BY fragment"
    )
    updated: list[str] = []
    removed: list[int] = []
    try:
        for fragment, _ in counts:
            places = space.rows(f"SELECT place FROM {relation} WHERE fragment = {fragment}")
            offsets = [place for (place,) in places]
            left = delete_offsets(address, version, fragment, offsets, manifest.settings)
            if left is None:
                removed.append(fragment)
            else:
                updated.append(left)
    except BaseException:
        discard_change(address, DeleteChange(tuple(updated), (), "", 0), manifest.settings)
        raise
    return tuple(updated), tuple(removed), sum(count for _, count in counts)
