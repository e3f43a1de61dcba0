"""Writing one type: staged by the tasks, checked and landed once on the driver.

The writer is pickled to the tasks and again to the process that commits: it holds plain values.
That process has no SparkSession, so rules across rows are checked there out of core.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph_spark.recovery.sweep import heal
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.stage import StageResult
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import canonical_root
from omnigraph_spark.write import Write
from omnigraph_spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Staged(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed here
    """What one task staged, as small text."""

    result: str


class TypeWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes rows of one type in one graph commit."""

    def __init__(self, options: WriteOptions, overwrite: bool) -> None:
        self._type = options.type_name()
        settings = StorageSettings.resolve(options.storage)
        reader = GraphReader.open(canonical_root(options.root()), settings)
        # Before the snapshot is taken, which then holds what is recovered here.
        heal(reader.manifest, options.branch, held=False)
        self._write = Write(reader, options.branch, options.terms(), options.origin())
        self._task = self._write.task(self._type, options.mode(overwrite), options.merge_columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage one partition."""
        return Staged(self._task.run(iterator).to_json())

    def commit(self, messages: list[Staged | None]) -> None:
        """Check everything and make it visible in one commit."""
        self._take(messages)
        self._write.commit_or_abort()

    def abort(self, messages: list[Staged | None]) -> None:
        """Delete what was staged, unless a version or a sidecar may own it already.

        Spark calls this after a failed `commit` as well, in a process that knows nothing of it.
        """
        staged = [StageResult.from_json(message.result) for message in messages if message]
        self._write.discard_unowned(self._task, staged)

    def _take(self, messages: list[Staged | None]) -> None:
        results = [StageResult.from_json(message.result) for message in messages if message]
        try:
            self._write.add(self._type, self._task, results)
        except BaseException:
            self._write.abort()
            raise
