"""Partial aggregates of a scan: what Spark would count, add up and compare, done where rows are.

A task returns a few rows instead of all of them, and Spark adds them up; any number of rows for a
group will do, so nothing has to be finished here. Every value is exact: whole numbers are only
added where they cannot leave 64 bits, else they are handed on as they are, and Spark finds the
overflow, or wraps, as it is set to. Sums of doubles depend on the order of rows, here as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

#: Rows of partial results that wait before they are aggregated again.
_WAITING_ROWS = 40_000
#: Their bytes: a column of texts in one piece ends at two gigabytes.
_WAITING_BYTES = 64 << 20
# A batch whose groups are more than one in so many rows gains nothing from being grouped.
_WORTHWHILE = 4
_BEYOND = 1 << 63

#: By which function partial results of each kind become one.
_AGAIN = {"count_all": "sum", "count": "sum", "sum": "sum", "min": "min", "max": "max"}


@dataclass(frozen=True)
class Function:
    """One aggregate: of all rows, of a column, or of the lengths of its texts."""

    op: str
    column: str | None = None
    of_length: bool = False

    @classmethod
    def parse(cls, wish: Mapping[str, Any]) -> Function:
        """Read what the jar sends."""
        return cls(wish["op"], wish.get("col"), wish.get("length", False))

    def input(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """Return what is aggregated of a batch, as its own partial result row by row."""
        if self.column is None:
            return _ones(batch.num_rows)
        column = batch.column(self.column)
        if self.op == "count":
            return pc.is_valid(column).cast(pa.int64())
        if self.of_length:
            return pc.utf8_length(cast(pa.StringArray, column))
        if self.op == "sum":
            wide = pa.float64() if pa.types.is_floating(column.type) else pa.int64()
            return column.cast(wide)
        return column


@dataclass(frozen=True)
class Aggregation:
    """Columns to group by, and what is wanted of each group."""

    groups: tuple[str, ...]
    functions: tuple[Function, ...]

    @classmethod
    def parse(cls, wish: Mapping[str, Any]) -> Aggregation:
        """Read what the jar sends."""
        return cls(tuple(wish["groups"]), tuple(map(Function.parse, wish["functions"])))

    def columns(self) -> tuple[str, ...]:
        """Return the columns that are read for it, each once."""
        wanted = [*self.groups, *(each.column for each in self.functions)]
        return tuple(dict.fromkeys(name for name in wanted if name is not None))


def partial_aggregates(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, wanted: Aggregation
) -> Iterator[pa.RecordBatch]:
    """Yield rows of groups and partial results, in that order of columns, for all batches.

    Without groups there is a row also where there is nothing to aggregate: Spark adds up counts.
    """
    waiting: list[pa.RecordBatch] = []
    if not wanted.groups:
        nothing = pa.RecordBatch.from_pylist([], schema=schema)
        waiting.append(_grouped(_as_results(nothing, wanted), wanted))
    bound, worthwhile = 0, True
    for batch in batches:
        rows = _as_results(batch, wanted)
        largest = _largest_sum(rows, wanted)
        if not worthwhile or largest >= _BEYOND:
            yield rows
            continue
        if bound + largest >= _BEYOND:
            yield from waiting
            waiting, bound = [], 0
        grouped = _grouped(rows, wanted)
        worthwhile = not wanted.groups or grouped.num_rows * _WORTHWHILE <= batch.num_rows
        waiting.append(grouped)
        bound += largest
        if _is_much(waiting):
            waiting = [_grouped(_joined(waiting), wanted)]
            if _is_much([*waiting, *waiting]):
                yield from waiting
                waiting, bound = [], 0
    if waiting:
        yield _grouped(_joined(waiting), wanted)


def _as_results(batch: pa.RecordBatch, wanted: Aggregation) -> pa.RecordBatch:
    """Make every row a group of its own."""
    keys = [batch.column(name) for name in wanted.groups]
    values = [each.input(batch) for each in wanted.functions]
    return pa.RecordBatch.from_arrays([*keys, *values], names=_names(wanted))


def _largest_sum(rows: pa.RecordBatch, wanted: Aggregation) -> int:
    """Return a number that no sum of whole numbers among these rows is beyond."""
    largest = 0
    for name, function in zip(_names(wanted)[len(wanted.groups) :], wanted.functions, strict=True):
        column = rows.column(name)
        if function.op == "sum" and pa.types.is_integer(column.type):
            ends: Mapping[str, Any] = cast(Any, pc.min_max(column)).as_py()
            most = max(abs(ends["min"] or 0), abs(ends["max"] or 0))
            largest = max(largest, most * rows.num_rows)
    return largest


def _grouped(rows: pa.RecordBatch, wanted: Aggregation) -> pa.RecordBatch:
    names = _names(wanted)
    keys, values = names[: len(wanted.groups)], names[len(wanted.groups) :]
    if not keys:
        columns = zip(rows.columns, wanted.functions, strict=True)
        return pa.RecordBatch.from_arrays([_scalar(*each) for each in columns], names=names)
    steps = [(name, _AGAIN[each.op]) for name, each in zip(values, wanted.functions, strict=True)]
    # One thread: the other cores run the other tasks.
    table = pa.table(rows).group_by(keys, use_threads=False).aggregate(cast(Any, steps))
    chosen = table.select([*keys, *(f"{name}_{step}" for name, step in steps)])
    return _joined(chosen.rename_columns(names).to_batches() or [rows.slice(0, 0)])


def _scalar(column: pa.Array[Any], function: Function) -> pa.Array[Any]:
    step = _AGAIN[function.op]
    result: pa.Scalar[Any]
    if step == "sum":
        # No rows are zero rows, but no sum.
        result = pc.sum(column, min_count=0 if function.op.startswith("count") else 1)
    else:
        result = pc.min(column) if step == "min" else pc.max(column)
    return cast("pa.Array[Any]", pa.repeat(cast(Any, result.cast(column.type)), 1))


def _is_much(waiting: Sequence[pa.RecordBatch]) -> bool:
    """Tell whether partial results take more room than they should."""
    rows = sum(each.num_rows for each in waiting)
    return rows > _WAITING_ROWS or sum(each.nbytes for each in waiting) > _WAITING_BYTES


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    # What does not fit one batch would be several.
    [whole] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def _names(wanted: Aggregation) -> list[str]:
    """Name columns by their places: a column may be grouped by and added up."""
    return [f"c{place}" for place in range(len(wanted.groups) + len(wanted.functions))]


def _ones(rows: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(1, pa.int64()), rows)
