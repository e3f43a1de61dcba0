"""Updates and deletes prepared for one version of a dataset: rows marked deleted, rows rewritten.

A small merge is left to Lance in one process. A large one is made of pieces that run anywhere: find
the rows (`_rowid`, `_rowaddr`), `delete_offsets` per old fragment, `stage_rewritten` per portion of
new rows, one `UpdateChange`. Both keep the stable row ids of updated rows.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.failpoints import DELETIONS_STAGED, MERGE_STAGED
from omnigraph_spark.storage.changes import (
    Change,
    DeleteChange,
    MergeChange,
    UpdateChange,
    operation_of,
    written_by,
)
from omnigraph_spark.storage.datasets import (
    DatasetAddress,
    PinnedDataset,
    open_dataset,
    open_handle,
)
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, discard, stage_fragments, staged_file
from omnigraph_spark.storage.translate import lance_errors
from omnigraph_spark.storage.uncommitted import is_blob_field
from omnigraph_spark.storage.uri import join

if TYPE_CHECKING:
    from lance import LanceDataset

ROW_ID, ROW_ADDRESS = "_rowid", "_rowaddr"
_KEY = "id"
#: What is known of the rows that a merge replaces.
_TARGETS: dict[str, pa.DataType] = {
    _KEY: pa.string(),
    ROW_ID: pa.uint64(),
    ROW_ADDRESS: pa.uint64(),
}
# One portion of a merge made by hand in this process.
_MAX_ROWS, _MAX_BYTES = 1 << 20, 256 << 20


def stage_merge(
    address: DatasetAddress, version: int, table: pa.Table, settings: StorageSettings
) -> tuple[MergeChange, int, int]:
    """Prepare an upsert by id; return it with the numbers of inserted and updated rows.

    The table has all columns of the dataset and every id once.
    """
    if _refers_to_files(table):
        # Lance's own merge refuses blobs that are files of the user's.
        return _merge_by_hand(address, version, table, settings)
    with lance_errors(address.uri):
        merge = open_handle(address, version, settings).merge_insert(_KEY)
        merge.when_matched_update_all().when_not_matched_insert_all()
        # With an index on the key a second update of the same row fails as ambiguous.
        merge.conflict_retries(0).use_index(False)
        transaction, counts = merge.execute_uncommitted(table)
    MERGE_STAGED.reached()
    change = MergeChange(version, pickle.dumps(transaction.operation))
    return change, counts["num_inserted_rows"], counts["num_updated_rows"]


def stage_delete(
    address: DatasetAddress,
    version: int,
    matched: str | pa.Array[Any],
    settings: StorageSettings,
) -> DeleteChange | None:
    """Prepare the deletion of rows, by a filter that was checked or by addresses; None if none."""
    predicate = matched if isinstance(matched, str) else f"{len(matched)} rows by their addresses"
    if isinstance(matched, str):
        matched = _matching(open_dataset(address, version, settings), matched, settings)
    if not len(matched):
        return None
    with lance_errors(address.uri):
        handle = open_handle(address, version, settings)
        updated, removed = _delete(handle, matched)
    return DeleteChange(updated, removed, predicate, len(matched))


def delete_offsets(
    address: DatasetAddress,
    version: int,
    fragment_id: int,
    offsets: Sequence[int],
    settings: StorageSettings,
) -> str | None:
    """Mark rows of one fragment deleted; return its JSON, None when no row is left.

    An offset is the lower half of a row's address.
    """
    with lance_errors(address.uri):
        return _delete_offsets(open_handle(address, version, settings), fragment_id, offsets)


def stage_rewritten(
    address: DatasetAddress,
    schema: pa.Schema,
    matched: Iterable[pa.RecordBatch],
    inserts: Iterable[pa.RecordBatch],
    settings: StorageSettings,
    max_rows_per_file: int,
    max_bytes_per_file: int,
) -> list[StagedFile]:
    """Write rows that replace others, then new ones; the former keep their row ids.

    `matched` has the column `_rowid` besides those of the schema. The ids become part of the
    version, in the space of a few bits each when they ascend.
    """
    from lance.fragment import RowIdSequence

    row_ids: list[pa.Array[Any]] = []

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in matched:
            row_ids.append(batch.column(ROW_ID).cast(pa.uint64()))
            yield batch.select(schema.names)
        yield from inserts

    fragments = stage_fragments(
        address, rows(), schema, settings, max_rows_per_file, max_bytes_per_file
    )
    kept, start = pa.chunked_array(row_ids, pa.uint64()), 0
    for fragment in fragments:
        # Rewritten rows come first, so in every file they are the first; the others get new ids.
        own = kept.slice(start, fragment.physical_rows)
        if len(own):
            fragment.row_id_meta = RowIdSequence(own.combine_chunks()).to_inline_metadata()
        start += fragment.physical_rows
    return [staged_file(fragment) for fragment in fragments]


def discard_change(address: DatasetAddress, change: Change, settings: StorageSettings) -> None:
    """Delete the files a change brought and nobody committed; what is missing is fine."""
    store = objects_at(address.root, settings)
    for path in written_by(change):
        if path.startswith("_indices/"):
            store.delete_below(join(address.uri, path))
            continue
        store.delete(join(address.uri, path))
        if path.endswith(".lance"):
            store.delete_below(join(address.uri, path.removesuffix(".lance")))


def _merge_by_hand(
    address: DatasetAddress, version: int, table: pa.Table, settings: StorageSettings
) -> tuple[MergeChange, int, int]:
    dataset = open_dataset(address, version, settings)
    numbers = [fragment.id for fragment in dataset.fragments()]
    found = [
        batch.filter(pc.is_in(batch.column(_KEY), table.column(_KEY).combine_chunks()))
        for batch in dataset.batches(numbers, list(_TARGETS))
    ]
    known = pa.schema(_TARGETS)
    targets = pa.Table.from_batches([batch.cast(known) for batch in found], known)
    at = pc.index_in(table.column(_KEY), targets.column(_KEY).combine_chunks())
    matched = table.filter(at.is_valid())
    row_ids = targets.column(ROW_ID).take(at.drop_null())
    matched = matched.append_column(ROW_ID, row_ids).sort_by(ROW_ID)
    inserts = table.filter(at.is_null())
    files = stage_rewritten(
        address,
        table.schema,
        matched.to_batches(),
        inserts.to_batches(),
        settings,
        _MAX_ROWS,
        _MAX_BYTES,
    )
    with ExitStack() as undo:
        undo.callback(discard, address, files, settings)
        with lance_errors(address.uri):
            handle = open_handle(address, version, settings)
            updated, removed = _delete(handle, targets.column(ROW_ADDRESS).combine_chunks())
        undo.pop_all()
    change = UpdateChange(removed, updated, tuple(files))
    operation = operation_of(change, handle)
    merge = MergeChange(version, pickle.dumps(operation))
    return merge, inserts.num_rows, matched.num_rows


def _matching(dataset: PinnedDataset, where: str, settings: StorageSettings) -> pa.Array[Any]:
    numbers = [fragment.id for fragment in dataset.fragments()]
    use_index = dataset.may_use_indexes(where, settings)
    batches = dataset.batches(numbers, [ROW_ADDRESS], filter=where, use_scalar_index=use_index)
    found = [batch.column(ROW_ADDRESS) for batch in batches]
    return pa.chunked_array(found, pa.uint64()).combine_chunks()


def _delete(
    handle: LanceDataset, addresses: pa.Array[Any]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Mark rows deleted; return the fragments that changed and the ids of those left empty."""
    unsigned = addresses.cast(pa.uint64())
    rows = pa.table(
        {
            "fragment": pc.shift_right(unsigned, pa.scalar(32, pa.uint64())),
            "offset": pc.bit_wise_and(unsigned, pa.scalar(0xFFFFFFFF, pa.uint64())),
        }
    )
    updated, removed = [], []
    grouped = rows.group_by("fragment").aggregate([("offset", "list")]).sort_by("fragment")
    for group in grouped.to_pylist():
        text = _delete_offsets(handle, group["fragment"], group["offset_list"])
        if text is None:
            removed.append(group["fragment"])
        else:
            updated.append(text)
    return tuple(updated), tuple(removed)


def _delete_offsets(handle: LanceDataset, fragment_id: int, offsets: Sequence[int]) -> str | None:
    left = handle.get_fragment(fragment_id).delete_rows(list(offsets))
    DELETIONS_STAGED.reached()
    return None if left is None else json.dumps(left.to_json(), separators=(",", ":"))


def _refers_to_files(table: pa.Table) -> bool:
    for field in table.schema:
        if is_blob_field(field):
            uris = pc.struct_field(table.column(field.name), "uri")
            if uris.null_count < len(uris):
                return True
    return False
