"""Rows of a DataFrame that lie in the driver already, because it was made of rows given here.

A Spark job with a Python worker takes longer than a small commit. Rows that a program handed to
`createDataFrame` need neither: they are fetched from the JVM and staged in this process, as rows
of a pyarrow Table are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: Of the estimate of Spark, which takes a text for 20 bytes: more than this is spread over tasks.
_MOST_BYTES = 4 << 20
_LOCAL = "LocalRelation"
#: What changes neither a row nor adds one, so the rows stay as few as they were given. Anything
#: else, and above all what calls Python, may make many of one.
_HARMLESS = frozenset({"Repartition", "Filter", "Sort", "GlobalLimit", "LocalLimit"})


def local_rows(frame: DataFrame) -> list[pa.RecordBatch] | None:
    """Return the rows, if they are few and lie in the driver; None to let tasks have them."""
    if not _is_local(frame):
        return None
    return [batch for batch in frame.toArrow().to_batches() if batch.num_rows]


def _is_local(frame: DataFrame) -> bool:
    java = getattr(frame, "_jdf", None)
    if java is None:
        # A frame of Connect, whose driver is elsewhere.
        return False
    query: Any = java.queryExecution()
    leaves = query.analyzed().collectLeaves()
    if leaves.length() != 1 or leaves.head().nodeName() != _LOCAL:
        # Not looked at further: to optimize a plan may ask its sources, and is done again later.
        return False
    plan = query.optimizedPlan()
    while (name := plan.nodeName()) != _LOCAL:
        if name not in _HARMLESS:
            return False
        plan = plan.children().head()
    return int(str(plan.stats().sizeInBytes())) <= _MOST_BYTES
