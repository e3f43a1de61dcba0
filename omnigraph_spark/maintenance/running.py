"""Who runs the tasks of maintenance: this process one after the other, or Spark all at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A piece of work that can be pickled and may run anywhere, also more than once.
Task = Callable[[], str]
#: Calls every task, given how many rows they go through; answers are small and in order.
Runner = Callable[[Sequence[Task], int], Iterable[str]]
#: From here on Spark is worth the start of a job and its workers, which take seconds; Lance goes
#: through a million rows of an index in about one.
SPARK_ROWS = 2_000_000


def run_here(tasks: Sequence[Task], rows: int) -> Iterable[str]:
    """Call every task in this process; Lance itself makes use of all cores."""
    del rows
    return (task() for task in tasks)


def runner_for(spark: SparkSession | None) -> Runner:
    """Return who runs tasks: a session when there is one and work for it, or this process."""
    if "pyspark" not in sys.modules:
        return run_here
    from omnigraph_spark.session.frames import active_session
    from omnigraph_spark.session.tasks import run_tasks

    session = spark or active_session()
    if session is None:
        return run_here

    def run(tasks: Sequence[Task], rows: int) -> Iterable[str]:
        small = rows < SPARK_ROWS or len(tasks) < 2
        return run_here(tasks, rows) if small else run_tasks(session, tasks)

    return run
