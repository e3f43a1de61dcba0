"""The data source called as Spark calls it: each step in another process, so pickled in between."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark_omnigraph import DefaultSource

from omnigraph_spark.session.types import spark_arrow_schema

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")


def sent(value: T) -> T:
    """A value as the next process gets it."""
    arrived: T = pickle.loads(cloudpickle.dumps(value))
    return arrived


def source(root: Path | str, **options: str) -> DefaultSource:
    """The source as Spark makes it: options as text, keys in lower case."""
    return DefaultSource({"path": str(root), **_lowered(options)})


def read_directly(source: DefaultSource, schema: StructType | None = None) -> pa.Table:
    """All rows of a source, without Spark; checks each batch as Spark 4.2 checks the first."""
    if schema is None:
        schema = source.schema()
    reader = sent(source).reader(schema)
    expected = spark_arrow_schema(schema)
    partitions = reader.partitions()
    assert partitions
    batches = []
    for partition in partitions:
        for batch in sent(reader).read(sent(partition)):
            assert batch.schema.equals(expected)
            batches.append(batch)
    return pa.Table.from_batches(batches, expected)


def read(spark: SparkSession, root: Path | str, **options: Any) -> DataFrame:
    """A DataFrame of a graph."""
    return spark.read.format("omnigraph").options(**options).load(str(root))


def failure(action: Callable[[], object]) -> str:
    """What Spark tells the user when an action fails."""
    from pyspark.errors import PySparkException

    try:
        action()
    except PySparkException as error:
        return str(error)
    raise AssertionError("it did not fail")


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in options.items()}
