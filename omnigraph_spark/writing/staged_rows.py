"""Rows of staged files as users read them, from plain values that any process can open.

What a transaction staged is read many times: by the checks, by a merge, by the transaction's own
reader. All of them take it from here, in this process or in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph_spark.arrow_rows import public_schema, to_public
from omnigraph_spark.blobs import Blobs
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.columns import Column, columns_of
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, read_staged

#: The column that says in which of the files a row lies, where it is asked for.
FILE_NUMBER = "file"
# Rows that one task reads: as many as a file of the usual size holds. Tiny files share a task.
_PART_ROWS = 1 << 20


@dataclass(frozen=True)
class StagedSource:
    """Staged files of one type, as plain values."""

    address: DatasetAddress
    settings: StorageSettings
    declared: EntityType
    files: tuple[StagedFile, ...]
    #: The number of the first file: parts of a source number their files as the whole does.
    first: int = 0

    @property
    def rows(self) -> int:
        """How many rows the files hold."""
        return sum(file.rows for file in self.files)

    def columns(self, names: Sequence[str]) -> tuple[Column, ...]:
        """Return what the schema says of stored columns."""
        stored = arrow_schema(self.declared)
        known = columns_of(stored, self.declared, self.declared.type_key.kind)
        by_name = {column.name: column for column in known}
        return tuple(by_name[name] for name in names)

    def schema(self, names: Sequence[str], *, numbered: bool = False) -> pa.Schema:
        """Return the schema of `batches`."""
        public = public_schema(self.columns(names), Blobs.DESCRIPTOR)
        number = pa.field(FILE_NUMBER, pa.int64(), nullable=False)
        return public.append(number) if numbered else public

    def batches(self, names: Sequence[str], *, numbered: bool = False) -> Iterator[pa.RecordBatch]:
        """Stream columns of all files, in public types; `numbered` adds `FILE_NUMBER`."""
        columns = self.columns(names)
        if not numbered:
            for batch in read_staged(self.address, self.files, names, self.settings):
                yield to_public(batch, columns, Blobs.DESCRIPTOR)
            return
        schema = self.schema(names, numbered=True)
        for number, file in enumerate(self.files, self.first):
            for batch in read_staged(self.address, [file], names, self.settings):
                public = to_public(batch, columns, Blobs.DESCRIPTOR)
                numbers = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
                yield pa.RecordBatch.from_arrays([*public.columns, numbers], schema=schema)

    def parts(self) -> list[StagedSource]:
        """Split the files, in order, into parts for one task each; never an empty list."""
        parts: list[StagedSource] = []
        start = rows = 0
        for number, file in enumerate(self.files):
            if rows and rows + file.rows > _PART_ROWS:
                parts.append(self._part(start, number))
                start, rows = number, 0
            rows += file.rows
        return [*parts, self._part(start, len(self.files))]

    def _part(self, start: int, end: int) -> StagedSource:
        return replace(self, files=self.files[start:end], first=self.first + start)
