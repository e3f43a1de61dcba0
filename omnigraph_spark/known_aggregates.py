"""Aggregates of a whole type that its manifest and its indexes know: no task has to read it.

An index says where its first page of values ends. Whatever rows are not above that are few, and an
index finds them: the least of them, if there is one, is the least of all. The pages only say where
to look, so that an index which holds deleted rows, or lacks new ones, never makes an answer wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.aggregates import Aggregation, Function
from omnigraph_spark.errors import StorageError
from omnigraph_spark.lookups import MOST_UNCOVERED_ROWS
from omnigraph_spark.predicates import Tree, lance_condition
from omnigraph_spark.scan import ScanRequest, count_task, plan_scan, read_task
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import Scalar
from omnigraph_spark.storage.index_pages import page_ends
from omnigraph_spark.storage.parts import looked_up_fragments
from omnigraph_spark.storage.translate import NOT_FOUND

# Rows that have values of the first or the last page: it has some hundred or thousand entries.
_MOST_ROWS = 50_000


def known_aggregates(
    source: ScanSource, request: ScanRequest, wanted: Aggregation
) -> list[pa.Array[Any]] | None:
    """Return each function as an array of one value, or None where rows have to be read for one."""
    if wanted.groups or request.where is not None or request.limit is not None:
        return None
    columns = {column.name: column for column in source.columns()}
    found = []
    for function in wanted.functions:
        value = _value(source, request, function, columns)
        if value is None:
            return None
        found.append(_array([value]))
    return found


def _value(
    source: ScanSource, request: ScanRequest, function: Function, columns: Mapping[str, Column]
) -> pa.Scalar[Any] | None:
    if function.column is None:
        return pa.scalar(source.entry.rows, pa.int64())
    if function.op not in ("count", "min", "max") or function.of_length:
        return None
    column = columns[function.column]
    if not _is_found(source, column):
        return None
    if function.op == "count":
        nulls = _asked(request, column, {"op": "is_null", "args": [{"col": column.name}]})
        missing = sum(map(count_task, plan_scan(source, nulls).tasks))
        return pa.scalar(source.entry.rows - missing, pa.int64())
    return _end(source, request, column, function.op)


def _is_found(source: ScanSource, column: Column) -> bool:
    """Tell whether an index finds the rows of a column's values, all but a few."""
    dataset = source.open()
    known = looked_up_fragments(dataset.indexes(), [column.name])
    uncovered = sum(each.rows for each in dataset.fragments() if each.id not in known)
    return (
        bool(known)
        and uncovered <= MOST_UNCOVERED_ROWS
        and dataset.may_use_indexes(column.name, source.settings)
    )


def _end(
    source: ScanSource, request: ScanRequest, column: Column, op: str
) -> pa.Scalar[Any] | None:
    step = pc.min if op == "min" else pc.max
    try:
        bounds = [bound for bound in _bounds(source, column, op) if bound is not None]
    except StorageError as error:
        # Not every release of Lance need write the file that says so.
        if error.kind != NOT_FOUND:
            raise
        return None
    # Without a bound there is no page but one, of values and nulls.
    tree: Tree = {"op": "is_not_null", "args": [{"col": column.name}]}
    if bounds:
        # Of several segments the one that goes furthest: beyond it are the fewest rows.
        literal = {"lit": _literal(step(_array(bounds)), column.type.scalar)}
        tree = {"op": "<=" if op == "min" else ">=", "args": [{"col": column.name}, literal]}
    asked = _asked(request, column, tree)
    ends, rows = [], 0
    for task in plan_scan(source, asked).tasks:
        for batch in read_task(replace(task, limit=_MOST_ROWS + 1)):
            rows += batch.num_rows
            if rows > _MOST_ROWS:
                return None
            ends.append(step(batch.column(0)))
    # Of deleted rows alone nothing is known.
    return step(_array(ends)) if ends else None


def _bounds(source: ScanSource, column: Column, op: str) -> Iterator[pa.Scalar[Any] | None]:
    for index in source.open().indexes():
        if index.columns == (column.name,) and index.kind.upper() == "BTREE":
            yield page_ends(index.folder, source.settings)[op == "max"]


def _array(values: Sequence[pa.Scalar[Any]]) -> pa.Array[Any]:
    """Put values together as they are: Python has no dates before the year 1."""
    return pa.concat_arrays([pa.repeat(cast(Any, value), 1) for value in values])


def _asked(request: ScanRequest, column: Column, tree: Tree) -> ScanRequest:
    where = lance_condition([tree], {column.name: column.type.scalar})
    keys = (column.name,)
    return replace(request, columns=keys, where=where, keys=keys, own_filter=True)


def _literal(value: pa.Scalar[Any], scalar: Scalar) -> Any:
    """Write a stored value as the planner would: days, microseconds, numbers, texts."""
    if scalar is Scalar.DATE:
        return cast(Any, value).cast(pa.int32()).as_py()
    if scalar is Scalar.DATETIME:
        return cast(Any, value).cast(pa.int64()).as_py() * 1_000
    return value.as_py()
