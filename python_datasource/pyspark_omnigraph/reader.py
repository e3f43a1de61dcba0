"""Reading one type: planned on the driver, read in tasks, each batch cast to Spark's Arrow schema.

There is no `pushFilters` here, on purpose: Spark keeps what it returned for the next query on the
same DataFrame, which then gets the rows of the first one's filter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from omnigraph_spark.blobs import Blobs
from omnigraph_spark.options import ReadOptions
from omnigraph_spark.scan import ScanRequest, plan_columns, plan_scan, read_task
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.session.types import (
    check_user_schema,
    spark_arrow_schema,
    spark_schema,
    to_spark,
)
from omnigraph_spark.snapshot import SnapshotState
from pyspark_omnigraph.plainly import plainly, plainly_each

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_omnigraph.pushed import PushedScan


@dataclass(frozen=True)
class TypeSubject:
    """One type at one snapshot, and what the options want of it."""

    source: ScanSource
    request: ScanRequest

    @classmethod
    def of(cls, state: SnapshotState, type_name: str, options: ReadOptions) -> TypeSubject:
        """Pin a type; `options` say which columns and rows of it."""
        request = ScanRequest(
            columns=options.columns,
            where=options.where,
            limit=options.limit,
            blobs=Blobs(options.blobs),
            batch_rows=options.batch_size,
            split_bytes=options.split_bytes,
        )
        return cls(ScanSource.of(state, type_name), request)

    def schema(self) -> StructType:
        """Return the Spark schema of the columns asked for."""
        return spark_schema(plan_columns(self.source, self.request), self.request.blobs)

    def reader(self, schema: StructType) -> TypeReader:
        """Return a reader of the columns of `schema`."""
        type_key = str(self.source.entry.type_key)
        names = check_user_schema(schema, self.schema(), type_key)
        return TypeReader(self.source, replace(self.request, columns=tuple(names)), schema)

    def pushed_reader(self, scan: PushedScan) -> DataSourceReader:
        """Return a reader of what the planner wants of this type."""
        from pyspark_omnigraph.pushed import pushed_reader

        return pushed_reader(self, scan)


class TypeReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """Reads one type in tasks."""

    def __init__(self, source: ScanSource, request: ScanRequest, schema: StructType) -> None:
        self._source = source
        self._request = request
        self._schema = schema

    @plainly
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in plan_scan(self._source, self._request).tasks]

    @plainly_each
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        # Spark makes up a partition without a value when it was given none.
        if partition is None or partition.value is None:
            return
        yield from to_spark(read_task(partition.value), spark_arrow_schema(self._schema))
