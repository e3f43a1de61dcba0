"""Blob columns in scanned batches: descriptors, which blobs are null, how many fit a batch.

Owns the null rule of the format. Engine files store a null blob as a descriptor that is all zeros
under a struct that is *not* null, so neither the struct's validity nor the scanned bytes (empty)
tell; only the descriptor does. An empty blob that is the first value of its file has the same
descriptor. In a nullable column it reads as null, as the engine itself exports it; in a required
column it can only be an empty blob. Lance does not know this rule: its `payload is null` finds none
of the engine's nulls, so filters on blobs are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.errors import InvalidFilterError, UnsupportedError
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import Scalar


class Blobs(StrEnum):
    """How blob columns reach the user: what is stored, the bytes, or not at all."""

    DESCRIPTOR = "descriptor"
    BYTES = "bytes"
    NONE = "none"


#: What users see of a blob that is not read. `size` is null for an external blob of unknown size.
DESCRIPTOR_TYPE = pa.struct(
    [pa.field("kind", pa.string()), pa.field("size", pa.int64()), pa.field("uri", pa.string())]
)

#: Names of Lance's storage kinds, by their number in a descriptor.
_KINDS = pa.array(["inline", "packed", "dedicated", "external"])
_INLINE, _EXTERNAL = 0, 3

#: One batch of blobs read as bytes aims at this much: below it per-batch cost dominates (16 rows of
#: 1 kB are 15 times slower than 1,024), above it nothing gets faster.
BYTES_TARGET = 16 << 20
#: No batch may need more than this even when all of its blobs are as large as the largest.
BYTES_LIMIT = 256 << 20
_MAX_ROWS = 8192
#: An external blob's size is not stored; assume a photograph.
_EXTERNAL_ESTIMATE = 1 << 20


def scanner_blob_handling(blobs: Blobs) -> Literal["blobs_descriptions", "all_binary"]:
    """Return the scanner's `blob_handling` argument.

    `BYTES` needs a second scan of the same rows with descriptions, see `BlobFacts`; `NONE` leaves
    blob columns out of the projection, so the argument does not matter there.
    """
    return "all_binary" if blobs is Blobs.BYTES else "blobs_descriptions"


def is_blob(column: Column) -> bool:
    """Tell whether a column holds blobs."""
    return column.type.scalar is Scalar.BLOB


# Text in quotes is skipped; names in backticks are exact, bare ones are matched without case.
_NAME = re.compile(r"'(?:[^']|'')*'|`(?P<exact>[^`]*)`|(?P<bare>[^\W\d]\w*)")


def refuse_blobs_in(where: str, columns: Iterable[Column]) -> None:
    """Raise if a filter tests a blob column: Lance would answer it by another rule than ours."""
    exact = {column.name for column in columns if is_blob(column)}
    folded = {name.lower(): name for name in exact}
    for token in _NAME.finditer(where):
        bare = folded.get((token["bare"] or "").lower())
        name = bare if token["exact"] is None else token["exact"]
        if name in exact:
            reason = f"{name!r} is a Blob column; read it and filter the rows in Spark"
            raise InvalidFilterError(where, reason)


def null_blobs(descriptors: pa.StructArray, column: Column) -> pa.BooleanArray:
    """Mark the rows whose blob is null."""
    if not column.type.nullable:
        return pa.repeat(pa.scalar(False), len(descriptors))
    zeros = pc.equal(descriptors.field("kind"), pa.scalar(_INLINE, pa.uint8()))
    for name in ("position", "size"):
        zeros = pc.and_(zeros, pc.equal(descriptors.field(name), pa.scalar(0, pa.uint64())))
    zeros = pc.and_(zeros, pc.equal(descriptors.field("blob_uri"), pa.scalar("")))
    # A null struct has unspecified children: Kleene's `or` lets its own validity decide.
    return pc.or_kleene(descriptors.is_null(), zeros)


def public_descriptors(descriptors: pa.StructArray, column: Column) -> pa.StructArray:
    """Turn Lance's descriptors into the struct users see."""
    kind, size = descriptors.field("kind"), descriptors.field("size").cast(pa.int64())
    uri = descriptors.field("blob_uri")
    unknown = pc.and_(
        pc.equal(kind, pa.scalar(_EXTERNAL, pa.uint8())), pc.equal(size, pa.scalar(0, pa.int64()))
    )
    no_size, no_uri = pa.scalar(None, pa.int64()), pa.scalar(None, pa.string())
    return pa.StructArray.from_arrays(
        [
            _KINDS.take(kind),
            pc.if_else(unknown, no_size, size),
            pc.if_else(pc.equal(uri, pa.scalar("")), no_uri, uri),
        ],
        fields=list(DESCRIPTOR_TYPE),
        mask=null_blobs(descriptors, column),
    )


