"""The workers' end of the tunnel to the jar: whole Arrow batches, each in one row of cells.

Spark would copy rows of a Python source one by one. Here a row is a batch: its place in the memory
shared with the JVM (`ring`), or, where that is not to be had, the batch itself in a binary cell.

Where a worker's time goes, in CPU seconds for 10 million rows of 12 columns, caches warm: Lance
decodes for 1.4, casts to Spark's types take 0.1, the copy into the ring 0.45. Of one number Lance
decodes for 0.03, and its sum takes 0.01 more; twelve groups by a text take 0.32, of which Lance
0.14; the longest of long texts 0.46, of which Lance 0.29. Through the socket all columns took about
1.6 times the CPU time of all processes that they take in shared memory.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from omnigraph_spark.storage.parts import ScanCost
from pyspark_omnigraph.ring import PLACE_BYTES, RINGS, Place, Ring, flush_of_worker
from pyspark_omnigraph.worker import tune_worker

_TYPES: dict[str, pa.DataType] = {
    "ring": pa.string(),
    "place": pa.int32(),
    "offset": pa.int64(),
    "length": pa.int32(),
    "ipc": pa.binary(),
    "requests": pa.int64(),
    "read": pa.int64(),
    "fragments": pa.int64(),
}
_CELLS = pa.schema(_TYPES)
# The messages of schema and end of a stream take some hundred bytes for each column.
_FRAMING_BYTES, _COLUMN_BYTES = 4_096, 512


class CountingReader(Protocol):
    """A reader that also says what it cost."""

    def partitions(self) -> list[InputPartition]:
        """Return what each task reads."""

    def read(self, partition: InputPartition, cost: ScanCost) -> Iterator[pa.RecordBatch]:
        """Read one partition; at the end `cost` is complete."""


class TunnelReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """Reads what another reader reads, batch by batch."""

    def __init__(self, reader: CountingReader, shared_memory: bool = True) -> None:
        self._reader = reader
        self._shared_memory = shared_memory

    def partitions(self) -> list[InputPartition]:
        planned: list[InputPartition] = self._reader.partitions()
        tune_worker()
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        cost = ScanCost()
        ring = RINGS.take() if self._shared_memory else None
        try:
            yield from _cells(self._reader.read(partition, cost), ring)
            yield _row(requests=cost.requests, read=cost.bytes, fragments=cost.fragments)
        except BaseException:
            # Its places may never be given back. The JVM reads on where it has mapped it.
            if ring is not None:
                ring.close()
            raise
        if ring is not None:
            RINGS.give_back(ring)
        tune_worker()


def _cells(batches: Iterator[pa.RecordBatch], ring: Ring | None) -> Iterator[pa.RecordBatch]:
    if ring is None:
        yield from map(as_cell, batches)
        return
    flush: Callable[[], object] | None = None
    looked = False
    for batch in batches:
        for part, size in _parts(batch):
            place = ring.put(part, size, 1.0 if flush else 0.0) if ring.is_mapped else None
            if place is None:
                yield _row(ring=ring.address, ipc=_stream(part))
            else:
                yield _named(ring, place)
            if not looked:
                # Now Spark's writer runs: not before it has asked for the first row.
                flush, looked = flush_of_worker(), True
            if flush is not None:
                flush()


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Cut a batch into parts that fit a place, with the bytes each takes as a stream."""
    framing = _FRAMING_BYTES + _COLUMN_BYTES * batch.num_columns
    size = pa.ipc.get_record_batch_size(batch) + framing
    if size <= PLACE_BYTES or batch.num_rows < 2:
        yield batch, size
        return
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half))
    yield from _parts(batch.slice(half))


def as_cell(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Put a batch into one cell; the bytes of the stream are not copied again."""
    return _row(ipc=_stream(batch))


def as_text(batch: pa.RecordBatch) -> str:
    """Write a batch as an Arrow stream in letters, for an answer."""
    return b64encode(_as_stream(batch)).decode()


def _as_stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def _stream(batch: pa.RecordBatch) -> pa.Array[Any]:
    content = _as_stream(batch)
    offsets = pa.py_buffer((0).to_bytes(4, "little") + content.size.to_bytes(4, "little"))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, content])


def _named(ring: Ring, place: Place) -> pa.RecordBatch:
    return _row(ring=ring.address, place=place.number, offset=place.offset, length=place.length)


def _row(**cells: object) -> pa.RecordBatch:
    arrays = [
        cell
        if isinstance(cell := cells.get(field.name), pa.Array)
        else pa.array([cell], field.type)
        for field in _CELLS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_CELLS)
