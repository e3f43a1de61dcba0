"""Reading a table about the graph, such as `commits`: one small partition.

The snapshot is kept as branch and manifest version and resolved again where the rows are read; both
processes see the same manifest version, so they see the same snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from omnigraph_spark.names import Ref
from omnigraph_spark.session.types import (
    check_user_schema,
    spark_arrow_schema,
    spark_schema_of_arrow,
    to_spark,
)
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.parts import ScanCost
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.table_shape import MetadataTable
from omnigraph_spark.tables import metadata_table
from pyspark_omnigraph.plainly import plainly_each

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_omnigraph.pushed import PushedScan


@dataclass(frozen=True)
class MetadataSubject:
    """One table about the graph, as of one snapshot."""

    root: str
    settings: StorageSettings
    branch: str
    manifest_version: int
    table_name: str

    @classmethod
    def of(cls, state: SnapshotState, table_name: str) -> MetadataSubject:
        """Pin a table; an unknown name is an error that lists the tables there are."""
        name = metadata_table(table_name).name
        return cls(state.root, state.settings, state.branch, state.manifest_version, name)

    @property
    def table(self) -> MetadataTable:
        """The declaration of the table."""
        return metadata_table(self.table_name)

    def schema(self) -> StructType:
        """Return the Spark schema of the table."""
        return spark_schema_of_arrow(self.table.schema)

    def reader(self, schema: StructType) -> MetadataReader:
        """Return a reader of the columns of `schema`."""
        check_user_schema(schema, self.schema(), f"table {self.table_name}")
        return MetadataReader(self, schema)

    def pushed_reader(self, scan: PushedScan) -> MetadataReader:
        """Return a reader of the columns the planner wants; nothing else is pushed into these."""
        return self.reader(scan.schema)

    def read(self) -> pa.Table:
        """Read the whole table."""
        reader = GraphReader.open(self.root, self.settings)
        return self.table.read(reader.resolve(Ref.version(self.manifest_version, self.branch)))


class MetadataReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """Reads a table about the graph in one partition."""

    def __init__(self, subject: MetadataSubject, schema: StructType) -> None:
        self._subject = subject
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    @plainly_each
    def read(
        self, partition: InputPartition | None, cost: ScanCost | None = None
    ) -> Iterator[pa.RecordBatch]:
        rows = self._subject.read()
        # A table without columns has no batches, and with them goes the row count.
        chosen = rows.select(self._schema.names) if self._schema.names else rows
        yield from to_spark(chosen.to_batches(), spark_arrow_schema(self._schema))
