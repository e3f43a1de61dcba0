"""The change feed as a DataFrame: a task for each commit, or for each part of a large one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from omnigraph_spark.blobs import Blobs
from omnigraph_spark.comparing.feed import FEED_FIELDS, Feed, FeedTask
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.session.tasks import frame_of_parts
from omnigraph_spark.session.types import spark_schema, spark_schema_of_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def feed_frame(spark: SparkSession, feed: Feed) -> DataFrame:
    """Return the changes as a DataFrame; nothing is read before it is used."""
    return frame_of_parts(spark, feed.tasks, _read, feed_spark_schema(feed.columns))


def feed_spark_schema(columns: Sequence[Column]) -> StructType:
    """Return the Spark schema of a feed."""
    more = spark_schema_of_arrow(pa.schema(FEED_FIELDS))
    return StructType([*spark_schema(columns, Blobs.DESCRIPTOR).fields, *more.fields])


def _read(task: FeedTask) -> Iterator[pa.RecordBatch]:
    return task.read()
