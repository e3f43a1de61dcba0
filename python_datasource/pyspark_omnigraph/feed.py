"""Reading the change feed of one type: commits are chosen on the driver, compared in tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from omnigraph_spark.comparing.commit_range import CommitRange, read_feed
from omnigraph_spark.comparing.feed import Feed
from omnigraph_spark.options import ReadOptions
from omnigraph_spark.session.feed_frames import feed_spark_schema
from omnigraph_spark.session.types import check_user_schema, spark_arrow_schema, to_spark
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage.parts import ScanCost
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import canonical_root
from pyspark_omnigraph.plainly import plainly_each

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_omnigraph.pushed import PushedScan


@dataclass(frozen=True)
class FeedSubject:
    """The changes of one type along commits that were chosen once."""

    type_name: str
    feed: Feed

    @classmethod
    def of(cls, options: ReadOptions) -> FeedSubject:
        """Choose the commits; which they are stays, whatever is published later."""
        type_name, starting, ending = options.feed()
        settings = StorageSettings.resolve(options.storage)
        reader = GraphReader.open(canonical_root(options.root()), settings)
        commits = CommitRange(options.branch, starting=starting, until=ending)
        return cls(type_name, read_feed(reader, commits, type_name))

    def schema(self) -> StructType:
        """Return the Spark schema of the changes."""
        return feed_spark_schema(self.feed.columns)

    def reader(self, schema: StructType) -> FeedReader:
        """Return a reader of the columns of `schema`."""
        check_user_schema(schema, self.schema(), f"the changes of {self.type_name}")
        return FeedReader(self.feed, schema)

    def pushed_reader(self, scan: PushedScan) -> FeedReader:
        """Return a reader of the columns the planner wants; no filter is pushed into changes."""
        return self.reader(scan.schema)


class FeedReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """Reads a change feed, a task for each commit or part of one."""

    def __init__(self, feed: Feed, schema: StructType) -> None:
        self._feed = feed
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        # Spark wants at least one, also of a feed without changes.
        return [InputPartition(task) for task in self._feed.tasks] or [InputPartition(None)]

    @plainly_each
    def read(
        self, partition: InputPartition | None, cost: ScanCost | None = None
    ) -> Iterator[pa.RecordBatch]:
        if partition is None or partition.value is None:
            return
        names = self._schema.names
        chosen = (batch.select(names) if names else batch for batch in partition.value.read())
        yield from to_spark(chosen, spark_arrow_schema(self._schema))
