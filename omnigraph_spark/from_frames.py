"""A graph from DataFrames alone: schema inferred, graph created, all rows loaded in one commit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph_spark.create import remove_new_graph
from omnigraph_spark.errors import OutcomeUnknownError, StorageError
from omnigraph_spark.given_rows import Rows, schema_of
from omnigraph_spark.graph import Graph, create
from omnigraph_spark.inference import Key, infer_schema
from omnigraph_spark.storage.uri import canonical_root
from omnigraph_spark.store_settings import settings_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_from_frames(
    root: str | Path,
    nodes: Mapping[str, Rows],
    edges: Mapping[str, tuple[Rows, str, str]] | None = None,
    keys: Mapping[str, Key] | None = None,
    actor: str | None = None,
    storage: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Graph:
    """Create a graph whose types are those of DataFrames, and load all rows in one commit.

    Args:
        root: Where: a local path, ``file://`` or ``s3://`` address with nothing there yet.
        nodes: Rows of each node type: Spark or pandas DataFrames, or pyarrow.
        edges: Of each edge type its rows, with the columns src and dst, and its two node types.
        keys: The column, or columns, that form the ids of a node type; else its ids are the
            column id, or made up.
        actor: Who writes, recorded in the commit.
        storage: Settings of the object store.
        spark: The session for DataFrames.

    If the load fails nothing of the graph stays.

    >>> create_from_frames(  # doctest: +SKIP
    ...     "/data/social",
    ...     nodes={"Person": people},
    ...     edges={"Knows": (knows, "Person", "Person")},
    ...     keys={"Person": "name"},
    ... )
    """
    ends = edges or {}
    text = infer_schema(
        {name: schema_of(rows) for name, rows in nodes.items()},
        {name: (schema_of(rows), start, end) for name, (rows, start, end) in ends.items()},
        keys or {},
    )
    graph = create(root, text, actor, storage, spark)
    try:
        with graph.transaction() as tx:
            for name, rows in nodes.items():
                tx.append(f"node:{name}", rows)
            for name, (rows, _, _) in ends.items():
                tx.append(f"edge:{name}", rows)
    except OutcomeUnknownError:
        # The rows may be there.
        raise
    except BaseException:
        at = canonical_root(str(root))
        try:
            remove_new_graph(at, settings_at(at, storage, spark))
        except StorageError as error:
            # Why the load failed matters more.
            warnings.warn(f"the new graph stayed behind: {error}", stacklevel=2)
        raise
    return graph
