"""Blobs as the engine exports them: `base64:` and the bytes, or the address of an external one.

Bytes are read in slices of bounded size, and never those of external blobs: the engine only writes
their address, and they may be huge, or not reachable from here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from omnigraph_spark.blobs import Blobs, is_blob
from omnigraph_spark.scan import ScanPlan, ScanTask, read_task
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.storage.parts import Fragment

_WINDOW_ROWS = 8_192
#: Bytes of blobs that are read together.
SLICE_BYTES = 16 << 20

_Descriptor = dict[str, Any] | None


def batches_with_blob_texts(
    plan: ScanPlan, fragments: Sequence[Fragment], slice_bytes: int = SLICE_BYTES
) -> Iterator[pa.RecordBatch]:
    """Read what a plan reads, row for row, with the text of each blob in place of the blob."""
    if not plan.tasks:
        return
    for fragment in fragments:
        for start in range(0, fragment.rows, _WINDOW_ROWS):
            count = min(_WINDOW_ROWS, fragment.rows - start)
            task = replace(plan.tasks[0], fragment_ids=(fragment.id,), row_range=(start, count))
            window = pa.Table.from_batches(read_task(task), plan.schema).combine_chunks()
            for batch in window.to_batches():
                yield from _with_texts(task, batch, start, slice_bytes)


def _with_texts(
    task: ScanTask, batch: pa.RecordBatch, start: int, slice_bytes: int
) -> Iterator[pa.RecordBatch]:
    blobs = [column for column in task.columns if is_blob(column)]
    descriptors = {column.name: batch.column(column.name).to_pylist() for column in blobs}
    sizes = [sum(map(_size, row)) for row in zip(*descriptors.values(), strict=True)]
    for low, high in _slices(sizes, slice_bytes):
        part = batch.slice(low, high - low)
        for column in blobs:
            texts = _texts(task, column, descriptors[column.name][low:high], start + low)
            place = part.schema.get_field_index(column.name)
            part = part.set_column(place, column.name, pa.array(texts, pa.large_string()))
        yield part


def _slices(sizes: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """Cut rows into slices of at most so many bytes, or of one row."""
    low = total = 0
    for row, size in enumerate(sizes):
        if total + size > limit and row > low:
            yield low, row
            low, total = row, 0
        total += size
    yield low, len(sizes)


def _texts(
    task: ScanTask, column: Column, descriptors: list[_Descriptor], start: int
) -> Iterator[str | None]:
    """Yield the texts of one column, for rows from `start` of the task's fragment on."""
    done = 0
    for external, group in groupby(descriptors, key=_is_external):
        run = list(group)
        if external or not any(map(_size, run)):
            yield from map(_without_bytes, run)
        else:
            yield from _read_texts(task, column, start + done, len(run))
        done += len(run)


def _read_texts(task: ScanTask, column: Column, start: int, count: int) -> Iterator[str | None]:
    of_bytes = replace(task, columns=(column,), blobs=Blobs.BYTES, row_range=(start, count))
    for batch in read_task(of_bytes):
        for data in batch.column(column.name).to_pylist():
            yield None if data is None else _text(data)


def _without_bytes(descriptor: _Descriptor) -> str | None:
    if descriptor is None:
        return None
    return str(descriptor["uri"]) if _is_external(descriptor) else _text(b"")


def _text(data: bytes) -> str:
    return f"base64:{base64.b64encode(data).decode()}"


def _is_external(descriptor: _Descriptor) -> bool:
    return descriptor is not None and descriptor["kind"] == "external"


def _size(descriptor: _Descriptor) -> int:
    if descriptor is None or _is_external(descriptor):
        return 0
    return descriptor["size"] or 0
