"""What differs between two snapshots, as DataFrames.

A type of which few rows can differ is compared by one task, out of core. Where many can, Spark
itself joins them. Both are lazy: the frame is a plan, and reads the pinned versions when used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from omnigraph_spark.blobs import Blobs
from omnigraph_spark.comparing.difference import FOUND, JSON_DIFFERENCES, TypeDifference
from omnigraph_spark.comparing.summary import TypeSummary
from omnigraph_spark.comparing.values import READING_ORDER
from omnigraph_spark.session.tasks import frame_of_parts, mapped_frame
from omnigraph_spark.session.types import spark_schema, spark_schema_of_arrow
from omnigraph_spark.session.workspace import SparkWorkspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PlannedWorkspace(SparkWorkspace):
    """Relations as views of plans: nothing is kept, and what is left open may be used for good."""

    def _add(self, name: str, frame: DataFrame) -> None:
        self._frames[name] = frame
        frame.createOrReplaceTempView(f"{self._prefix}{name}")

    def drop(self, name: str) -> None:
        """Forget a name; the view stays, because Connect looks at it when the frame is used."""
        self._frames.pop(name)

    def frame(self, query: str) -> DataFrame:
        """Return the rows of a query as a DataFrame."""
        return self._sql(query)


def json_frame(
    spark: SparkSession, differences: Sequence[TypeDifference], spark_rows: int
) -> DataFrame:
    """Return what differs in several types, with values as JSON."""
    schema = spark_schema_of_arrow(JSON_DIFFERENCES)
    few = [each for each in differences if each.rows < spark_rows]
    many = [each for each in differences if each.rows >= spark_rows]
    frames = [_mapped(spark, each, each.as_json, schema) for each in many]
    if few or not frames:
        frames.append(frame_of_parts(spark, few, _json_batches, schema))
    return reduce(lambda one, other: one.unionAll(other), frames)


def typed_frame(spark: SparkSession, difference: TypeDifference, spark_rows: int) -> DataFrame:
    """Return what differs in one type, with the rows of both sides as structs."""
    schema = typed_schema(difference)
    if difference.rows >= spark_rows:
        return _mapped(spark, difference, difference.typed, schema)
    parts = [difference] if difference else []
    return frame_of_parts(spark, parts, _typed_batches, schema)


def typed_schema(difference: TypeDifference) -> StructType:
    """Return the Spark schema of typed differences."""
    values = difference.values
    sides = {"before": values.before_columns, "after": values.after_columns}
    structs = [
        StructField(name, _nullable(spark_schema(columns, Blobs.DESCRIPTOR)))
        for name, columns in sides.items()
    ]
    texts = [StructField(name, StringType()) for name in ("id", "change")]
    return StructType([*texts, *structs, StructField("columns", ArrayType(StringType()))])


def summarize_frame(
    spark: SparkSession, difference: TypeDifference, samples: int
) -> TypeSummary | None:
    """Count what differs in one type with Spark jobs; None when nothing does."""
    with SparkWorkspace(spark) as space:
        difference.define(space)
        counts = dict(space.rows(f"SELECT change, count(*) FROM {FOUND} GROUP BY change"))
        if not counts:
            return None
        some = space.table(f"SELECT * FROM {FOUND} ORDER BY id LIMIT {int(samples)}")
    rows = [row for batch in difference.as_json(some.to_batches()) for row in batch.to_pylist()]
    return TypeSummary.of(difference.type_key, counts, rows)


def _mapped(
    spark: SparkSession,
    difference: TypeDifference,
    work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    space = PlannedWorkspace(spark)
    difference.define(space)
    found = space.frame(f"SELECT * FROM {FOUND} ORDER BY {READING_ORDER}")
    return mapped_frame(found, work, schema)


def _json_batches(difference: TypeDifference) -> Iterator[pa.RecordBatch]:
    return difference.json_batches()


def _typed_batches(difference: TypeDifference) -> Iterator[pa.RecordBatch]:
    return difference.typed_batches()


def _nullable(schema: StructType) -> StructType:
    fields = (StructField(f.name, f.dataType, True, f.metadata) for f in schema.fields)
    return StructType(list(fields))
