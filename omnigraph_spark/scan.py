"""Reading one type at one snapshot: which tasks cover it, and what each task yields.

`plan_scan` decides on the driver, from metadata alone. `read_task` runs anywhere, in any process: a
task holds plain values and reopens its dataset at the exact version. Memory is bounded by the
batches in flight, whatever the size of a fragment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.arrow_rows import (
    batch_rows,
    public_columns,
    public_schema,
    row_width_bytes,
    to_public,
)
from omnigraph_spark.blobs import (
    BlobFacts,
    Blobs,
    is_blob,
    refuse_blobs_in,
    scanner_blob_handling,
)
from omnigraph_spark.errors import (
    ColumnNotFoundError,
    InvalidFilterError,
    InvalidOptionError,
    StorageError,
)
from omnigraph_spark.filters import as_one_condition, check_filter_text
from omnigraph_spark.packing import SPREAD_OVER, Piece, pack_fragments
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column, columns_of
from omnigraph_spark.storage.datasets import (
    PinnedDataset,
)
from omnigraph_spark.storage.parts import Ordering, ScanCost, looked_up_fragments
from omnigraph_spark.storage.translate import QUERY, lance_text

# Lance reads ahead of the consumer up to this much; its own default of 2 GiB would be a worker's
# whole memory.
_IO_BUFFER_BYTES = 64 << 20
# Decoded batches ahead of the consumer: enough to overlap decoding with the hop to Spark.
_BATCHES_AHEAD = 4
# The largest numbers Lance takes. No dataset has more rows, so a larger wish means the same.
_MOST_ROWS = (1 << 63) - 1
_MOST_BATCH_ROWS = (1 << 32) - 1
# Of rows that a filter leaves out only what it compares is read. How many these are nobody knows,
# so a filtered scan counts the rest of a row with a quarter: its tasks are larger, and fewer.
_OF_FILTERED_ROWS = 0.25
# Lance decodes, filters and leaves out in portions of one batch: of more rows, what the filter
# reads no longer stays in the cache. Ten million rows by one number took half the CPU time.
_FILTERED_BATCH_ROWS = 65_536


#: Columns that no type has: in which fragment a row lies at this version, at which place of it, and
#: which row it is, whatever versions do to its place.
FRAGMENT, PLACE, ROW_ID = "_fragment", "_place", "_rowid"
#: Both in one number: the fragment in its upper half, the place in the lower one.
ROW_ADDRESS = "_rowaddr"


@dataclass(frozen=True)
class ScanRequest:
    """What is wanted of a type: columns (None = all), rows, and in which portions."""

    columns: tuple[str, ...] | None = None
    where: str | None = None
    limit: int | None = None
    blobs: Blobs = Blobs.DESCRIPTOR
    batch_rows: int | None = None
    #: Bytes one task reads, where somebody wished a size.
    split_bytes: int | None = None
    #: Tasks that work at the same time.
    spread_over: int = SPREAD_OVER
    #: Only rows of these fragments; None is all.
    fragment_ids: frozenset[int] | None = None
    #: Rows left out before the first; they count towards no limit.
    offset: int = 0
    #: The first rows in this order, with a limit.
    order: tuple[Ordering, ...] = ()
    #: Columns that `where` compares with a few values: an index may know which rows have them.
    keys: tuple[str, ...] = ()
    #: Whether the filter was written by this package: then there is nothing to check in it.
    own_filter: bool = False


@dataclass(frozen=True)
class ScanTask:
    """All one task needs, as plain values."""

    source: ScanSource
    columns: tuple[Column, ...]
    blobs: Blobs
    fragment_ids: tuple[int, ...]
    #: (offset, count) among the live rows of the only fragment, when it is split.
    row_range: tuple[int, int] | None
    where: str | None
    limit: int | None
    batch_rows: int
    use_index: bool
    offset: int = 0
    order: tuple[Ordering, ...] = ()


@dataclass(frozen=True)
class ScanPlan:
    """The tasks that together read what was asked for, each row once."""

    columns: tuple[Column, ...]
    schema: pa.Schema
    tasks: tuple[ScanTask, ...]


def plan_columns(source: ScanSource, request: ScanRequest) -> tuple[Column, ...]:
    """Decide which columns are read, and refuse what cannot be; looks at no fragment."""
    _, columns = _checked(source, source.open(), request)
    return columns


def plan_scan(source: ScanSource, request: ScanRequest) -> ScanPlan:
    """Decide which tasks read a type; costs metadata of the dataset, never rows."""
    dataset = source.open()
    stored, columns = _checked(source, dataset, request)
    # Only a filter makes use of an index, and only then is it worth asking about them.
    use_index = request.where is None or dataset.may_use_indexes(request.where, source.settings)
    asked = request if use_index else replace(request, keys=())
    pieces = _pieces(dataset, stored, columns, asked)
    rows = min(request.batch_rows or _batch_rows(columns, request), _MOST_BATCH_ROWS)
    limit = None if request.limit is None else min(request.limit, _MOST_ROWS)
    tasks = tuple(
        ScanTask(
            source=source,
            columns=columns,
            blobs=request.blobs,
            fragment_ids=piece.fragment_ids,
            row_range=piece.row_range,
            where=request.where,
            limit=limit,
            batch_rows=rows,
            use_index=use_index,
            offset=request.offset,
            order=request.order,
        )
        for piece in pieces
    )
    return ScanPlan(columns, public_schema(columns, request.blobs), tasks)


def _batch_rows(columns: Sequence[Column], request: ScanRequest) -> int:
    rows = batch_rows(columns, request.blobs)
    return rows if request.where is None else min(rows, _FILTERED_BATCH_ROWS)


def _checked(
    source: ScanSource, dataset: PinnedDataset, request: ScanRequest
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the stored columns and those asked for; a wish that cannot be met is an error."""
    stored = columns_of(dataset.schema, source.declared, source.entry.type_key.kind)
    columns = _choose(source, stored, request)
    if request.limit is not None and request.limit < 0:
        raise InvalidOptionError("limit", str(request.limit), "a whole number, zero or more")
    if request.where is not None and not request.own_filter:
        refuse_blobs_in(request.where, stored)
        _check_filter(dataset, request.where)
    return stored, columns


