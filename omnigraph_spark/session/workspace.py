"""The workspace of a transaction on Spark: its relations are cached DataFrames, its SQL is Spark's.

For many rows. A few are joined by DuckDB in this process before Spark has planned its first job;
`workspace_for` chooses. Staged files and committed datasets are read by tasks, so the driver never
holds rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from omnigraph_spark.blobs import Blobs
from omnigraph_spark.scan import (
    ScanRequest,
    ScanTask,
    plan_scan,
    read_task,
    read_task_with_places,
)
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.session.tasks import frame_of_parts, mapped_frame, run_groups, run_tasks
from omnigraph_spark.session.types import spark_schema, spark_schema_of_arrow
from omnigraph_spark.writing.finding import values_filter
from omnigraph_spark.writing.staged_rows import FILE_NUMBER, StagedSource
from omnigraph_spark.writing.workspace import (
    PLACE_NAMES,
    DuckWorkspace,
    Interest,
    P,
    Workspace,
    few_values,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph_spark.writing.write import Write

#: From so many staged rows on Spark merges them, or deletes by them.
SPARK_ROWS = 2_000_000
# Rows that are only checked, of appends and overwrites, are worth Spark from so many times as many
# on. DuckDB took 3 s of CPU time for ten million ids and 13 s for ten million edges and their ends,
# in this process; Spark 41 to 56 s and 131 s: faster only with more than ten times the cores.
_ONLY_CHECKED = 10
#: The view of committed rows before those of interest are chosen; no relation has this name.
_INCOMING = "incoming"


def workspace_for(spark: SparkSession, write: Write) -> AbstractContextManager[Workspace]:
    """Return the workspace that suits what a write has staged."""
    rows = write.rows
    many = rows.moved + rows.only_checked // _ONLY_CHECKED >= SPARK_ROWS
    return SparkWorkspace(spark) if many else write.workspace()


def merge_workspace(spark: SparkSession, rows: int) -> AbstractContextManager[Workspace]:
    """Return the workspace that suits a number of rows of two branches."""
    return SparkWorkspace(spark) if rows >= SPARK_ROWS else DuckWorkspace()


class SparkWorkspace:
    """Relations as temporary views of cached DataFrames."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        #: Views belong to the session, which other transactions may share.
        self._prefix = f"omnigraph_{uuid4().hex}_"
        self._frames: dict[str, DataFrame] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self._frames):
            self.drop(name)
        self._spark.catalog.dropTempView(f"{self._prefix}{_INCOMING}")

    def add_rows(self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Add rows of this process, which fit its memory."""
        self._add(name, self._spark.createDataFrame(pa.Table.from_batches(batches, schema)))

    def add_staged(
        self, name: str, source: StagedSource, columns: Mapping[str, str], numbered: bool = False
    ) -> None:
        """Add staged rows under a name; tasks read the files."""
        stored = list(columns.values())
        more = [FILE_NUMBER] if numbered else []
        schema = _schema(list(columns), source.columns(stored), more)

        def read(part: StagedSource) -> Iterator[pa.RecordBatch]:
            return part.batches(stored, numbered=numbered)

        self._add(name, frame_of_parts(self._spark, source.parts(), read, schema))

    def add_committed(
        self,
        name: str,
        source: ScanSource,
        columns: Mapping[str, str],
        interests: Sequence[Interest],
        where: str | None = None,
        places: bool = False,
    ) -> None:
        """Add committed rows under a name, those of interest only; tasks read the dataset."""
        own = where is None
        if where is None and (values := few_values(self, source, columns, interests)):
            where = values_filter(values)
        plan = plan_scan(source, ScanRequest(tuple(columns.values()), where, own_filter=own))
        schema = _schema(list(columns), plan.columns, PLACE_NAMES if places else ())

        def read(task: ScanTask) -> Iterator[pa.RecordBatch]:
            return read_task_with_places(task) if places else read_task(task)

        frame = frame_of_parts(self._spark, plan.tasks, read, schema)
        if interests:
            view = f"{self._prefix}{_INCOMING}"
            frame.createOrReplaceTempView(view)
            conditions = " OR ".join(interest.condition(view) for interest in interests)
            frame = self._sql(f"SELECT * FROM {view} WHERE {conditions}")
        self._add(name, frame)

    def add_parts(
        self,
        name: str,
        parts: Sequence[P],
        read: Callable[[P], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> None:
        """Add what `read` yields of every part, a task each."""
        fields = spark_schema_of_arrow(schema)
        self._add(name, frame_of_parts(self._spark, parts, read, fields))

    def add_mapped(
        self,
        name: str,
        query: str,
        work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> None:
        """Add what `work` makes of the rows of a query, of each task's share."""
        self._add(name, mapped_frame(self._sql(query), work, spark_schema_of_arrow(schema)))

    def define(self, name: str, query: str) -> None:
        """Add the result of a query under a name."""
        self._add(name, self._sql(query))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query whose answer is small."""
        return [tuple(row) for row in self._sql(query).collect()]

    def table(self, query: str) -> pa.Table:
        """Return the rows of a query whose answer fits in memory."""
        table: pa.Table = self._sql(query).toArrow()
        return table

    def each_group(self, query: str, by: str, work: Callable[[pa.Table], str]) -> Iterator[str]:
        """Call `work` with the rows of every value, a task each."""
        frame = self._sql(query)
        return iter(run_groups(frame, by, frame.select(by).distinct().count(), work))

    def run(self, tasks: Sequence[Callable[[], str]]) -> Iterator[str]:
        """Call every task on an executor."""
        return iter(run_tasks(self._spark, tasks))

    def drop(self, name: str) -> None:
        """Forget a relation."""
        self._frames.pop(name).unpersist()
        self._spark.catalog.dropTempView(f"{self._prefix}{name}")

    def _add(self, name: str, frame: DataFrame) -> None:
        kept = frame.persist()
        self._frames[name] = kept
        kept.createOrReplaceTempView(f"{self._prefix}{name}")
        # Now, not with the first query: of a cached frame that was counted Spark knows the size,
        # and does not take millions of rows for a table to send to every executor.
        kept.count()

    def _sql(self, query: str) -> DataFrame:
        """Run a query, in which relations have the names they were added under."""
        if not self._frames:
            return self._spark.sql(query)
        known = "|".join(map(re.escape, self._frames))
        return self._spark.sql(re.sub(rf"\b({known})\b", rf"{self._prefix}\1", query))


def _schema(
    aliases: Sequence[str], columns: Sequence[Column], numbers: Sequence[str]
) -> StructType:
    """Return the Spark schema of columns under other names, then of whole numbers."""
    fields = zip(aliases, spark_schema(columns, Blobs.DESCRIPTOR).fields, strict=True)
    return StructType(
        [
            *(StructField(alias, field.dataType) for alias, field in fields),
            *(StructField(name, LongType()) for name in numbers),
        ]
    )
