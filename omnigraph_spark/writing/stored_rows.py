"""Rows of which some columns are new: the others are taken from the rows that are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from omnigraph_spark.errors import DamagedGraphError
from omnigraph_spark.scan import ROW_ID
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.storage.blob_values import stored_rows

# Rows looked up at once. Measured on two million rows: 3 µs a row where half of them are asked for,
# 8 µs where one in twenty is, and no less in larger portions.
_PORTION_ROWS = 8192


def completed(source: ScanSource, schema: pa.Schema, changed: pa.Table) -> Iterator[pa.RecordBatch]:
    """Stream whole rows, in the order of `changed`, which has some columns and `ROW_ID`.

    What is not in `changed` is as it is stored, blobs included. Memory is bounded by a portion.
    """
    names = [name for name in schema.names if name not in changed.column_names]
    whole = schema.append(pa.field(ROW_ID, changed.schema.field(ROW_ID).type))
    dataset = source.open()
    for start in range(0, changed.num_rows, _PORTION_ROWS):
        portion = changed.slice(start, _PORTION_ROWS)
        row_ids = _one_array(portion.column(ROW_ID)).cast(pa.uint64())
        done = 0
        for kept in stored_rows(dataset, row_ids, names, zeros_are_null=True):
            new = portion.slice(done, kept.num_rows)
            done += kept.num_rows
            yield pa.RecordBatch.from_arrays(
                [
                    kept.column(name) if name in names else _one_array(new.column(name))
                    for name in whole.names
                ],
                schema=whole,
            )
        if done < portion.num_rows:
            # Passed over without a word, they would be deleted and not written again.
            lost = f"{portion.num_rows - done} rows of {source.entry.type_key} cannot be read again"
            raise DamagedGraphError(source.root, lost)


def with_nulls(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    """Return rows with all columns of a type; those they do not have are null."""
    columns = [
        rows.column(field.name)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _one_array(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    combined: Any = column.combine_chunks()
    array: pa.Array[Any] = combined
    return array
