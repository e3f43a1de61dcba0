"""`Changes`: the change feed of one type, as a DataFrame or as Arrow.

Everything works without Spark; methods that return DataFrames import `session` when first called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph_spark.comparing.commit_range import CommitRange, read_feed
from omnigraph_spark.framed import Frame
from omnigraph_spark.snapshot import GraphReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Changes(Frame):
    """What commits of a branch did to the rows of one type."""

    def __init__(
        self,
        reader: GraphReader,
        commits: CommitRange,
        type: str,
        net: bool = False,
        spark: SparkSession | None = None,
    ) -> None:
        self._type = type
        self._spark = spark
        #: Planned at once: which commits these are, and what is wrong with them, is known now.
        self._feed = read_feed(reader, commits, type, net)

    def batches(self) -> pa.RecordBatchReader:
        """Stream the changes, commit by commit, without Spark and within a memory bound."""
        return pa.RecordBatchReader.from_batches(self._feed.schema, self._feed.read())

    def arrow(self) -> pa.Table:
        """Return the changes as a pyarrow Table."""
        return self.batches().read_all()

    def _make_frame(self) -> DataFrame:
        from omnigraph_spark.session.feed_frames import feed_frame
        from omnigraph_spark.session.frames import session_or_active

        return feed_frame(session_or_active(self._spark), self._feed)

    def __repr__(self) -> str:
        commits = len({task.commit_id for task in self._feed.tasks})
        return f"Changes({self._type}, {commits} commits with changes)"
