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
    ScanSource,
    ScanTask,
    plan_scan,
    read_task,
    read_task_with_places,
)
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.session.tasks import frame_of_parts, run_groups, run_tasks
from omnigraph_spark.session.types import spark_schema
from omnigraph_spark.staged_rows import FILE_NUMBER, StagedSource
from omnigraph_spark.workspace import (
    PLACE_NAMES,
    DuckWorkspace,
    Interest,
    Workspace,
    lookup_filter,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: From so many staged rows on Spark checks them. The checks of a transaction are some twenty Spark
#: jobs: 26 s for 20,000 rows on two busy cores, where DuckDB took 5 s for 800,000. Where the two
#: cross was not measured; this is an estimate from those, on the side of DuckDB.
SPARK_ROWS = 2_000_000
#: The view of committed rows before those of interest are chosen; no relation has this name.
_INCOMING = "incoming"


def workspace_for(spark: SparkSession, rows: int) -> AbstractContextManager[Workspace]:
    """Return the workspace that suits a number of staged rows."""
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
        where = lookup_filter(self, columns, interests) if where is None else where
        plan = plan_scan(source, ScanRequest(tuple(columns.values()), where))
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
