"""From what Lance's scanner yields to what users get: the public Arrow schema, rows, batch sizes.

Pure pyarrow: no storage, no Spark. Columns whose type does not change pass without a copy; DateTime
(stored as date64 with a time of day) becomes a UTC timestamp by a view of the same buffer, because
Arrow's casts from and to date64 may drop the time of day. Blobs are `blobs`' business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa

from omnigraph_spark.blobs import (
    DESCRIPTOR_TYPE,
    Blobs,
    is_blob,
    public_bytes,
    public_descriptors,
)
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import PropertyType, Scalar

#: Milliseconds are what the format stores; the zone is UTC because a DateTime is an instant.
DATETIME = pa.timestamp("ms", tz="UTC")

_TYPES: dict[Scalar, pa.DataType] = {
    Scalar.STRING: pa.string(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: DATETIME,
}

# Estimates, bytes for each value: exact for numbers; texts are names and ids more often than
# essays, lists are short.
_TEXT_BYTES = 24
_LIST_ITEMS = 8
_WIDTHS: dict[Scalar, int] = {
    Scalar.STRING: _TEXT_BYTES,
    Scalar.BOOL: 1,
    Scalar.I32: 4,
    Scalar.I64: 8,
    Scalar.U32: 4,
    Scalar.U64: 8,
    Scalar.F32: 4,
    Scalar.F64: 8,
    Scalar.DATE: 4,
    Scalar.DATETIME: 8,
    Scalar.BLOB: 48,
}
#: A blob read as bytes, when nothing is known: between a thumbnail and a photograph.
_BLOB_BYTES = 64 << 10

#: Batches of about 2 MiB keep Spark's Python workers busy without holding much.
BATCH_BYTES = 2 << 20
#: Lance reads no faster below, and Spark gains nothing above.
MIN_BATCH_ROWS, MAX_BATCH_ROWS = 8_192, 262_144


def public_columns(columns: Sequence[Column], blobs: Blobs) -> tuple[Column, ...]:
    """Return the columns a user sees: all of them, or all but the blobs."""
    return tuple(c for c in columns if blobs is not Blobs.NONE or not is_blob(c))


def public_schema(columns: Sequence[Column], blobs: Blobs) -> pa.Schema:
    """Return the Arrow schema of the rows users get."""
    return _plan(tuple(columns), blobs)[0]


def to_public(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    blobs: Blobs,
    null_blobs: Mapping[str, pa.BooleanArray] | None = None,
) -> pa.RecordBatch:
    """Turn one scanned batch into public rows; columns that were not asked for are dropped.

    With `Blobs.BYTES` the caller says which blobs are null (`BlobFacts`): scanned bytes cannot.
    """
    schema, steps = _plan(tuple(columns), blobs)
    if not steps:
        # No column but a row count: what `SELECT 1` and `count(*)` read.
        return batch.select([])
    nulls = null_blobs or {}
    arrays = [
        public_bytes(batch.column(name), nulls[name]) if step is None else step(batch.column(name))
        for name, step in steps
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def batch_rows(columns: Sequence[Column], blobs: Blobs = Blobs.DESCRIPTOR) -> int:
    """Say how many rows make a good batch of these columns.

    Blobs count as their descriptors even when read as bytes: how many of them fit is only known
    from their sizes (`BlobFacts.batch_rows`), and the smaller of the two numbers holds.
    """
    seen = Blobs.DESCRIPTOR if blobs is Blobs.BYTES else blobs
    width = max(1, sum(row_width_bytes(column, seen) for column in columns))
    return max(MIN_BATCH_ROWS, min(BATCH_BYTES // width, MAX_BATCH_ROWS))


def row_width_bytes(column: Column, blobs: Blobs = Blobs.DESCRIPTOR) -> int:
    """Estimate how many bytes one value of a column takes in a batch."""
    kind = column.type
    if is_blob(column) and blobs is not Blobs.DESCRIPTOR:
        return _BLOB_BYTES if blobs is Blobs.BYTES else 0
    if kind.scalar is Scalar.VECTOR:
        return 4 * (kind.dimension or 0)
    width = _WIDTHS[kind.scalar]
    return 4 + _LIST_ITEMS * width if kind.list else width


_Step = Callable[["pa.Array[Any]"], "pa.Array[Any]"]


@lru_cache(maxsize=256)
def _plan(
    columns: tuple[Column, ...], blobs: Blobs
) -> tuple[pa.Schema, tuple[tuple[str, _Step | None], ...]]:
    """Decide once for each projection what happens to each column; None stands for bytes."""
    visible = public_columns(columns, blobs)
    fields = [pa.field(c.name, _public_type(c, blobs), nullable=c.type.nullable) for c in visible]
    steps = tuple((c.name, _step(c, blobs)) for c in visible)
    return pa.schema(fields), steps


def _step(column: Column, blobs: Blobs) -> _Step | None:
    if is_blob(column):
        if blobs is Blobs.BYTES:
            return None
        return lambda array: public_descriptors(cast(pa.StructArray, array), column)
    if column.type.scalar is Scalar.DATETIME:
        target = _public_type(column, blobs)
        return lambda array: array.view(target)
    return lambda array: array


def _public_type(column: Column, blobs: Blobs) -> pa.DataType:
    if is_blob(column):
        return pa.binary() if blobs is Blobs.BYTES else DESCRIPTOR_TYPE
    return _value_type(column.type)


def _value_type(kind: PropertyType) -> pa.DataType:
    if kind.scalar is Scalar.VECTOR:
        return pa.list_(pa.field("item", pa.float32()), kind.dimension or 0)
    scalar = _TYPES[kind.scalar]
    return pa.list_(pa.field("item", scalar)) if kind.list else scalar
