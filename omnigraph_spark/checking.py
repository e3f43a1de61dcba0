"""Which rules rows would break, found out without writing them: what `graph.check` asks.

The rows are staged and inspected as for a write, and thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_spark.errors import ConstraintViolationError
from omnigraph_spark.given_rows import Rows, stage_rows
from omnigraph_spark.writing.inspect import inspect
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.violations import Violation, merge
from omnigraph_spark.writing.write import SpaceFactory, Write


def find_violations(
    write: Write,
    type_name: str,
    mode: WriteMode,
    rows: Rows,
    merge_columns: Sequence[str] | None,
    space_factory: SpaceFactory,
) -> tuple[Violation, ...]:
    """Return all rules that rows break by themselves; if none, those they break together.

    Rows that do not fit their type have no place among others: whether an id is there twice is
    asked only of rows that can be stored.
    """
    task = write.task(type_name, mode, merge_columns)
    results = stage_rows(task, rows)
    try:
        write.add(type_name, task, results)
    except ConstraintViolationError:
        # What was staged is gone by now.
        return merge(found for result in results for found in result.violations)
    try:
        with space_factory() as space:
            return merge(inspect(space, write.effective(space), write.base))
    finally:
        write.abort()
