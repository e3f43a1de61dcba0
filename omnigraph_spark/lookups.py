"""Few rows found by an index: read where a query is planned, without a task.

A planner asks for rows that have one of some values. Where an index knows them all and they are
few, they are the answer; in any other case there is none, and tasks read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph_spark.arrow_rows import row_width_bytes
from omnigraph_spark.scan import ScanRequest, ScanTask, count_task, plan_scan
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.storage.parts import looked_up_fragments

#: More rows are a task's work.
MOST_ROWS = 4_096
#: More bytes do not fit an answer.
MOST_BYTES = 1 << 20
#: Rows in fragments that an index does not cover yet, and that are read as they are.
MOST_UNCOVERED_ROWS = 20_000


@dataclass(frozen=True)
class Lookup:
    """Tasks that an index tells where to read, and how many rows may be the answer."""

    tasks: tuple[ScanTask, ...]
    most_rows: int
    #: Whether there can be no more rows than that: an id is the id of one row at most.
    is_bounded: bool

    def attempt(self) -> tuple[ScanTask, ...]:
        """Return tasks that stop at one row more than may be: reading few is their own count."""
        if self.is_bounded:
            return self.tasks
        most = self.most_rows + 1
        return tuple(
            replace(task, limit=most if task.limit is None else min(task.limit, most))
            for task in self.tasks
        )

    def finds_few(self) -> bool:
        """Have the index count, where rows are not read one by one."""
        return self.is_bounded or sum(map(count_task, self.tasks)) <= self.most_rows


def plan_lookup(
    source: ScanSource, request: ScanRequest, values: Mapping[str, int]
) -> Lookup | None:
    """Return how few rows are found quickly, or None where a look-up is not to be had.

    `values` says how many values each column may have.
    """
    if request.where is None or not values:
        return None
    dataset = source.open()
    tasks = plan_scan(source, request).tasks
    if not tasks or not tasks[0].use_index:
        return None
    known = looked_up_fragments(dataset.indexes(), values)
    uncovered = [fragment for fragment in dataset.fragments() if fragment.id not in known]
    if not known or sum(fragment.rows for fragment in uncovered) > MOST_UNCOVERED_ROWS:
        return None
    width = sum(row_width_bytes(column, request.blobs) for column in tasks[0].columns)
    most = min(MOST_ROWS, MOST_BYTES // max(1, width))
    return Lookup(tasks, most, is_bounded=values.get("id", most + 1) <= most)
