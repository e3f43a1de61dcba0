"""Works that read few rows of many: ids, neighbours, two hops; and the join of all triplets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.data import Reading, person_ids, row_ids
from benchmarks.measure import Way, Work

if TYPE_CHECKING:
    from benchmarks.stage import Stage

_SPARK = ("delta", "omnigraph", "pip", "parquet")
_SEEDS = 100
#: Most of a look-up is planning, and Spark's planner is fast only when its code was compiled: for
#: the first ten or so the JVM still does that.
WARM_UPS = 10
#: The works, in the order they come.
NAMES = (
    "one id",
    "1,000 ids",
    "edges of 100 nodes",
    "two hops from 100 nodes",
    "triplets join",
)


def works(stage: Stage) -> Iterator[Work]:
    """Yield every lookup; each repeat looks for other ids."""
    for name, count, repeats in (("one id", 1, 10), ("1,000 ids", 1_000, 5)):
        ways: dict[str, Way] = {
            who: partial(rows_by_id, stage, who, count)
            for who in _SPARK
            if who in stage.contestants
        }
        if "pip" in ways:
            ways["pip"] = partial(_rows_by_id_without_jar, stage, count)
        if "pylance" in stage.contestants:
            ways["pylance"] = partial(_rows_by_id_alone, stage, stage.lance_path("Row"), count)
        # Parquet and the source without a jar read everything for it: seconds that add nothing.
        scanned = {"parquet", "pip"} if count == 1 else {"parquet"}
        kept = {who: way for who, way in ways.items() if who not in scanned}
        yield Work(name, kept, repeats=repeats, warm_ups=WARM_UPS)
    near = _ways(stage, neighbours, _neighbours_alone)
    far = _ways(stage, two_hops, _two_hops_alone)
    yield Work("edges of 100 nodes", near, repeats=7, warm_ups=WARM_UPS)
    yield Work("two hops from 100 nodes", far, repeats=5, warm_ups=WARM_UPS)
    who = [who for who in ("delta", "omnigraph", "parquet") if who in stage.contestants]
    yield Work("triplets join", {name: partial(triplets, stage, name) for name in who})


def _ways(stage: Stage, with_spark: Any, alone: Any) -> dict[str, Way]:
    ways = {
        who: partial(with_spark, stage, who)
        for who in ("delta", "omnigraph")
        if who in stage.contestants
    }
    if "pylance" in stage.contestants:
        ways["pylance"] = partial(alone, stage, stage.lance_path("Knows"))
    return ways


def _drawn(turn: int, count: int, below: int) -> np.ndarray:
    return np.random.default_rng((11, turn)).choice(below, min(count, below), replace=False)


def _ids(stage: Reading, turn: int, count: int) -> list[str]:
    rows = stage.data.rows
    return row_ids(_drawn(turn, count, rows), rows).to_pylist()


def _seeds(stage: Reading, turn: int) -> list[str]:
    persons = stage.data.counts["Person"]
    return person_ids(_drawn(turn, _SEEDS, persons), persons).to_pylist()


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(f"'{each}'" for each in ids)


def rows_by_id(stage: Reading, who: str, count: int, turn: int) -> Any:
    """Find rows by their ids."""
    found = stage.read(who, "Row").where(_condition(_ids(stage, turn, count)))
    return sorted(row.b for row in found.collect())


def _rows_by_id_without_jar(stage: Stage, count: int, turn: int) -> Any:
    reader = stage.spark.read.format("omnigraph_pip").option("type", "Row")
    reader = reader.option("where", _condition(_ids(stage, turn, count)))
    return sorted(row.b for row in reader.load(str(stage.data.graph)).collect())


def _condition(ids: Sequence[str], column: str = "id") -> str:
    """Return the condition as SQL: `isin` makes each literal by a call to the JVM, for anybody."""
    return f"{column} = '{ids[0]}'" if len(ids) == 1 else f"{column} IN ({_listed(ids)})"


def _rows_by_id_alone(stage: Stage, path: str, count: int, turn: int) -> Any:
    import lance

    ids = _ids(stage, turn, count)
    return sorted(lance.dataset(path).to_table(filter=f"id IN ({_listed(ids)})")["b"].to_pylist())


def _edges_from(edges: DataFrame, ids: Sequence[str]) -> DataFrame:
    return edges.where(_condition(ids, "src"))


def neighbours(stage: Reading, who: str, turn: int) -> Any:
    """Find the edges of nodes."""
    found = _edges_from(stage.read(who, "Knows"), _seeds(stage, turn)).select("src", "dst")
    return sorted(tuple(row) for row in found.collect())


def _neighbours_alone(stage: Stage, path: str, turn: int) -> Any:
    found = _edges_alone(path, _seeds(stage, turn))
    return sorted(zip(found["src"].to_pylist(), found["dst"].to_pylist(), strict=True))


def _edges_alone(path: str, ids: Sequence[str]) -> pa.Table:
    import lance

    return lance.dataset(path).to_table(columns=["src", "dst"], filter=f"src IN ({_listed(ids)})")


def two_hops(stage: Reading, who: str, turn: int) -> Any:
    """Count the nodes that are two edges away."""
    edges = stage.read(who, "Knows")
    near = _edges_from(edges, _seeds(stage, turn)).selectExpr("dst AS src").distinct()
    return stage.read(who, "Knows").join(near, "src").select("dst").distinct().count()


def _two_hops_alone(stage: Stage, path: str, turn: int) -> Any:
    near = _edges_alone(path, _seeds(stage, turn))["dst"].unique().to_pylist()
    return len(_edges_alone(path, near)["dst"].unique())


def triplets(stage: Reading, who: str, _: int) -> Any:
    """Join all edges with both their ends."""
    persons, knows = stage.read(who, "Person"), stage.read(who, "Knows")
    src = persons.selectExpr("id AS src", "age AS src_age")
    dst = persons.selectExpr("id AS dst", "age AS dst_age")
    joined = knows.select("src", "dst").join(src, "src").join(dst, "dst")
    return [tuple(row) for row in joined.selectExpr("count(*)", "sum(src_age * dst_age)").collect()]
