"""Which nodes hang together, and which are close: connected components, label propagation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from omnigraph_spark.session.algorithms.checkpoints import LOCAL, Checkpoints
from omnigraph_spark.session.algorithms.given import both_ways, edge_ends, node_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def connected_components(
    nodes: DataFrame, edges: DataFrame, *, checkpoint: str = LOCAL
) -> DataFrame:
    """Say which nodes are connected, whatever the direction: id, component.

    A component is named by its smallest id; a node without edges is one of its own. The number of
    rounds grows with the logarithm of the graph, not with its diameter (Kiveris et al., Connected
    Components in MapReduce and Beyond).

    Args:
        nodes: A DataFrame with the column id.
        edges: A DataFrame with the columns src and dst; others are left alone.
        checkpoint: ``local``, ``reliable``, or a folder for Parquet files.

    >>> connected_components(graph.nodes("Person"), graph.edges("Knows"))  # doctest: +SKIP
    """
    kept = Checkpoints(checkpoint)
    ids = node_ids(nodes)
    src, dst = f.col("src"), f.col("dst")
    ends = edge_ends(ids, edges).where(src != dst)
    ends = ends.select(f.least(src, dst).alias("src"), f.greatest(src, dst).alias("dst"))
    stars = kept.keep(ends.distinct(), "stars")
    seen = _fingerprint(stars)
    while True:
        stars = kept.keep(_small_star(_large_star(stars)), "stars")
        now = _fingerprint(stars)
        if now == seen:
            break
        seen = now
    named = stars.select(dst.alias("id"), src.alias("component"))
    return ids.join(named, "id", "left").select(
        "id", f.coalesce(f.col("component"), f.col("id")).alias("component")
    )


def _large_star(stars: DataFrame) -> DataFrame:
    """Connect every node's larger neighbours to its smallest one; edges point to the larger end."""
    both = stars.unionAll(stars.select(f.col("dst").alias("src"), f.col("src").alias("dst")))
    least = both.groupBy("src").agg(f.min("dst").alias("least"))
    least = least.select("src", f.least("src", "least").alias("least"))
    moved = stars.join(least, "src").select(f.col("least").alias("src"), "dst")
    return moved.distinct()


def _small_star(stars: DataFrame) -> DataFrame:
    """Connect every node and its smaller neighbours to the smallest of them."""
    least = stars.groupBy("dst").agg(f.min("src").alias("least"))
    moved = stars.join(least, "dst").select(f.col("least").alias("src"), f.col("src").alias("dst"))
    own = least.select(f.col("least").alias("src"), "dst")
    return moved.where(f.col("src") != f.col("dst")).unionAll(own).distinct()


def _fingerprint(stars: DataFrame) -> tuple[object, ...]:
    """Return what tells two sets of edges apart, without a row of them."""
    return tuple(
        stars.agg(f.count(f.lit(1)), f.bit_xor(f.xxhash64("src", "dst"))).first() or (0, None)
    )


def label_propagation(
    nodes: DataFrame, edges: DataFrame, *, rounds: int = 5, checkpoint: str = LOCAL
) -> DataFrame:
    """Find communities: every node takes the commonest label around it, again and again.

    Returns id and label, the id of some node of the community. Directions do not count; parallel
    edges count each. Of labels that are equally common the smallest wins, so results repeat.

    Args:
        nodes: A DataFrame with the column id.
        edges: A DataFrame with the columns src and dst.
        rounds: How often labels are handed on; a few are enough.
        checkpoint: As for `connected_components`.
    """
    kept = Checkpoints(checkpoint)
    ids = node_ids(nodes)
    around = kept.keep(both_ways(edge_ends(ids, edges)), "edges")
    labels = kept.keep(ids.select("id", f.col("id").alias("label")), "labels")
    for _ in range(rounds):
        handed = around.join(labels.withColumnRenamed("id", "dst"), "dst")
        votes = handed.groupBy("src", "label").agg(f.count(f.lit(1)).alias("votes"))
        # The smallest of (-votes, label): the commonest, and of those the smallest.
        best = votes.groupBy("src").agg(f.min(f.struct(-f.col("votes"), "label")).alias("best"))
        fresh = best.select(f.col("src").alias("id"), f.col("best.label").alias("fresh"))
        taken = labels.join(fresh, "id", "left")
        taken = taken.select("id", f.coalesce("fresh", "label").alias("label"))
        labels = kept.keep(taken, "labels")
    return labels
