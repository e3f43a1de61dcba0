"""A snapshot as the engine's interchange records, byte for byte as `omnigraph export` prints them.

Types come by type key, so edges before nodes, and the rows of a type by id; memory is bounded
whatever a type holds. What differs from the engine on purpose: external blobs are not looked at,
so an address that leads nowhere is exported, too; and a time outside of the engine's calendar is
written as its milliseconds, which can be loaded again, where the engine writes an error text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from omnigraph_spark.blobs import is_blob
from omnigraph_spark.errors import StorageError, UnsupportedError
from omnigraph_spark.jsonl.blob_texts import batches_with_blob_texts
from omnigraph_spark.jsonl.ordering import in_order
from omnigraph_spark.jsonl.rendering import lines_of
from omnigraph_spark.names import TypeKey
from omnigraph_spark.scan import ScanRequest, plan_scan, read_all
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.snapshot import SnapshotState

# Rows that are Python values at the same time: objects and lines of so many are a few megabytes.
_BATCH_ROWS = 8_192


def export_lines(state: SnapshotState, types: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the rows of a snapshot as lines, without line ends; of all types or of those named."""
    for key in _keys(state, types):
        for line in _lines(state, key):
            yield line[:-1].decode()


def export_jsonl(
    state: SnapshotState,
    path: str | os.PathLike[str],
    types: Sequence[str] | None = None,
    written: Callable[[str, int], None] = lambda type_key, rows: None,
) -> dict[str, int]:
    """Write the rows of a snapshot to one file, or to one file for each type in a folder.

    A path that is a folder, or ends in a slash, gets a file ``node-Person.jsonl`` for each type.
    Files appear whole: one that was there before stays until its successor is complete. `written`
    is told now and then of which type how many more rows were written.

    Returns:
        How many rows of each type were written.
    """
    text = os.fspath(path)
    if "://" in text:
        raise UnsupportedError(f"exporting to {text!r}", "export to a local path and copy it")
    keys = _keys(state, types)
    rows: dict[str, int] = {}

    def counted(key: TypeKey) -> Iterator[bytes]:
        count = 0
        for count, line in enumerate(_lines(state, key), 1):
            yield line
            if not count % _BATCH_ROWS:
                written(str(key), _BATCH_ROWS)
        rows[str(key)] = count
        written(str(key), count % _BATCH_ROWS)

    if text.endswith(("/", os.sep)) or Path(text).is_dir():
        for key in keys:
            _write(Path(text) / f"{key.kind}-{key.name}.jsonl", counted(key))
    else:
        _write(Path(text), (line for key in keys for line in counted(key)))
    return rows


def _keys(state: SnapshotState, types: Sequence[str] | None) -> list[TypeKey]:
    entries = state.entries.values() if types is None else map(state.entry, types)
    return sorted({entry.type_key for entry in entries}, key=str)


def _lines(state: SnapshotState, key: TypeKey) -> Iterator[bytes]:
    batches = _batches(ScanSource.of(state, str(key)))
    return in_order((_ids(batch), lines_of(key, batch)) for batch in batches)


def _ids(batch: pa.RecordBatch) -> list[str]:
    return [str(id_) for id_ in batch.column("id").to_pylist()]


def _batches(source: ScanSource) -> Iterator[pa.RecordBatch]:
    plan = plan_scan(source, ScanRequest(batch_rows=_BATCH_ROWS))
    if any(map(is_blob, plan.columns)):
        return batches_with_blob_texts(plan, source.open().fragments())
    return read_all(plan)


def _write(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file beside its place and move it there when it is complete."""
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("xb") as file:
                file.writelines(lines)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError("permanent", str(path), error.strerror or str(error)) from error
