"""Nodes and edges as users give them: which columns count, and edges whose ends are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from omnigraph_spark.errors import ColumnNotFoundError, InvalidOptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def node_ids(nodes: DataFrame) -> DataFrame:
    """Return the ids of nodes, each once."""
    return _columns(nodes, "nodes", "id").distinct()


def edge_ends(nodes: DataFrame, edges: DataFrame, weight: str | None = None) -> DataFrame:
    """Return src, dst and weight of the edges between these nodes; without a column all weigh 1."""
    ends = _columns(edges, "edges", "src", "dst", *([] if weight is None else [weight]))
    weighed = f.lit(1.0) if weight is None else f.coalesce(f.col(weight).cast("double"), f.lit(1.0))
    ends = ends.select("src", "dst", weighed.alias("weight"))
    for end in ("src", "dst"):
        known = nodes.select(f.col("id").alias(end))
        ends = ends.join(known, end, "left_semi")
    return ends.select("src", "dst", "weight")


def refuse_negative(edges: DataFrame, weight: str | None) -> None:
    """Refuse weights below zero; paths and ranks have no meaning with them."""
    if weight is None:
        return
    (least,) = edges.agg(f.min(f.col(weight).cast("double"))).first() or (None,)
    if least is not None and not least >= 0:
        raise InvalidOptionError("weight", weight, f"a column without negatives; it has {least}")


def both_ways(ends: DataFrame) -> DataFrame:
    """Return edges together with their reverse."""
    back = ends.select(f.col("dst").alias("src"), f.col("src").alias("dst"), "weight")
    return ends.unionAll(back)


def _columns(frame: DataFrame, what: str, *names: str) -> DataFrame:
    for name in names:
        if name not in frame.columns:
            raise ColumnNotFoundError(what, name, tuple(frame.columns))
    return frame.select(*names)
