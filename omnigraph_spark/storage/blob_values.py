"""Blob columns read back in the shape they are written in: bytes, or the address of a file.

A scan gives descriptors. Here those become the struct of `data` and `uri` again, so that rows can
be written once more without a loss. Files that a blob only refers to are not opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.storage.datasets import PinnedDataset
from omnigraph_spark.storage.uncommitted import BLOB_TYPE, is_blob_field

_ROW_ADDRESS = "_rowaddr"
#: Lance's number for a blob that lies in a file of the user's.
_EXTERNAL = 3
#: Blobs held at once, so that memory stays bounded whatever the size of a row's.
_PORTION_BYTES = 64 << 20
_BATCH_ROWS = 1024


def stored_batches(
    dataset: PinnedDataset,
    fragment_ids: Sequence[int],
    columns: Sequence[str],
    *,
    zeros_are_null: bool,
    **scan: Any,
) -> Iterator[pa.RecordBatch]:
    """Stream rows with blobs as they are stored; `scan` holds Lance's scanner options.

    Engine files spell a null blob as a descriptor of zeros: `zeros_are_null` reads it so.
    """
    blobs = _blobs(dataset, columns)
    if not blobs:
        yield from dataset.batches(fragment_ids, columns, **scan)
        return
    names = [*columns, *({_ROW_ADDRESS} - set(columns))]
    scan = {"batch_size": _BATCH_ROWS} | scan
    for batch in dataset.batches(fragment_ids, names, **scan):
        for portion in _filled(dataset, batch, blobs, zeros_are_null):
            yield portion.select(list(columns))


def stored_rows(
    dataset: PinnedDataset, row_ids: pa.Array[Any], columns: Sequence[str], *, zeros_are_null: bool
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of these ids in their order, as `stored_batches` does."""
    blobs = _blobs(dataset, columns)
    rows = dataset.rows(row_ids, [*columns, *([_ROW_ADDRESS] if blobs else ())])
    for batch in rows.to_batches():
        for portion in _filled(dataset, batch, blobs, zeros_are_null):
            yield portion.select(list(columns))


def described_bytes(batch: pa.RecordBatch, blobs: Sequence[str]) -> int:
    """Return how large the blobs are that descriptors stand for."""
    sizes = (pc.struct_field(cast(pa.StructArray, batch.column(name)), "size") for name in blobs)
    return sum(pc.sum(size).as_py() or 0 for size in sizes)


def _blobs(dataset: PinnedDataset, columns: Sequence[str]) -> list[pa.Field[Any]]:
    return [field for field in dataset.schema if field.name in columns and is_blob_field(field)]


def _filled(
    dataset: PinnedDataset,
    batch: pa.RecordBatch,
    blobs: Sequence[pa.Field[Any]],
    zeros_are_null: bool,
) -> Iterator[pa.RecordBatch]:
    """Put blobs in the place of their descriptors, so many rows at a time as fit in memory."""
    for portion in _portions(batch, [field.name for field in blobs]):
        for field in blobs:
            descriptors = cast(pa.StructArray, portion.column(field.name))
            nulls = _nulls(descriptors, zeros_are_null and field.nullable)
            addresses = portion.column(_ROW_ADDRESS)
            values = _values(dataset, field.name, descriptors, nulls, addresses)
            portion = _replaced(portion, field.name, values)
        yield portion


def _portions(batch: pa.RecordBatch, blobs: Sequence[str]) -> Iterator[pa.RecordBatch]:
    sizes = [0] * batch.num_rows
    for name in blobs:
        descriptors = cast(pa.StructArray, batch.column(name))
        for row, size in enumerate(pc.struct_field(descriptors, "size").to_pylist()):
            sizes[row] += size or 0
    start, held = 0, 0
    for row, size in enumerate(sizes):
        if row > start and held + size > _PORTION_BYTES:
            yield batch.slice(start, row - start)
            start, held = row, 0
        held += size
    if start < batch.num_rows:
        yield batch.slice(start)


def _nulls(descriptors: pa.StructArray, zeros_are_null: bool) -> pa.BooleanArray:
    absent = descriptors.is_null()
    if not zeros_are_null:
        return absent
    zeros: Any = pa.repeat(pa.scalar(True), len(descriptors))
    for name in ("kind", "position", "size"):
        field = descriptors.field(name)
        zeros = pc.and_(zeros, pc.equal(field, pa.scalar(0, field.type)))
    zeros = pc.and_(zeros, pc.equal(descriptors.field("blob_uri"), pa.scalar("")))
    return cast(pa.BooleanArray, pc.or_kleene(absent, zeros))


def _values(
    dataset: PinnedDataset,
    name: str,
    descriptors: pa.StructArray,
    nulls: pa.BooleanArray,
    addresses: pa.Array[Any],
) -> pa.StructArray:
    external = pc.equal(pc.struct_field(descriptors, "kind"), pa.scalar(_EXTERNAL, pa.uint8()))
    elsewhere = pc.or_kleene(nulls, external)
    rows = pc.indices_nonzero(pc.invert(elsewhere))
    content: list[bytes | None] = [None] * len(descriptors)
    blobs = dataset.blobs(name, addresses.take(rows)) if len(rows) else []
    for row, blob in zip(rows.to_pylist(), blobs, strict=True):
        content[row] = blob
    uris = pc.if_else(
        pc.fill_null(external, False),
        pc.struct_field(descriptors, "blob_uri"),
        pa.scalar(None, pa.string()),
    )
    return pa.StructArray.from_arrays(
        [pa.array(content, pa.large_binary()), uris], fields=list(BLOB_TYPE), mask=nulls
    )


def _replaced(batch: pa.RecordBatch, name: str, values: pa.Array[Any]) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at).with_type(values.type), values)
