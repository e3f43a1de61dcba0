"""`spark.read.format("omnigraph")`: what Spark asks of a data source.

Spark imports this module to look for data sources, once per session and together with every other
`pyspark_*` package: if one of them fails, none is found. So nothing but pyspark is imported here;
the engine comes in with the first question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader

from pyspark_omnigraph.jar_options import CALL, PUSHED
from pyspark_omnigraph.plainly import plainly

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_omnigraph.pushed import PushedScan


class Subject(Protocol):
    """What one DataFrame reads, pinned to a snapshot: a type, or a table about the graph.

    Spark pickles it between processes, so a subject holds plain values and nothing open.
    """

    def schema(self) -> StructType:
        """Return the Spark schema of all columns that may be read."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of `schema`, Spark's own or one the user gave."""

    def pushed_reader(self, scan: PushedScan) -> DataSourceReader:
        """Return a reader of what Spark's planner wants, as the jar passed it on."""


class OmnigraphDataSource(DataSource):  # type: ignore[misc]  # pyspark is not typed here
    """A graph as a Spark data source."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._subject: Subject | None = None

    @classmethod
    def name(cls) -> str:
        return "omnigraph"

    @plainly
    def schema(self) -> StructType:
        if CALL in self.options:
            from pyspark_omnigraph.answers import answer

            return answer(self.options)
        return self._pinned().schema()

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        subject = self._pinned()
        if PUSHED not in self.options:
            return subject.reader(schema)
        from omnigraph_spark.options import ReadOptions
        from pyspark_omnigraph.jar_options import reading_options
        from pyspark_omnigraph.pushed import PushedScan
        from pyspark_omnigraph.tunnel import TunnelReader

        reader = subject.pushed_reader(PushedScan.parse(self.options[PUSHED]))
        read = ReadOptions.parse(reading_options(without_table_properties(self.options)))
        return TunnelReader(reader, read.shared_memory)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from pyspark_omnigraph.blob_columns import described
        from pyspark_omnigraph.delta import FACTS, DeltaWriter
        from pyspark_omnigraph.statement import Statement
        from pyspark_omnigraph.worker import tune_worker
        from pyspark_omnigraph.writer import TypeWriter

        statement = Statement.parse(self.options)
        if statement.is_delta:
            shown = [name for name in schema.names if name not in FACTS]
            writer: DataSourceArrowWriter = DeltaWriter(statement, described(schema), shown)
        else:
            writer = TypeWriter(statement, overwrite, schema)
        tune_worker()
        return writer

    def _pinned(self) -> Subject:
        """Resolve the snapshot at the first question and keep it: the DataFrame stays with it.

        That question is `schema`, or `reader` when the user gave a schema. Spark keeps the pickled
        instance, so all actions on one DataFrame read the same commit.
        """
        if self._subject is None:
            given = without_table_properties(self.options)
            self._subject = _resolve(given)
        return self._subject


def without_table_properties(options: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what `CREATE TABLE … USING omnigraph` adds to the options of a table.

    Spark then passes the table's properties as well, and each option a second time under `option.`.
    """
    if "provider" not in options:
        return dict(options)
    twice = {key.removeprefix("option."): key for key in options if key.startswith("option.")}
    given = {key: options[prefixed] for key, prefixed in twice.items()}
    return {**given, "path": options["path"]} if "path" in options else given


def _resolve(options: Mapping[str, str]) -> Subject:
    from omnigraph_spark.options import ReadOptions
    from omnigraph_spark.snapshot import GraphReader
    from omnigraph_spark.storage.settings import StorageSettings
    from omnigraph_spark.storage.uri import canonical_root
    from pyspark_omnigraph.jar_options import reading_options
    from pyspark_omnigraph.metadata import MetadataSubject
    from pyspark_omnigraph.reader import TypeSubject

    read = ReadOptions.parse(reading_options(options))
    if read.is_feed:
        from pyspark_omnigraph.feed import FeedSubject

        return FeedSubject.of(read)
    root, ref = read.root(), read.ref()
    type_name, table = read.subject()
    graph = GraphReader.open(canonical_root(root), StorageSettings.resolve(read.storage))
    state = graph.resolve(ref)
    if table is not None:
        return MetadataSubject.of(state, table)
    if type_name is None:
        raise AssertionError("ReadOptions.subject returns a type or a table")
    return TypeSubject.of(state, type_name, read)
