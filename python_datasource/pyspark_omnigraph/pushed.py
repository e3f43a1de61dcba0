"""Reading what Spark's planner pushed through the jar: columns, filters, order, limit, counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from omnigraph_spark.aggregates import Aggregation, partial_aggregates
from omnigraph_spark.arrow_rows import public_schema
from omnigraph_spark.known_aggregates import known_aggregates
from omnigraph_spark.lookups import MOST_BYTES, plan_lookup
from omnigraph_spark.packing import SPREAD_OVER
from omnigraph_spark.predicates import Tree, is_filterable, lance_condition, looked_up
from omnigraph_spark.scan import (
    ROW_ADDRESS,
    ROW_ID,
    ScanRequest,
    ScanTask,
    count_task,
    plan_scan,
    read_numbered_task,
    read_task,
)
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.session.types import (
    check_user_schema,
    spark_arrow_schema,
    to_spark,
    with_whole_structs,
)
from omnigraph_spark.storage.parts import Ordering, ScanCost
from pyspark_omnigraph.plainly import plainly, plainly_each
from pyspark_omnigraph.reader import TypeSubject

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Numbers that a stored row has besides its columns.
NUMBERS = (ROW_ID, ROW_ADDRESS)


@dataclass(frozen=True)
class PushedScan:
    """What the planner wants of one table, as the jar wrote it."""

    schema: StructType
    filters: Sequence[Tree] = ()
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0
    count: bool = False
    #: What tasks return instead of rows.
    aggregation: Aggregation | None = None
    #: The cores of the cluster.
    parallelism: int = SPREAD_OVER

    @classmethod
    def parse(cls, text: str) -> PushedScan:
        """Read the option's text."""
        wish: Mapping[str, Any] = json.loads(text)
        return cls(
            schema=StructType.fromJson(json.loads(wish["schema"])),
            filters=wish["filters"],
            order=tuple(Ordering(*key) for key in wish["order"]),
            limit=wish["limit"],
            offset=wish["offset"],
            count=wish["count"],
            parallelism=wish["parallelism"],
            aggregation=None if wish["aggregate"] is None else Aggregation.parse(wish["aggregate"]),
        )


def pushed_reader(subject: TypeSubject, scan: PushedScan) -> PushedReader:
    """Return a reader of what the planner wants of a type."""
    source = subject.source
    numbers = tuple(name for name in scan.schema.names if name in NUMBERS)
    stored = StructType([field for field in scan.schema.fields if field.name not in NUMBERS])
    type_key = str(source.entry.type_key)
    if scan.aggregation is not None:
        names = list(scan.aggregation.columns())
    else:
        full = subject.schema()
        whole = with_whole_structs(stored, full)
        names = [] if scan.count else check_user_schema(whole, full, type_key)
    scalars = {c.name: c.type.scalar for c in source.columns() if is_filterable(c)}
    where = _both(subject.request.where, lance_condition(scan.filters, scalars))
    keys = tuple(looked_up(scan.filters))
    request = replace(
        subject.request,
        columns=tuple(names),
        where=where,
        keys=keys,
        spread_over=scan.parallelism,
        # Lance has to check what a user wrote; what is written here it would only plan twice.
        own_filter=subject.request.where is None,
    )
    if scan.limit is not None:
        # Spark counts the rows that are left out towards the limit, Lance does not.
        limit = max(0, scan.limit - scan.offset)
        request = replace(request, limit=limit, offset=scan.offset, order=scan.order)
    return PushedReader(source, request, scan, numbers)


def _both(given: str | None, pushed: str | None) -> str | None:
    """Join a user's condition and the planner's."""
    return f"({given}) and {pushed}" if given and pushed else given or pushed


class PushedReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """Reads one type in tasks, or counts or aggregates the rows of each."""

    def __init__(
        self,
        source: ScanSource,
        request: ScanRequest,
        scan: PushedScan,
        numbers: tuple[str, ...],
    ) -> None:
        self._source = source
        self._request = request
        self._scan = scan
        self._numbers = numbers

    @plainly
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in plan_scan(self._source, self._request).tasks]

    def look_up(self) -> pa.RecordBatch | None:
        """Return the rows when an index finds them and they are few, else None."""
        if self._scan.aggregation is not None and not self._scan.filters:
            return self._known(self._scan.aggregation)
        lookup = plan_lookup(self._source, self._request, looked_up(self._scan.filters))
        if lookup is None:
            return None
        if self._scan.aggregation is not None and not lookup.finds_few():
            return None
        schema = spark_arrow_schema(self._scan.schema)
        wants_rows = self._scan.aggregation is None and not self._scan.count
        tasks = lookup.attempt() if wants_rows else lookup.tasks
        found: list[pa.RecordBatch] = []
        for batch in (batch for task in tasks for batch in self.read(InputPartition(task))):
            found.append(batch)
            rows, size = sum(b.num_rows for b in found), sum(b.nbytes for b in found)
            # Texts may be longer than they were thought to be.
            if rows > lookup.most_rows or size > MOST_BYTES or not schema.names:
                return None
        [whole] = pa.Table.from_batches(found, schema).combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], schema=schema)
        ]
        return whole

    def _known(self, wanted: Aggregation) -> pa.RecordBatch | None:
        """Return aggregates of all rows where manifest and indexes know them, else None."""
        known = known_aggregates(self._source, self._request, wanted)
        if known is None:
            return None
        schema = spark_arrow_schema(self._scan.schema)
        [row] = to_spark([pa.RecordBatch.from_arrays(known, names=schema.names)], schema)
        return row

    @plainly_each
    def read(
        self, partition: InputPartition, cost: ScanCost | None = None
    ) -> Iterator[pa.RecordBatch]:
        schema = spark_arrow_schema(self._scan.schema)
        task: ScanTask = partition.value
        if self._scan.count:
            counted = pa.array([count_task(task)], pa.int64())
            yield pa.RecordBatch.from_arrays([counted] * len(schema), schema=schema)
            return
        if self._scan.aggregation is not None:
            stored = public_schema(task.columns, task.blobs)
            parts = partial_aggregates(read_task(task, cost), stored, self._scan.aggregation)
            yield from to_spark((part.rename_columns(schema.names) for part in parts), schema)
            return
        rows = read_numbered_task(task, self._numbers, cost)
        # The numbers come last; Spark may want them anywhere.
        yield from to_spark((batch.select(schema.names) for batch in rows), schema)