def public_bytes(values: pa.Array[Any], nulls: pa.BooleanArray) -> pa.BinaryArray:
    """Turn scanned bytes into the binary column users see, null where the descriptor says so."""
    if values.nbytes > _ARROW_BINARY_LIMIT:
        raise UnsupportedError(
            f"a batch of blobs of {values.nbytes} bytes",
            "set a smaller batchSize, or read blobs as descriptors",
        )
    narrow = values.cast(pa.binary())
    if not pc.any(nulls).as_py():
        return cast(pa.BinaryArray, narrow)
    return cast(pa.BinaryArray, pc.if_else(nulls, pa.scalar(None, pa.binary()), narrow))


# Spark's binary columns have 32-bit offsets.
_ARROW_BINARY_LIMIT = (1 << 31) - 1


@dataclass
class BlobFacts:
    """What the descriptors of one scan say: which blobs are null and how large they are.

    Bytes alone cannot say which blobs are null, and batches of unknown size have no bound. Both are
    known after a scan of the descriptors of the same rows in the same order; it is cheap, and one
    bit for each row and blob column is kept. Batch borders of the two scans differ when a filter
    is pushed, so rows are matched by their place in the scan.
    """

    rows: int = 0
    max_row_bytes: int = 0
    total_bytes: int = 0
    _nulls: dict[str, list[pa.BooleanArray]] = field(default_factory=dict)

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], columns: Sequence[Column]) -> BlobFacts:
        """Read the descriptors of a scan to the end."""
        facts = cls()
        blob_columns = [column for column in columns if is_blob(column)]
        for batch in batches:
            facts._add(batch, blob_columns)
        return facts

    def _add(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> None:
        if not batch.num_rows or not columns:
            return
        widths: pa.Array[Any] = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        for column in columns:
            descriptors = cast(pa.StructArray, batch.column(column.name))
            self._nulls.setdefault(column.name, []).append(null_blobs(descriptors, column))
            widths = pc.add(widths, _sizes(descriptors))
        self.rows += batch.num_rows
        self.total_bytes += pc.sum(widths).as_py() or 0
        self.max_row_bytes = max(self.max_row_bytes, pc.max(widths).as_py() or 0)

    def nulls(self, name: str, start: int, length: int) -> pa.BooleanArray:
        """Mark the null blobs among `length` rows from place `start` of the scan."""
        chunks = pa.chunked_array(self._nulls.get(name, []), pa.bool_()).slice(start, length)
        if len(chunks) != length:
            raise IndexError(f"rows {start} to {start + length} of {self.rows} in {name!r}")
        return cast(pa.BooleanArray, chunks.combine_chunks())

    def batch_rows(self) -> int:
        """Say how many rows of these blobs make a good batch."""
        if not self.total_bytes:
            return _MAX_ROWS
        by_mean = BYTES_TARGET * self.rows // self.total_bytes
        by_largest = BYTES_LIMIT // self.max_row_bytes
        return max(1, min(by_mean, by_largest, _MAX_ROWS))


def _sizes(descriptors: pa.StructArray) -> pa.Array[Any]:
    kind, size = descriptors.field("kind"), descriptors.field("size").cast(pa.int64())
    external = pc.equal(kind, pa.scalar(_EXTERNAL, pa.uint8()))
    unknown = pc.and_(external, pc.equal(size, pa.scalar(0, pa.int64())))
    zero, guess = pa.scalar(0, pa.int64()), pa.scalar(_EXTERNAL_ESTIMATE, pa.int64())
    known: pa.Array[Any] = pc.if_else(unknown, guess, size)
    return cast("pa.Array[Any]", pc.if_else(descriptors.is_null(), zero, known))
