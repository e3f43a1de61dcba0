"""Empty blobs that would read back as null: those at the start of their file.

The format has one spelling for both (see `blobs`). An empty blob that comes after other bytes has
a spelling of its own, so rows are put into an order that has such bytes first. Where there are
none, the rows are refused: the alternative is a value that changes without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.blobs import null_blobs
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.columns import Column, columns_of
from omnigraph_spark.schema.model import EntityType, Scalar
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, read_staged
from omnigraph_spark.writing.violations import Violation, merge, violation_of

_MESSAGE = (
    "an empty blob reads back as null when no other bytes come before it in its file: "
    "write null, or the row together with others that have bytes"
)


def nullable_blobs(declared: EntityType) -> list[Column]:
    """Return the columns of a type in which a null and an empty blob can be mistaken."""
    columns = columns_of(arrow_schema(declared), declared, declared.type_key.kind)
    return [each for each in columns if each.type.scalar is Scalar.BLOB and each.type.nullable]


def has_empty(rows: pa.RecordBatch | pa.Table, columns: Sequence[Column]) -> bool:
    """Tell whether any blob of rows, as they are written, is empty."""
    zero = pa.scalar(0, pa.int64())
    return any(
        pc.any(pc.equal(_lengths(rows, column), zero)).as_py()
        for column in columns
        if column.name in rows.schema.names
    )


def _lengths(rows: pa.RecordBatch | pa.Table, column: Column) -> pa.Array[Any]:
    lengths: Any = pc.binary_length(pc.struct_field(rows.column(column.name), "data"))
    return cast("pa.Array[Any]", lengths)


def bytes_first(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Let a row that has bytes come first if its blob would be the first of the file.

    Blobs are written column by column, so that is one of the first column that has any.
    """
    for column in columns:
        lengths = _lengths(batch, column)
        if lengths.null_count == len(lengths):
            continue
        first = pc.index(pc.greater(lengths, pa.scalar(0, pa.int64())), True).as_py()
        if first <= 0:
            break
        return batch.take(pa.array([first, *range(first), *range(first + 1, batch.num_rows)]))
    return batch


def find_mistakable(
    address: DatasetAddress,
    files: Sequence[StagedFile],
    declared: EntityType,
    settings: StorageSettings,
) -> tuple[Violation, ...]:
    """Return the empty blobs of new files that would read back as null."""
    columns = nullable_blobs(declared)
    if not columns:
        return ()
    found: list[Violation] = []
    names = ["id", *(column.name for column in columns)]
    for batch in read_staged(address, files, names, settings):
        for column in columns:
            descriptors = cast(pa.StructArray, batch.column(column.name))
            # What is written here spells a null as a null struct.
            mistaken = pc.and_(null_blobs(descriptors, column), descriptors.is_valid())
            if pc.any(mistaken).as_py():
                ids = batch.column("id").filter(mistaken)
                key = str(declared.type_key)
                found.append(violation_of("blob", key, column.name, _MESSAGE, ids))
    return merge(found)
