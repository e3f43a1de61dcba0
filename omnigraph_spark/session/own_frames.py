"""A type as a transaction leaves it, as a DataFrame: see `own_rows`, which does it without Spark.

Staged files are read by tasks whenever the frame is used. They are gone, or part of a dataset, when
the transaction has ended: the frame is for use inside of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from omnigraph_spark.blobs import Blobs
from omnigraph_spark.session.frames import read_frame, session_or_active
from omnigraph_spark.session.tasks import frame_of_parts
from omnigraph_spark.session.types import spark_schema
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.writing.deletions import DeleteRequest
from omnigraph_spark.writing.own_rows import doomed_ids, own_columns
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.staged_rows import StagedSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def own_frame(
    spark: SparkSession | None,
    state: SnapshotState,
    key: str,
    changes: Mapping[str, Pending],
    deletes: Sequence[DeleteRequest],
) -> DataFrame:
    """Read a type with the changes of a transaction that has not ended."""
    spark = session_or_active(spark)
    committed = read_frame(spark, state, {"type": key})
    if deletes:
        gone = spark.createDataFrame(doomed_ids(state, key, deletes))
        return committed.join(gone, "id", "left_anti")
    change = changes.get(key)
    if change is None:
        return committed
    staged = _staged(spark, state, change)
    if change.mode is WriteMode.OVERWRITE:
        return staged
    if change.mode is WriteMode.APPEND:
        return committed.unionByName(staged)
    # A hint, because Spark takes what tasks make for a few rows and would send them everywhere.
    ids = staged.select("id").hint("merge")
    kept = committed.join(ids, "id", "left_anti").select(committed.columns)
    if change.merge_columns is not None:
        staged = _completed(staged, committed)
    return kept.unionByName(staged)


def _staged(spark: SparkSession, state: SnapshotState, change: Pending) -> DataFrame:
    source = change.source(state.root, state.settings)
    names = own_columns(state, change)
    schema = spark_schema(source.columns(names), Blobs.DESCRIPTOR)
    if not source.files:
        return spark.createDataFrame([], schema)

    def read(part: StagedSource) -> Iterator[pa.RecordBatch]:
        return part.batches(names)

    return frame_of_parts(spark, source.parts(), read, schema)


def _completed(staged: DataFrame, committed: DataFrame) -> DataFrame:
    """Take the columns that are not merged from the rows there are."""
    given = set(staged.columns)
    mine, theirs = staged.hint("merge").alias("mine"), committed.alias("theirs")
    joined = mine.join(theirs, f.col("mine.id") == f.col("theirs.id"), "left")
    return joined.select(
        *(
            f.col(f"{'mine' if name in given else 'theirs'}.`{name}`").alias(name)
            for name in committed.columns
        )
    )
