"""DataFrames of a snapshot: types, triplets, tables about the graph, temporary views.

Every frame is made by the data source from the branch and manifest version of the snapshot, so it
keeps that version whatever is published later, and works the same on classic Spark and on Connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from omnigraph_spark.errors import SessionMissingError, UnsupportedError
from omnigraph_spark.names import TypeKey, TypeKind
from omnigraph_spark.options import STORAGE_PREFIX
from omnigraph_spark.schema.model import EdgeType
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.writing.violations import Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def session_or_active(spark: SparkSession | None) -> SparkSession:
    """Return the session given, else the active one of this thread."""
    found = spark or active_session()
    if found is None:
        raise SessionMissingError()
    return found


def active_session() -> SparkSession | None:
    """Return the active session of this thread, if there is one."""
    return SparkSession.getActiveSession()


def read_frame(
    spark: SparkSession | None, state: SnapshotState, subject: Mapping[str, str]
) -> DataFrame:
    """Read a type or table (`subject` holds the options that say which) at a snapshot."""
    reader = (
        session_or_active(spark)
        .read.format("omnigraph")
        .option("branch", state.branch)
        .option("version", state.manifest_version)
    )
    for key, value in state.settings.handed_on().items():
        reader = reader.option(STORAGE_PREFIX + key, value)
    return reader.options(**subject).load(state.root)


def triplets_frame(spark: SparkSession | None, state: SnapshotState, key: TypeKey) -> DataFrame:
    """Join the edges of a type with both of their ends: three struct columns."""
    declared = state.schema.get(key)
    if not isinstance(declared, EdgeType):
        raise UnsupportedError(
            f"triplets of {key}, whose ends the current schema does not declare",
            "join edges and nodes by src, dst and id",
        )

    def structs(type_key: str, name: str) -> DataFrame:
        frame = read_frame(spark, state, {"type": type_key})
        return frame.select(f.struct("*").alias(name))

    edges = structs(str(key), "edge")
    sources = structs(f"{TypeKind.NODE}:{declared.from_type}", "src")
    targets = structs(f"{TypeKind.NODE}:{declared.to_type}", "dst")
    return (
        edges.join(sources, f.col("edge.src") == f.col("src.id"))
        .join(targets, f.col("edge.dst") == f.col("dst.id"))
        .select("src", "edge", "dst")
    )


def violations_frame(spark: SparkSession | None, found: Iterable[Violation]) -> DataFrame:
    """Return violations as a DataFrame, a row for each rule that is broken."""
    rows = [(v.rule, v.type_key, v.column, v.message, list(v.ids), v.count) for v in found]
    schema = (
        "rule string, type_key string, column string, message string, ids array<string>, "
        "count bigint"
    )
    return session_or_active(spark).createDataFrame(rows, schema)


def register_views(spark: SparkSession | None, state: SnapshotState, prefix: str) -> list[str]:
    """Make a temporary view of every type and return their names.

    A view is called ``<prefix>_Person``; where a node and an edge type share the name, ``_node``
    or ``_edge`` stands between.
    """
    keys = [entry.type_key for entry in state.entries.values()]
    names = [key.name for key in keys]
    views = []
    for key in keys:
        between = f"_{key.kind}" if names.count(key.name) > 1 else ""
        view = f"{prefix}{between}_{key.name}"
        read_frame(spark, state, {"type": str(key)}).createOrReplaceTempView(view)
        views.append(view)
    return views
