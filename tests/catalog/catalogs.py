"""Graphs as further catalogs of the session, and statements on them."""

from __future__ import annotations

from itertools import count as counting
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from omnigraph_spark.session.configure import catalog_settings

_NUMBERS = counting()


def rows(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(sql).collect()]


def count(spark: SparkSession, table: str) -> int:
    [(number,)] = rows(spark, f"SELECT count(*) FROM {table}")
    return int(number)


def new_catalog(spark: SparkSession, root: Path | str, **options: str) -> str:
    """Make a graph a catalog of the running session, and return its name."""
    name = f"og{next(_NUMBERS)}"
    for key, value in catalog_settings({name: str(root)}, options).items():
        spark.conf.set(key, value)
    return name
