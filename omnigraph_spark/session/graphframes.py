"""Graphs for GraphFrames: all types as one graph of vertices and edges, or as property groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as f

from omnigraph_spark.errors import InvalidOptionError, UnsupportedError
from omnigraph_spark.names import TypeKey, TypeKind
from omnigraph_spark.schema.model import EdgeType
from omnigraph_spark.session.frames import read_frame
from omnigraph_spark.snapshot import SnapshotState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PACKAGE = "pip install 'omnigraph-spark[graphframes]'"
_JAR = "add its jar, io.graphframes:graphframes-spark4_2.13, with spark.jars.packages"


class Chosen:
    """The types of a snapshot that become one graph: edges whose end types are chosen as well."""

    def __init__(
        self,
        state: SnapshotState,
        nodes: Sequence[str] | None,
        edges: Sequence[str] | None,
    ) -> None:
        self._state = state
        self.nodes = self._keys(TypeKind.NODE, nodes)
        names = {key.name for key in self.nodes}
        self.edges = []
        for key in self._keys(TypeKind.EDGE, edges):
            declared = self.declared(key)
            missing = {declared.from_type, declared.to_type} - names
            if not missing:
                self.edges.append(key)
            elif edges is not None:
                ends = ", ".join(sorted(missing))
                raise InvalidOptionError("nodes", ", ".join(sorted(names)), f"{ends} as well")

    def declared(self, key: TypeKey) -> EdgeType:
        """Return what the schema says of an edge type."""
        found = self._state.schema.get(key)
        if not isinstance(found, EdgeType):
            raise UnsupportedError(
                f"{key}, whose ends the current schema does not declare", "name other edge types"
            )
        return found

    def _keys(self, kind: TypeKind, names: Sequence[str] | None) -> list[TypeKey]:
        if names is None:
            keys = [entry.type_key for entry in self._state.entries.values()]
            return [key for key in keys if key.kind is kind]
        texts = [name if ":" in name else f"{kind}:{name}" for name in names]
        return [self._state.entry(text).type_key for text in texts]


def vertices_and_edges(
    spark: SparkSession | None, state: SnapshotState, chosen: Chosen
) -> tuple[DataFrame, DataFrame]:
    """Return one frame of all nodes and one of all edges, with ids that are unique among types."""

    def read(key: TypeKey) -> DataFrame:
        return read_frame(spark, state, {"type": str(key)})

    if not chosen.nodes or not chosen.edges:
        raise InvalidOptionError("edges", "none", "a node type and an edge type between them")
    if len(chosen.nodes) == 1 and len(chosen.edges) == 1:
        return read(chosen.nodes[0]), read(chosen.edges[0])
    vertices = [
        read(key).select(
            _global(key.name, "id"), f.lit(key.name).alias("type"), f.col("id").alias("entity")
        )
        for key in chosen.nodes
    ]
    edges = []
    for key in chosen.edges:
        declared = chosen.declared(key)
        src = _global(declared.from_type, "src")
        dst = _global(declared.to_type, "dst")
        edges.append(read(key).select("id", src, dst, f.lit(key.name).alias("type")))
    return _all(vertices), _all(edges)


def to_graphframe(spark: SparkSession | None, state: SnapshotState, chosen: Chosen) -> Any:
    """Return a GraphFrame of the chosen types."""
    graphframes = _imported("graphframes")
    vertices, edges = vertices_and_edges(spark, state, chosen)
    try:
        return graphframes.GraphFrame(vertices, edges)
    except Py4JJavaError as error:
        if "ClassNotFoundException" not in str(error.java_exception):
            raise
        raise UnsupportedError("a GraphFrame in a session without its jar", _JAR) from error


def to_property_graphframe(spark: SparkSession | None, state: SnapshotState, chosen: Chosen) -> Any:
    """Return a PropertyGraphFrame: a group with all columns for each chosen type."""
    pg = _imported("graphframes.pg")
    groups = {
        key.name: pg.VertexPropertyGroup(key.name, read_frame(spark, state, {"type": str(key)}))
        for key in chosen.nodes
    }
    edges = []
    for key in chosen.edges:
        declared = chosen.declared(key)
        frame = read_frame(spark, state, {"type": str(key)})
        # Without a name every edge gets the weight 1, in a column of that name.
        weight = "weight" if "weight" in frame.columns else None
        start, end = groups[declared.from_type], groups[declared.to_type]
        edges.append(pg.EdgePropertyGroup(key.name, frame, start, end, True, "src", "dst", weight))
    return pg.PropertyGraphFrame(list(groups.values()), edges)


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("graphframes"):
            raise
        raise UnsupportedError("a GraphFrame without the package graphframes-py", _PACKAGE) from (
            error
        )


def _global(type_name: str, column: str) -> Any:
    return f.concat(f.lit(f"{type_name}:"), f.col(column)).alias(column)


def _all(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionAll(other), frames)
