"""Rows of small files that this process has just staged, kept so that checks need not fetch them.

A small commit is checked at once by the process that staged it, and to open a file would take
longer than the checks: requests to an object store, and 4 ms of CPU time on a local disk. Files
never change, so what was handed to Lance is what is in them; blobs are left out, because they read
back as something else than they were given.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import pyarrow as pa

from omnigraph_spark.storage.uncommitted import is_blob_field

#: Up to this much of one file, and of so many files: 16 MiB at most.
_FILE_BYTES = 256 << 10
_FILES_KEPT = 64
_kept: OrderedDict[tuple[str, str], pa.Table] = OrderedDict()


class Tally:
    """Notes rows on their way into files, until they are too many to keep."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._left = 0 if any(map(is_blob_field, schema)) else _FILE_BYTES

    def note(self, batch: pa.RecordBatch) -> None:
        """Take note of the next rows."""
        self._left -= batch.nbytes
        if self._left > 0:
            self._batches.append(batch)
        else:
            self._batches.clear()

    def keep(self, dataset: str, paths: Sequence[str]) -> None:
        """Keep the rows, if they are few and all in one file."""
        if self._left <= 0 or len(paths) != 1:
            return
        _kept[dataset, paths[0]] = pa.Table.from_batches(self._batches, self._schema)
        while len(_kept) > _FILES_KEPT:
            _kept.popitem(last=False)


def kept_rows(dataset: str, paths: Iterable[str], columns: Sequence[str]) -> pa.Table | None:
    """Return columns of files in the order of the files; None when one of them is not kept."""
    tables = [_kept.get((dataset, path)) for path in paths]
    known = [table.select(list(columns)) for table in tables if table is not None]
    return pa.concat_tables(known) if known and len(known) == len(tables) else None


def forget_rows(dataset: str, path: str) -> None:
    """Let the rows of a file go."""
    _kept.pop((dataset, path), None)
