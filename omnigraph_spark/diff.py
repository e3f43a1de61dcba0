"""`Diff`: what differs between two snapshots, as a DataFrame, as Arrow, at a glance.

Everything works without Spark; methods that return DataFrames import `session` when first called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph_spark.comparing.difference import (
    JSON_DIFFERENCES,
    TypeDifference,
    type_difference,
    type_differences,
)
from omnigraph_spark.comparing.summary import DiffSummary, TypeSummary, summarize
from omnigraph_spark.errors import TypeNotFoundError
from omnigraph_spark.framed import Frame
from omnigraph_spark.given_rows import session_in_use
from omnigraph_spark.names import TypeKey
from omnigraph_spark.snapshot import SnapshotState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: From so many rows to look at on, a type is compared by Spark jobs and not by one process.
SPARK_ROWS = 2_000_000


class Diff(Frame):
    """What differs between two snapshots: of all types, or typed for one."""

    def __init__(
        self,
        before: SnapshotState,
        after: SnapshotState,
        type: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        self._before = before
        self._after = after
        self._spark = spark
        self._type = None if type is None else self._key(type)

    def batches(self, type: str | None = None) -> pa.RecordBatchReader:
        """Stream what differs, without Spark and within a memory bound.

        Of one type: id, change, before and after as structs, columns. Of all types, unless the diff
        is about one: type_key, id, change, before and after as JSON text, columns.
        """
        chosen = self._type if type is None else self._key(type)
        if chosen is None:
            return self.json_batches()
        one = type_difference(self._before, self._after, chosen)
        return pa.RecordBatchReader.from_batches(one.schema, one.typed_batches())

    def json_batches(self) -> pa.RecordBatchReader:
        """Stream what differs with before and after as JSON text, also of one type."""
        read = (batch for each in self._types() for batch in each.json_batches())
        return pa.RecordBatchReader.from_batches(JSON_DIFFERENCES, read)

    def arrow(self, type: str | None = None) -> pa.Table:
        """Return what differs as a pyarrow Table; see `batches`."""
        return self.batches(type).read_all()

    def summary(self, samples: int = 3) -> DiffSummary:
        """Count what differs by type, with some rows of each: a table in notebooks."""
        found = (self._summarize(each, samples) for each in self._types())
        return DiffSummary(self._title(), tuple(each for each in found if each is not None))

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How many rows were added, removed and changed, by type; only types that differ."""
        return self.summary(samples=0).counts

    def _summarize(self, difference: TypeDifference, samples: int) -> TypeSummary | None:
        if difference.rows >= SPARK_ROWS and (spark := self._spark or session_in_use()):
            from omnigraph_spark.session.diff_frames import summarize_frame

            return summarize_frame(spark, difference, samples)
        return summarize(difference, samples)

    def _make_frame(self) -> DataFrame:
        from omnigraph_spark.session.diff_frames import json_frame, typed_frame
        from omnigraph_spark.session.frames import session_or_active

        spark = session_or_active(self._spark)
        if self._type is None:
            return json_frame(spark, list(self._types()), SPARK_ROWS)
        one = type_difference(self._before, self._after, self._type)
        return typed_frame(spark, one, SPARK_ROWS)

    def _types(self) -> Iterator[TypeDifference]:
        if self._type is None:
            yield from type_differences(self._before, self._after)
        elif one := type_difference(self._before, self._after, self._type):
            yield one

    def _key(self, name: str) -> str:
        """Return the type key of a name that at least one of the snapshots knows."""
        try:
            return str(self._after.entry(name).type_key)
        except TypeNotFoundError:
            return str(self._before.entry(name).type_key)

    def _title(self) -> str:
        sides = (f"{side.branch}@{side.manifest_version}" for side in (self._before, self._after))
        about = "" if self._type is None else f" of {TypeKey.parse(self._type)}"
        return f"{' → '.join(sides)}{about}"

    def __repr__(self) -> str:
        return f"Diff({self._title()})"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()
