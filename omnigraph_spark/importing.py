"""Parquet files into staged rows, read where they are staged: no row passes through the JVM."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from omnigraph_spark.given_rows import session_in_use
from omnigraph_spark.storage.parquet_files import ParquetPart, parquet_parts, share_out
from omnigraph_spark.storage.staging import discard
from omnigraph_spark.writing.stage import StageResult, StageTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: From this size on tasks read the files: below it one process is done before tasks have begun.
LARGE_BYTES = 64 << 20


def stage_parquet(
    task: StageTask, place: str, spark: SparkSession | None = None
) -> list[StageResult]:
    """Stage the rows of Parquet files: by tasks where there is a session, if they are large."""
    parts = parquet_parts(place, task.settings)
    spark = spark or session_in_use()
    if spark is None or len(parts) == 1 or sum(part.size_bytes for part in parts) < LARGE_BYTES:
        return _stage_here(task, parts)
    from omnigraph_spark.session.staging import stage_parts

    # Columns that do not fit are refused here: from a task it would be a traceback of Spark's.
    task.run(parts[0].no_rows())
    return stage_parts(spark, share_out(parts), task)


def _stage_here(task: StageTask, parts: list[ParquetPart]) -> list[StageResult]:
    """Stage the parts in this process, one at a time; when one fails none is left."""
    results: list[StageResult] = []
    with ExitStack() as undo:
        undo.callback(
            lambda: discard(
                task.address, (file for each in results for file in each.files), task.settings
            )
        )
        results += (task.run(part.reader()) for part in parts)
        undo.pop_all()
    return results
