"""How important every node is: PageRank."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from omnigraph_spark.errors import InvalidOptionError
from omnigraph_spark.session.algorithms.checkpoints import LOCAL, Checkpoints
from omnigraph_spark.session.algorithms.given import edge_ends, node_ids, refuse_negative

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger("omnigraph_spark")


def pagerank(
    nodes: DataFrame,
    edges: DataFrame,
    *,
    damping: float = 0.85,
    tolerance: float = 1e-6,
    max_rounds: int = 100,
    weight: str | None = None,
    checkpoint: str = LOCAL,
) -> DataFrame:
    """Rank nodes by the ranks of those that point to them: id, pagerank; all add up to 1.

    What a node without outgoing edges has goes to all nodes alike. Parallel edges count each.

    Args:
        nodes: A DataFrame with the column id.
        edges: A DataFrame with the columns src and dst.
        damping: How much of a rank follows the edges; the rest goes to all nodes alike.
        tolerance: Stop when ranks change by less than this on average.
        max_rounds: Stop after so many rounds in any case, which the log then says.
        weight: A column of the edges; a node's rank is shared by it. Null counts as 1.
        checkpoint: ``local``, ``reliable``, or a folder for Parquet files.

    >>> ranks = pagerank(graph.nodes("Person"), graph.edges("Knows"))  # doctest: +SKIP
    >>> graph.write_back(ranks, "Person", columns=["pagerank"])  # doctest: +SKIP
    """
    if not 0 <= damping < 1:
        raise InvalidOptionError("damping", str(damping), "a number from 0 to below 1")
    refuse_negative(edges, weight)
    kept = Checkpoints(checkpoint)
    ids = kept.keep(node_ids(nodes), "nodes")
    count = ids.count()
    shares, ranks = _begin(kept, ids, edge_ends(ids, edges, weight), count)
    base = (1 - damping) / max(1, count)
    stuck, _ = _sums(ranks)
    for _ in range(max_rounds):
        given = shares.join(ranks.withColumnRenamed("id", "src"), "src").groupBy("dst")
        taken = given.agg(f.sum(f.col("rank") * f.col("share")).alias("taken"))
        taken = taken.withColumnRenamed("dst", "id")
        rank = f.coalesce("taken", f.lit(0.0)) * damping + (base + damping * stuck / max(1, count))
        fresh = ranks.withColumnRenamed("rank", "before").drop("old").join(taken, "id", "left")
        fresh = fresh.select("id", "ends", rank.alias("rank"), f.col("before").alias("old"))
        ranks = kept.keep(fresh, "ranks")
        stuck, moved = _sums(ranks)
        if moved < count * tolerance or not count:
            break
    else:
        _LOG.warning("pagerank stopped after %d rounds, before ranks settled", max_rounds)
    return ranks.select("id", f.col("rank").alias("pagerank"))


def _begin(
    kept: Checkpoints, ids: DataFrame, ends: DataFrame, count: int
) -> tuple[DataFrame, DataFrame]:
    """Return how nodes share their ranks, and the ranks they begin with."""
    joined = ends.groupBy("src", "dst").agg(f.sum("weight").alias("weight"))
    joined = joined.where("weight > 0")
    total = joined.groupBy("src").agg(f.sum("weight").alias("total"))
    share = (f.col("weight") / f.col("total")).alias("share")
    shares = kept.keep(joined.join(total, "src").select("src", "dst", share), "shares")
    starts = shares.select(f.col("src").alias("id")).distinct().withColumn("starts", f.lit(True))
    first = ids.join(starts, "id", "left").select(
        "id",
        f.isnull("starts").alias("ends"),
        f.lit(1 / max(1, count)).alias("rank"),
        f.lit(0.0).alias("old"),
    )
    return shares, kept.keep(first, "ranks")


def _sums(ranks: DataFrame) -> tuple[float, float]:
    """Return what lies at nodes without outgoing edges, and how much ranks changed."""
    stuck = f.sum(f.when(f.col("ends"), f.col("rank")))
    moved = f.sum(f.abs(f.col("rank") - f.col("old")))
    found = ranks.agg(stuck, moved).first() or (None, None)
    return found[0] or 0.0, found[1] or 0.0