def count_task(task: ScanTask) -> int:
    """Count the rows of one task without reading more of them than its filter needs."""
    with _explained(task):
        return task.source.open().count(task.fragment_ids, task.where, task.use_index)


def read_task(task: ScanTask, cost: ScanCost | None = None) -> Iterator[pa.RecordBatch]:
    """Stream the rows of one task as public batches; `cost` is told what that took."""
    with _explained(task):
        for public, _ in _read(task, cost=cost):
            yield public


@contextmanager
def _explained(task: ScanTask) -> Iterator[None]:
    """Say what a storage failure while reading the rows of a task means."""
    try:
        yield
    except StorageError as error:
        if error.kind == QUERY and task.where is not None:
            # A division by zero, a cast that fails: known only when rows are looked at.
            raise InvalidFilterError(task.where, error.detail) from error
        raise task.source.explain(error) from error


def read_numbered_task(
    task: ScanTask, numbers: Sequence[str], cost: ScanCost | None = None
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of one task with numbers of theirs, `ROW_ID` or `ROW_ADDRESS`, at the end."""
    if not numbers:
        yield from read_task(task, cost)
        return
    added = [pa.field(name, pa.int64(), nullable=False) for name in numbers]
    schema = pa.schema([*public_schema(task.columns, task.blobs), *added])
    with _explained(task):
        for public, batch in _read(task, numbers, cost):
            arrays = [*public.columns, *(batch.column(name).cast(pa.int64()) for name in numbers)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_all(plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """Stream the rows of all tasks, one after the other, in this process."""
    for task in plan.tasks:
        yield from read_task(task)


def schema_of(columns: Sequence[Column], blobs: Blobs, places: bool = False) -> pa.Schema:
    """Return the schema of what is read, with `places` that of `read_task_with_places`."""
    schema = public_schema(columns, blobs)
    return _with_places(schema) if places else schema


def read_task_with_places(task: ScanTask) -> Iterator[pa.RecordBatch]:
    """Stream the rows of one task, with `FRAGMENT`, `PLACE` and `ROW_ID` after the columns."""
    schema = _with_places(public_schema(task.columns, task.blobs))
    system = (ROW_ADDRESS, ROW_ID)
    with _explained(task):
        for batch in _scan(task, task.columns, task.blobs, task.batch_rows, system):
            public = to_public(batch, task.columns, task.blobs)
            # The upper half of an address is the fragment, the lower one the place.
            address = batch.column(ROW_ADDRESS)
            fragment = pc.shift_right(address, pa.scalar(32, pa.uint64()))
            place = pc.bit_wise_and(address, pa.scalar(0xFFFFFFFF, pa.uint64()))
            numbers = [fragment, place, batch.column(ROW_ID)]
            arrays = [*public.columns, *(number.cast(pa.int64()) for number in numbers)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_places(schema: pa.Schema) -> pa.Schema:
    places = [pa.field(name, pa.int64(), nullable=False) for name in (FRAGMENT, PLACE, ROW_ID)]
    return pa.schema([*schema, *places])


def _read(
    task: ScanTask, system_columns: Sequence[str] = (), cost: ScanCost | None = None
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Stream public batches, each with the one it was made of, which has the system columns."""
    if task.blobs is Blobs.BYTES and any(map(is_blob, task.columns)):
        yield from _read_with_bytes(task, system_columns, cost)
        return
    for batch in _scan(task, task.columns, task.blobs, task.batch_rows, system_columns, cost):
        yield to_public(batch, task.columns, task.blobs), batch


def _read_with_bytes(
    task: ScanTask, system_columns: Sequence[str], cost: ScanCost | None
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Read descriptors first: they say which blobs are null and how many fit a batch."""
    blob_columns = tuple(filter(is_blob, task.columns))
    descriptors = _scan(task, blob_columns, Blobs.DESCRIPTOR, task.batch_rows, cost=cost)
    facts = BlobFacts.of(descriptors, blob_columns)
    rows, done = min(task.batch_rows, facts.batch_rows()), 0
    for batch in _scan(task, task.columns, Blobs.BYTES, rows, system_columns, cost):
        nulls = {c.name: facts.nulls(c.name, done, batch.num_rows) for c in blob_columns}
        done += batch.num_rows
        yield to_public(batch, task.columns, task.blobs, nulls), batch


def _scan(
    task: ScanTask,
    columns: Sequence[Column],
    blobs: Blobs,
    rows: int,
    system_columns: Sequence[str] = (),
    cost: ScanCost | None = None,
) -> Iterator[pa.RecordBatch]:
    count = None if cost is None else cost.counter(len(task.fragment_ids))
    scan: dict[str, Any] = {
        "scan_stats_callback": count,
        "filter": task.where,
        "limit": task.limit,
        "batch_size": rows,
        "blob_handling": scanner_blob_handling(blobs),
        "use_scalar_index": task.use_index,
        "io_buffer_size": _IO_BUFFER_BYTES,
        "batch_readahead": _BATCHES_AHEAD,
        "offset": task.offset or None,
        "order": task.order,
    }
    if task.row_range is not None:
        scan["offset"], scan["limit"] = task.row_range
    names = [*(column.name for column in columns), *system_columns]
    for batch in task.source.open().batches(task.fragment_ids, names, **scan):
        if batch.num_rows:
            yield batch


def _choose(
    source: ScanSource, stored: tuple[Column, ...], request: ScanRequest
) -> tuple[Column, ...]:
    by_name = {column.name: column for column in stored}
    names = tuple(by_name) if request.columns is None else request.columns
    for name in names:
        if name not in by_name:
            raise ColumnNotFoundError(str(source.entry.type_key), name, tuple(by_name))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidOptionError("columns", ",".join(names), f"{twice!r} only once")
    return public_columns([by_name[name] for name in names], request.blobs)


def _check_filter(dataset: PinnedDataset, where: str) -> None:
    check_filter_text(where)
    try:
        dataset.explain(as_one_condition(where))
    except (ValueError, RuntimeError) as error:
        raise InvalidFilterError(where, lance_text(error)) from error


def _pieces(
    dataset: PinnedDataset,
    stored: Sequence[Column],
    columns: Sequence[Column],
    request: ScanRequest,
) -> list[Piece]:
    fragments = dataset.fragments()
    if request.fragment_ids is not None:
        fragments = [each for each in fragments if each.id in request.fragment_ids]
    if request.limit is not None:
        # A limit holds for the whole answer, so one task gives it.
        needed = fragments
        if request.where is None and not request.order:
            needed, rows = [], 0
            for fragment in fragments:
                if rows >= request.offset + request.limit:
                    break
                needed.append(fragment)
                rows += fragment.rows
        return [Piece(tuple(fragment.id for fragment in needed))]
    # What an index finds is few rows, whose fragments need no task each; the others are read.
    indexes = dataset.indexes() if request.keys else []
    known = looked_up_fragments(indexes, request.keys)
    indexed = tuple(each.id for each in fragments if each.id in known)
    fragments = [each for each in fragments if each.id not in known]
    if indexed and not any(each.rows for each in fragments):
        return [Piece(indexed)]
    whole = sum(row_width_bytes(column) for column in stored) or 1
    return [Piece(indexed)] * bool(indexed) + pack_fragments(
        fragments,
        share=min(1.0, _read_width(stored, columns, request) / whole),
        split_bytes=request.split_bytes,
        may_split=request.where is None,
        spread_over=request.spread_over,
    )


def _read_width(stored: Sequence[Column], columns: Sequence[Column], request: ScanRequest) -> float:
    """Estimate the bytes that are read of one row."""
    wanted = sum(row_width_bytes(column, request.blobs) for column in columns)
    if request.where is None:
        return wanted
    where = request.where.casefold()
    compared = [column for column in stored if column.name.casefold() in where]
    return sum(map(row_width_bytes, compared)) + _OF_FILTERED_ROWS * wanted
