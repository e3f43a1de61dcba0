"""Blob columns of SQL statements: read as descriptors, which cannot be written back as bytes.

A table shows a blob as kind, size and address unless it is opened with `blobs=bytes`. New rows are
written without a blob, and rows that are there keep theirs as long as a statement leaves them as
they are; anything else needs the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.taking import PlacedRows

_ADVICE = "have the catalog read and write blobs as bytes: spark.sql.catalog.<name>.blobs=bytes"


def described(schema: StructType) -> tuple[str, ...]:
    """Return the columns that hold descriptors: no other column of a type is a struct."""
    return tuple(field.name for field in schema if isinstance(field.dataType, StructType))


def without_descriptors(rows: pa.RecordBatch, type_key: str) -> pa.RecordBatch:
    """Leave out columns of descriptors, which must be empty."""
    names = [field.name for field in rows.schema if pa.types.is_struct(field.type)]
    for name in names:
        if rows.column(name).null_count < rows.num_rows:
            raise _refused(name, type_key)
    return _without(rows, names)


@dataclass(frozen=True)
class KeptBlobs:
    """The blobs of rows that a statement changes, at the version that it reads."""

    source: ScanSource
    names: tuple[str, ...]

    def checked(self, rows: pa.RecordBatch, places: pa.RecordBatch) -> pa.RecordBatch:
        """Leave out columns of descriptors, which must be those of the rows at these places."""
        by_name = {column.name: column for column in self.source.columns()}
        stored = PlacedRows(self.source, tuple(by_name[name] for name in self.names))
        done = 0
        for portion, found in stored.read([places]):
            given = rows.slice(done, portion.num_rows)
            done += portion.num_rows
            for name in self.names:
                kept = found.column(name)
                if not given.column(name).cast(kept.type).equals(kept):
                    raise _refused(name, str(self.source.entry.type_key))
        return _without(rows, self.names)


def _without(rows: pa.RecordBatch, names: tuple[str, ...] | list[str]) -> pa.RecordBatch:
    return rows.select([name for name in rows.schema.names if name not in names])


def _refused(name: str, type_key: str) -> UnsupportedError:
    return UnsupportedError(f"writing {name!r} of {type_key} from a descriptor", _ADVICE)
