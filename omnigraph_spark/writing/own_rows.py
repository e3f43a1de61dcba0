"""A type as a transaction leaves it: committed rows, less what it replaces or deletes, and its own.

Read before the transaction ends, so nothing was checked yet: ids given twice are there twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.scan import ScanRequest, plan_scan, read_all
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.writing.deletions import DeleteRequest, find_doomed
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.workspace import DuckWorkspace


def own_rows(
    state: SnapshotState,
    type_name: str,
    changes: Mapping[str, Pending],
    deletes: Sequence[DeleteRequest],
) -> pa.Table:
    """Read a type as public rows, in memory."""
    key = str(state.entry(type_name).type_key)
    if deletes:
        gone = doomed_ids(state, key, deletes)
        committed = _committed(state, key)
        return committed.filter(_not_in(gone))
    change = changes.get(key)
    if change is None:
        return _committed(state, key)
    staged = _staged(state, change)
    if change.mode is WriteMode.OVERWRITE:
        return staged
    committed = _committed(state, key)
    if change.mode is WriteMode.APPEND:
        return pa.concat_tables([committed, staged])
    if change.merge_columns is not None:
        staged = _completed(staged, committed)
    return pa.concat_tables([committed.filter(_not_in(staged)), staged])


def doomed_ids(state: SnapshotState, key: str, deletes: Sequence[DeleteRequest]) -> pa.Table:
    """Return the ids of a type that deletions remove, cascades included."""
    with DuckWorkspace() as space:
        doomed = find_doomed(space, deletes, state, with_ids=True).get(key)
        if doomed is not None:
            return space.table(f"SELECT id FROM {doomed.relation}")
    return pa.table({"id": pa.array([], pa.string())})


def own_columns(state: SnapshotState, change: Pending) -> list[str]:
    """Return the columns that were staged, in the order of the type."""
    plan = plan_scan(ScanSource.of(state, change.key), ScanRequest())
    names = [column.name for column in plan.columns]
    if change.merge_columns is None:
        return names
    return [name for name in names if name == "id" or name in change.merge_columns]


def _committed(state: SnapshotState, key: str) -> pa.Table:
    plan = plan_scan(ScanSource.of(state, key), ScanRequest())
    return pa.Table.from_batches(read_all(plan), plan.schema)


def _staged(state: SnapshotState, change: Pending) -> pa.Table:
    names = own_columns(state, change)
    source = change.source(state.root, state.settings)
    return pa.Table.from_batches(source.batches(names), source.schema(names))


def _completed(staged: pa.Table, committed: pa.Table) -> pa.Table:
    """Take the columns that are not merged from the rows there are."""
    at = pc.index_in(staged.column("id"), committed.column("id").combine_chunks())
    columns = [
        staged.column(name) if name in staged.column_names else committed.column(name).take(at)
        for name in committed.column_names
    ]
    return pa.Table.from_arrays(columns, schema=committed.schema)


def _not_in(others: pa.Table) -> pc.Expression:
    return ~pc.field("id").isin(others.column("id").combine_chunks())
