"""Pieces of the engine's work as Spark tasks: one row says which, the rest travels with the code.

Made of `range` and `mapInArrow` alone, which classic Spark and Connect both have. What a piece
needs, settings of the object store among it, is in the pickled function and never in a row or plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from omnigraph_spark.session.types import spark_arrow_schema, to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

P = TypeVar("P")


def frame_of_parts(
    spark: SparkSession,
    parts: Sequence[P],
    read: Callable[[P], Iterable[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """Return a DataFrame of what `read` yields for every part, one task each.

    Spark takes such a frame for a tiny one, because a row per part is all it knows of: never let it
    choose how to join two of them before one was counted.
    """
    arrow = spark_arrow_schema(schema)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            yield from to_spark(_renamed(read(parts[number]), arrow.names), arrow)

    return _one_row_each(spark, len(parts)).mapInArrow(run, schema)


def mapped_frame(
    frame: DataFrame,
    work: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """Return a DataFrame of what `work` makes of the rows of another, of each task's share."""
    arrow = spark_arrow_schema(schema)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_spark(work(batches), arrow)

    return frame.mapInArrow(run, schema)


def run_tasks(spark: SparkSession, tasks: Sequence[Callable[[], str]]) -> list[str]:
    """Call every task on an executor and return the answers, which are small, in order."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            answer = pa.array([tasks[number]()], pa.string())
            numbers = pa.array([number], pa.int64())
            yield pa.RecordBatch.from_arrays([numbers, answer], ["number", "answer"])

    if not tasks:
        return []
    rows = _one_row_each(spark, len(tasks)).mapInArrow(run, "number bigint, answer string")
    return [row.answer for row in sorted(rows.collect(), key=lambda row: row.number)]


def run_groups(
    frame: DataFrame, by: str, groups: int, work: Callable[[pa.Table], str]
) -> list[str]:
    """Call `work` with the rows of every value of a column, and return its answers."""

    def run(table: pa.Table) -> pa.Table:
        return pa.table({"answer": [work(table)]})

    # Spark joins small partitions unless their number was asked for, and then one task does it all.
    apart = frame.repartition(max(1, groups), by)
    answers = apart.groupBy(by).applyInArrow(run, "answer string")
    return [row.answer for row in answers.collect()]


def _one_row_each(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, max(1, count))


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from map(int, batch.column(0).to_numpy())


def _renamed(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return (batch.rename_columns(list(names)) for batch in batches)
