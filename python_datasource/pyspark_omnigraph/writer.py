"""Writing one type: staged by the tasks, checked and landed once on the driver.

The writer is pickled to the tasks and again to the process that commits: it holds plain values.
That process has no SparkSession, so rules across rows are checked there out of core.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph_spark.session.types import arrow_schema_of
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.stage import StageResult
from pyspark_omnigraph.given_rows import given_rows
from pyspark_omnigraph.plainly import plainly
from pyspark_omnigraph.statement import Statement, condition
from pyspark_omnigraph.worker import tune_worker

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class Staged(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed here
    """What one task staged, as small text."""

    result: str


class TypeWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes rows of one type in one graph commit."""

    def __init__(
        self, statement: Statement, overwrite: bool, schema: StructType | None = None
    ) -> None:
        options = statement.options
        self._type = options.type_name()
        self._statement = statement
        if overwrite or statement.replaced is not None:
            statement.refuse_unseen_rows()
        self._write = statement.begin()
        self._task = self._write.task(self._type, options.mode(overwrite), options.merge_columns)
        if schema is not None and not statement.is_sql:
            # Where the write is planned: also without rows, and not as the end of a failed task.
            self._task.check(arrow_schema_of(schema))
        replaces = self._task.mode in (WriteMode.MERGE, WriteMode.OVERWRITE)
        if (replaces or statement.replaced is not None) and options.merge_columns is None:
            statement.refuse_unseen_columns(
                self._task.declared, () if schema is None else schema.names
            )
        #: Of the rows that the new ones take the place of, which they have to meet as well.
        self._slice: str | None = None
        if statement.replaced is not None:
            self._slice = condition(self._write, self._type, statement.replaced)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage one partition."""
        if self._statement.is_sql:
            key = str(self._task.declared.type_key)
            iterator = (given_rows(batch, key) for batch in iterator)
        result = self._task.run(iterator)
        if self._slice is not None:
            result = self._task.within(result, self._slice)
        tune_worker()
        return Staged(result.to_json())

    @plainly
    def commit(self, messages: list[Staged | None]) -> None:
        """Check everything and make it visible in one commit."""
        self._take(messages)
        if self._slice is not None:
            self._write.delete_where(self._type, self._slice)
        staged = {str(self._task.mode): [message.result for message in messages if message]}
        self._statement.end(self._write, staged, self._slice)
        tune_worker()

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
