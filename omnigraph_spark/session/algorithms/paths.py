"""How far nodes are from some of them: shortest paths from seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from omnigraph_spark.errors import InvalidOptionError
from omnigraph_spark.session.algorithms.checkpoints import LOCAL, Checkpoints
from omnigraph_spark.session.algorithms.given import (
    both_ways,
    edge_ends,
    node_ids,
    refuse_negative,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How many seeds that are no nodes an error names.
_NAMED = 10


def shortest_paths(
    nodes: DataFrame,
    edges: DataFrame,
    seeds: Sequence[Any] | DataFrame,
    *,
    weight: str | None = None,
    directed: bool = True,
    max_hops: int | None = None,
    checkpoint: str = LOCAL,
) -> DataFrame:
    """Measure the shortest way from every seed to every node it reaches: seed, id, distance.

    Args:
        nodes: A DataFrame with the column id.
        edges: A DataFrame with the columns src and dst.
        seeds: Ids of nodes, or a DataFrame with the column id.
        weight: A column of the edges that says how long they are; by default each is 1 long. Null
            counts as 1.
        directed: Follow edges from src to dst only.
        max_hops: Follow at most so many edges.
        checkpoint: ``local``, ``reliable``, or a folder for Parquet files.

    Raises:
        InvalidOptionError: A seed is not among the nodes, or a weight is negative.

    >>> shortest_paths(  # doctest: +SKIP
    ...     graph.nodes("Person"), graph.edges("Knows"), ["alice"], max_hops=3
    ... )
    """
    refuse_negative(edges, weight)
    kept = Checkpoints(checkpoint)
    ids = node_ids(nodes)
    ends = edge_ends(ids, edges, weight)
    ends = ends if directed else both_ways(ends)
    ends = ends.where("src <> dst").groupBy("src", "dst").agg(f.min("weight").alias("weight"))
    ends = kept.keep(ends, "edges")
    starts = _seed_frame(ids, seeds).select(f.col("id").alias("seed"), "id")
    # `hop` is the round in which a distance was found: those of the last round are followed next.
    found = starts.withColumns({"distance": f.lit(0.0), "hop": f.lit(0)})
    found = kept.keep(found, "found")
    hop = 0
    while hop != max_hops:
        front = found.where(f.col("hop") == hop).withColumnRenamed("id", "src")
        hop += 1
        ahead = front.join(ends, "src").select(
            "seed",
            f.col("dst").alias("id"),
            (f.col("distance") + f.col("weight")).alias("distance"),
            f.lit(hop).alias("hop"),
        )
        best = found.unionAll(ahead).groupBy("seed", "id")
        # Of equal distances the older one stays, which is not followed again.
        shortest = best.agg(f.min(f.struct("distance", "hop")).alias("best"))
        found = kept.keep(shortest.select("seed", "id", "best.distance", "best.hop"), "found")
        if found.where(f.col("hop") == hop).isEmpty():
            break
    distance = f.col("distance") if weight is not None else f.col("distance").cast("bigint")
    return found.select("seed", "id", distance.alias("distance"))


def _seed_frame(ids: DataFrame, seeds: Sequence[Any] | DataFrame) -> DataFrame:
    if hasattr(seeds, "select"):
        given = seeds.select("id").distinct()
    else:
        schema = StructType([StructField("id", ids.schema["id"].dataType)])
        rows = [(seed,) for seed in dict.fromkeys(seeds)]
        given = ids.sparkSession.createDataFrame(rows, schema)
    strange = [row.id for row in given.join(ids, "id", "left_anti").limit(_NAMED).collect()]
    if strange:
        raise InvalidOptionError("seeds", ", ".join(map(str, strange)), "ids of the nodes given")
    return given
