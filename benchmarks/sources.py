"""Python data sources to compare with: ours as it is without a jar, and the simplest over Lance.

A session with the jar answers `format("omnigraph")` with it; under another name the same Python
source runs as in a session that has none.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from pyspark_omnigraph.source import OmnigraphDataSource


class PipSource(OmnigraphDataSource):
    """Our source where there is no jar."""

    @classmethod
    def name(cls) -> str:
        return "omnigraph_pip"


class SimplestSource(DataSource):
    """A dataset by its address, a task for each fragment: what anybody writes in an hour.

    All columns are read, as Spark tells a Python source of none, unless `columns` names some.
    """

    @classmethod
    def name(cls) -> str:
        return "simplest"

    def schema(self) -> StructType:
        import lance

        schema = lance.dataset(self.options["path"]).schema
        named = self.options.get("columns")
        names = named.split(",") if named else schema.names
        # Spark has instants in microseconds only, and no `date64`.
        fields = [
            pa.field(name, pa.timestamp("us", "UTC"))
            if pa.types.is_date64(schema.field(name).type)
            else schema.field(name)
            for name in names
        ]
        return from_arrow_schema(pa.schema(fields))

    def reader(self, schema: StructType) -> DataSourceReader:
        return SimplestReader(self.options["path"], schema)


class SimplestReader(DataSourceReader):
    """Reads one fragment in each task."""

    def __init__(self, path: str, schema: StructType) -> None:
        self._path, self._schema = path, schema

    def partitions(self) -> list[InputPartition]:
        import lance

        fragments = lance.dataset(self._path).get_fragments()
        return [InputPartition(fragment.fragment_id) for fragment in fragments]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import lance
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        fragment = lance.dataset(self._path).get_fragment(partition.value)
        for batch in fragment.to_batches(columns=schema.names):
            yield pa.Table.from_batches([batch]).cast(schema).combine_chunks().to_batches()[0]
