"""Lines in the order of their ids, however many there are.

Few are sorted in memory. Of many, the text goes to a file and only id and place are sorted, by
DuckDB, which keeps to a memory bound; then the file is read in that order. Sorting whole lines in
DuckDB was tried: it runs out of memory on lines of some 100 kB. Lance sorts in memory only.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa

#: Text that is sorted in memory.
MEMORY_BYTES = 64 << 20
# What DuckDB may hold of ids and places before it spills.
_SORT_MEMORY = "256MB"
_BATCH_ROWS = 16_384
_PLACE_FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("start", pa.int64()),
    pa.field("size", pa.int64()),
]
_PLACES = pa.schema(_PLACE_FIELDS)

#: Ids and the lines they belong to.
Portion = tuple[list[str], list[bytes]]


def in_order(portions: Iterable[Portion], memory_bytes: int = MEMORY_BYTES) -> Iterator[bytes]:
    """Yield lines by id, in byte order; they come in portions."""
    kept: list[Portion] = []
    size = 0
    incoming = iter(portions)
    for portion in incoming:
        kept.append(portion)
        size += sum(map(len, portion[1]))
        if size > memory_bytes:
            break
    else:
        # Code points sort as their UTF-8 bytes do.
        pairs = sorted(pair for portion in kept for pair in zip(*portion, strict=True))
        yield from (line for _, line in pairs)
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
        yield from _sorted_on_disk(kept, incoming, Path(folder))


def _sorted_on_disk(
    kept: list[Portion], incoming: Iterator[Portion], folder: Path
) -> Iterator[bytes]:
    bounds: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _SORT_MEMORY,
        "temp_directory": str(folder / "spill"),
    }
    with (folder / "lines").open("w+b") as file, duckdb.connect(config=bounds) as database:
        places = pa.RecordBatchReader.from_batches(_PLACES, _spooled(kept, incoming, file))
        database.register("places", places)
        ordered = database.sql("SELECT start, size FROM places ORDER BY id")
        batches = ordered.to_arrow_reader(_BATCH_ROWS)
        # What comes first is known when all was read: from here on the file is complete.
        first = batches.read_next_batch()
        file.flush()
        descriptor = file.fileno()
        for batch in chain([first], batches):
            columns: list[list[Any]] = [column.to_pylist() for column in batch.columns]
            for start, size in zip(*columns, strict=True):
                yield os.pread(descriptor, size, start)


def _spooled(
    kept: list[Portion], incoming: Iterator[Portion], file: IO[bytes]
) -> Iterator[pa.RecordBatch]:
    """Write lines to a file and yield where each of them lies; what was kept is let go."""
    start = 0
    while portion := kept.pop(0) if kept else next(incoming, None):
        ids, lines = portion
        sizes = [len(line) for line in lines]
        ends = list(accumulate(sizes, initial=start))
        start = ends.pop()
        file.writelines(lines)
        places: dict[str, list[Any]] = {"id": ids, "start": ends, "size": sizes}
        yield pa.RecordBatch.from_pydict(places, schema=_PLACES)
