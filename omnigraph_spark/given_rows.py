"""Rows as users give them: Spark frames are staged by executors, all others in this process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.writing.stage import StageResult, StageTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Any
"""A Spark DataFrame, pyarrow Table, RecordBatch, RecordBatchReader, or pandas DataFrame."""


def is_spark(rows: Rows) -> bool:
    """Tell whether rows are a Spark DataFrame, classic or Connect, without loading Spark."""
    return hasattr(rows, "mapInArrow")


def session_of(rows: Rows) -> SparkSession | None:
    """Return the session of a Spark DataFrame; None for rows of this process."""
    session: SparkSession | None = rows.sparkSession if is_spark(rows) else None
    return session


def session_in_use() -> SparkSession | None:
    """Return the session of this thread, if this process uses Spark at all."""
    if "pyspark.sql" not in sys.modules:
        return None
    from omnigraph_spark.session.frames import active_session

    return active_session()


def stage_rows(task: StageTask, rows: Rows) -> list[StageResult]:
    """Stage rows where they are."""
    if is_spark(rows):
        from omnigraph_spark.session.staging import stage_frame

        return stage_frame(rows, task)
    return [task.run(batches_of(rows))]


def schema_of(rows: Rows) -> pa.Schema:
    """Return the Arrow schema of rows; nothing of them is consumed."""
    if is_spark(rows):
        from omnigraph_spark.session.types import arrow_schema_of

        return arrow_schema_of(rows.schema)
    return rows.schema if isinstance(rows, pa.RecordBatchReader) else batches_of(rows).schema


def batches_of(rows: Rows) -> pa.RecordBatchReader:
    """Return rows of this process as a stream of batches."""
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(rows.schema, [rows])
    if isinstance(rows, pa.Table):
        return rows.to_reader()
    if hasattr(rows, "__dataframe__") or hasattr(rows, "iloc"):
        return pa.Table.from_pandas(rows, preserve_index=False).to_reader()
    raise UnsupportedError(
        f"rows given as {type(rows).__name__}",
        "give a Spark or pandas DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader",
    )


def table_of(rows: Rows) -> pa.Table:
    """Return rows, which fit in memory, as a table of this process."""
    if is_spark(rows):
        table: pa.Table = rows.toArrow()
        return table
    return batches_of(rows).read_all()
