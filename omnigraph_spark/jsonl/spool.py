"""Batches by type while an input is read to its end: few stay in memory, many go to disk.

Whoever stages rows takes one type after the other, but an input has them in any order. Only when
all of it was read is it known to be good, so nothing of a bad input is ever staged.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

#: Batches of all types that are kept in memory; beyond it they go to disk.
MEMORY_BYTES = 64 << 20


class RowsByType(Mapping[str, Iterable[pa.RecordBatch]]):
    """The rows of an input by type key, `node:Person`; each type may be read again and again.

    Use it in a `with` statement: what went to disk is removed at its end.
    """

    def __init__(
        self, batches: Iterable[tuple[str, pa.RecordBatch]], memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._batches: dict[str, _Batches] = {}
        self._close = ExitStack()
        with self._close:
            self._fill(batches, memory_bytes)
            # Filled: from here on the user closes it, or whoever collects it.
            self._close = self._close.pop_all()

    def _fill(self, batches: Iterable[tuple[str, pa.RecordBatch]], memory_bytes: int) -> None:
        folder: Path | None = None
        kept = 0
        with ExitStack() as writers:
            for key, batch in batches:
                mine = self._batches.setdefault(key, _Batches())
                mine.rows += batch.num_rows
                if folder is None and kept + batch.nbytes > memory_bytes:
                    folder = Path(
                        self._close.enter_context(tempfile.TemporaryDirectory(prefix="omnigraph-"))
                    )
                if folder is None:
                    mine.kept.append(batch)
                    kept += batch.nbytes
                    continue
                if mine.writer is None:
                    # By number: some disks take names for the same that differ in case alone.
                    mine.path = folder / f"{list(self._batches).index(key)}.arrow"
                    file = writers.enter_context(pa.OSFile(str(mine.path), "wb"))
                    mine.writer = writers.enter_context(pa.ipc.new_stream(file, batch.schema))
                mine.writer.write_batch(batch)

    def rows(self, key: str) -> int:
        """Return how many rows a type has."""
        return self._batches[key].rows

    def __getitem__(self, key: str) -> Iterable[pa.RecordBatch]:
        return self._batches[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def close(self) -> None:
        """Remove what went to disk; the rows are gone with it."""
        self._batches.clear()
        self._close.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Batches:
    """The batches of one type: first those in memory, then those on disk."""

    def __init__(self) -> None:
        self.kept: list[pa.RecordBatch] = []
        self.path: Path | None = None
        self.writer: pa.RecordBatchStreamWriter | None = None
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self.kept
        if self.path is not None:
            with pa.OSFile(str(self.path), "rb") as file, pa.ipc.open_stream(file) as reader:
                yield from reader
