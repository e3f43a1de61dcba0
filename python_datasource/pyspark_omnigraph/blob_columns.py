"""Blob columns of SQL statements: read as descriptors, which cannot be written back as bytes.

A table shows a blob as kind, size and address unless it is opened with `blobs=bytes`. Rows without
a blob are written as they are; anything else needs the bytes.
"""

from __future__ import annotations

import pyarrow as pa

from omnigraph_spark.errors import UnsupportedError

_ADVICE = "have the catalog read and write blobs as bytes: spark.sql.catalog.<name>.blobs=bytes"


def without_descriptors(
    rows: pa.RecordBatch, type_key: str, *, replaces: bool = False
) -> pa.RecordBatch:
    """Leave out columns of descriptors, which must be empty.

    Where rows take the place of others even that is refused: an empty one would remove a blob.
    """
    described = [field.name for field in rows.schema if pa.types.is_struct(field.type)]
    for name in described:
        if replaces or rows.column(name).null_count < rows.num_rows:
            raise UnsupportedError(f"writing {name!r} of {type_key} from a descriptor", _ADVICE)
    return rows.select([name for name in rows.schema.names if name not in described])
