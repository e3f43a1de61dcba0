"""Rows as a SQL statement gives them, made what the engine takes.

A statement gives every column of its table. An id that it left out has a value that stands for
none, and a blob that it did not write is a descriptor, as it is read.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_omnigraph.blob_columns import without_descriptors

#: The default of the column `id` in the jar: Spark has no column that must not be null and may be
#: left out.
NO_ID = "\0"


def given_rows(rows: pa.RecordBatch, type_key: str) -> pa.RecordBatch:
    """Return new rows without what stands for nothing."""
    rows = without_descriptors(rows, type_key)
    if "id" not in rows.schema.names:
        return rows
    ids = rows.column("id")
    missing = pc.equal(ids, pa.scalar(NO_ID))
    if not pc.any(missing).as_py():
        return rows
    at = rows.schema.get_field_index("id")
    made = pc.if_else(missing, pa.scalar(None, pa.string()), ids)
    return rows.set_column(at, pa.field("id", pa.string()), made)
