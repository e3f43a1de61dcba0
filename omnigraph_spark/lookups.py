"""Few rows found by an index: read where a query is planned, without a task.

A planner asks for rows that have one of some values. Where an index knows them all and they are
few, they are the answer; in any other case there is none, and tasks read.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_spark.arrow_rows import row_width_bytes
from omnigraph_spark.scan import ScanRequest, ScanTask, count_task, plan_scan
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.storage.parts import looked_up_fragments

#: More rows are a task's work.
MOST_ROWS = 4_096
#: More bytes do not fit an answer.
MOST_BYTES = 1 << 20
# Rows in fragments that the index does not cover yet, and that are read as they are.
_MOST_UNCOVERED_ROWS = 20_000


def plan_lookup(
    source: ScanSource, request: ScanRequest, values: Mapping[str, int]
) -> tuple[ScanTask, ...] | None:
    """Return the tasks that find few rows quickly, or None where a look-up is not to be had.

    `values` says how many values each column may have. An id is the id of one row at most; of other
    columns the index counts the rows first.
    """
    if request.where is None or not values:
        return None
    dataset = source.open()
    tasks = plan_scan(source, request).tasks
    if not tasks or not tasks[0].use_index:
        return None
    known = looked_up_fragments(dataset.indexes(), values)
    uncovered = [fragment for fragment in dataset.fragments() if fragment.id not in known]
    if not known or sum(fragment.rows for fragment in uncovered) > _MOST_UNCOVERED_ROWS:
        return None
    width = sum(row_width_bytes(column, request.blobs) for column in tasks[0].columns)
    most = min(MOST_ROWS, MOST_BYTES // max(1, width))
    few = values.get("id", most + 1) <= most or sum(map(count_task, tasks)) <= most
    return tasks if few else None
