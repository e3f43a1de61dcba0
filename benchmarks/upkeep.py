"""Works that look after a graph: small files put together by Spark tasks, indexes built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import omnigraph_spark as og
from benchmarks.data import SCHEMA
from benchmarks.measure import Work
from benchmarks.stage import Stage

_FILES = 64
#: The works, in the order they come.
NAMES = ("optimize",)


def works(stage: Stage) -> Iterator[Work]:
    """Yield compaction of the same rows in many small files, beside Delta's `OPTIMIZE`."""
    if not {"delta", "omnigraph"} <= set(stage.contestants):
        return
    rows = stage.spark.read.parquet(stage.data.parquet("Row")).repartition(_FILES)
    small = stage.scratch / "crumbs"
    graph = og.create(small, SCHEMA, spark=stage.spark)
    # Files of a share of the rows each; what is smaller would be packed before it lands.
    graph.write(rows, "Row", check="rows", max_rows_per_file=-(-stage.data.rows // _FILES))
    rows.write.format("delta").save(str(stage.scratch / "crumbs.delta"))

    def copied(source: Path, name: str, _: int) -> None:
        stage.copy_of(source, name)

    def optimize(_: int) -> int:
        return len(og.open(stage.scratch / "crumbs-copy", spark=stage.spark).optimize())

    target = stage.scratch / "crumbs-copy.delta"
    yield Work(
        "optimize",
        {
            "delta": lambda _: stage.spark.sql(f"OPTIMIZE delta.`{target}`").collect(),
            "omnigraph": optimize,
        },
        {
            "delta": lambda turn: copied(stage.scratch / "crumbs.delta", target.name, turn),
            "omnigraph": lambda turn: copied(small, "crumbs-copy", turn),
        },
        agree=False,
        warm_ups=0,
    )
