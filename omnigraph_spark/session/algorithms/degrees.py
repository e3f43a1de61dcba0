"""How many edges begin and end at every node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from omnigraph_spark.session.algorithms.given import edge_ends, node_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def degrees(nodes: DataFrame, edges: DataFrame) -> DataFrame:
    """Count the edges of every node: id, in_degree, out_degree, degree.

    Nodes without edges have zeros. Parallel edges count each; one from a node to itself counts as
    in and as out. Edges whose ends are not among the nodes are left out.

    >>> degrees(graph.nodes("Person"), graph.edges("Knows"))  # doctest: +SKIP
    """
    ids = node_ids(nodes)
    ends = edge_ends(ids, edges)
    outgoing = ends.select(f.col("src").alias("id"), f.lit(1).alias("out"))
    incoming = ends.select(f.col("dst").alias("id"), f.lit(0).alias("out"))
    counted = outgoing.unionAll(incoming).groupBy("id")
    sums = counted.agg(f.sum("out").alias("outgoing"), f.count(f.lit(1)).alias("both"))
    out, both = (f.coalesce(f.col(name), f.lit(0)) for name in ("outgoing", "both"))
    return ids.join(sums, "id", "left").select(
        "id",
        (both - out).alias("in_degree"),
        out.alias("out_degree"),
        both.alias("degree"),
    )
