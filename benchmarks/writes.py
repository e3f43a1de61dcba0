"""Works that write many rows: bulk, upsert, update and delete of one row in a hundred."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

import omnigraph_spark as og
from benchmarks.data import SCHEMA
from benchmarks.measure import Way, Work
from benchmarks.stage import Stage

#: `a` has a million values, so each of a hundred ranges holds one row in a hundred.
_RANGE = 10_000
#: The works, in the order they come.
NAMES = (
    "bulk write",
    "import of Parquet files",
    "upsert 1%",
    "update 1%",
    "delete 1%",
)


def works(stage: Stage) -> Iterator[Work]:
    """Yield bulk writes into nothing, then changes of copies."""
    yield _bulk(stage)
    if hasattr(og.Graph, "import_parquet"):
        yield _import(stage)
    yield from _changes(stage)


# -- bulk ------------------------------------------------------------------------------------------


def _bulk(stage: Stage) -> Work:
    """Write all rows; `rows` is ours with `check=rows`."""
    ways: dict[str, Way] = {
        "parquet": lambda _: _rows(stage).write.parquet(str(stage.scratch / "bulk.parquet")),
        "delta": lambda _: (
            _rows(stage).write.format("delta").save(str(stage.scratch / "bulk.delta"))
        ),
        "omnigraph": partial(_append, stage, "bulk.all", "all"),
        "rows": partial(_append, stage, "bulk.rows", "rows"),
        "pylance": partial(_write_alone, stage),
    }
    before: dict[str, Way] = {
        "parquet": lambda _: _empty(stage.fresh("bulk.parquet")),
        "delta": lambda _: _empty(stage.fresh("bulk.delta")),
        "omnigraph": lambda _: _created(stage, "bulk.all"),
        "rows": lambda _: _created(stage, "bulk.rows"),
        "pylance": lambda _: _empty(stage.fresh("bulk.lance")),
    }
    known = {who: way for who, way in ways.items() if who == "rows" or who in stage.contestants}
    # It takes so long that starting up does not show, and at ten million rows too long to repeat.
    return Work("bulk write", known, before, agree=False, warm_ups=0)


def _import(stage: Stage) -> Work:
    """Bring Parquet files in; Spark's own way is to read and write them."""
    target = stage.scratch / "import.parquet"

    def ours(_: int) -> None:
        graph = og.open(stage.scratch / "import", spark=stage.spark)
        graph.import_parquet(f"{stage.data.parquet('Row')}/*.parquet", type="Row", mode="append")

    return Work(
        "import of Parquet files",
        {"parquet": lambda _: _rows(stage).write.parquet(str(target)), "omnigraph": ours},
        {
            "parquet": lambda _: _empty(stage.fresh("import.parquet")),
            "omnigraph": lambda _: _created(stage, "import"),
        },
        agree=False,
        warm_ups=0,
    )


def _rows(stage: Stage) -> DataFrame:
    return stage.spark.read.parquet(stage.data.parquet("Row"))


def _empty(path: Path) -> None:
    assert not path.exists(), path


def _created(stage: Stage, name: str) -> None:
    og.create(stage.fresh(name), SCHEMA, spark=stage.spark)


def _append(stage: Stage, name: str, check: str, _: int) -> None:
    graph = og.open(stage.scratch / name, spark=stage.spark)
    graph.write(_rows(stage), "Row", mode="append", check=check)


def _write_alone(stage: Stage, _: int) -> None:
    import lance
    import pyarrow.dataset as ds

    files = ds.dataset(stage.data.parquet("Row"), format="parquet")
    lance.write_dataset(files.to_batches(), str(stage.scratch / "bulk.lance"), schema=files.schema)


# -- changes ---------------------------------------------------------------------------------------


def _changes(stage: Stage) -> Iterator[Work]:
    """Change one row in a hundred, other ones in every repeat; copies take all changes."""
    if not {"delta", "omnigraph"} <= set(stage.contestants):
        return
    delta = stage.copy_of_delta("Row", "changed.delta")
    table = f"delta.`{delta}`"
    graph = og.open(stage.copy_of_graph("changed"), spark=stage.spark)
    stage.know("changed", stage.scratch / "changed")
    sql = stage.spark.sql

    def made(turn: int) -> None:
        # Of all rows, to find these takes longer than many an upsert: it is not part of the work.
        _changed(stage, turn).write.mode("overwrite").parquet(str(stage.scratch / "changes"))

    def changes() -> DataFrame:
        return stage.spark.read.parquet(str(stage.scratch / "changes"))

    def upsert_delta(_: int) -> None:
        changes().createOrReplaceTempView("changed_rows")
        sql(
            f"MERGE INTO {table} t USING changed_rows s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    yield Work(
        "upsert 1%",
        {
            "delta": upsert_delta,
            "omnigraph": lambda _: graph.write(changes(), "Row", mode="merge"),
        },
        {"delta": made, "omnigraph": made},
        agree=False,
    )
    yield Work(
        "update 1%",
        {
            "delta": lambda turn: sql(f"UPDATE {table} SET c = c + 1 WHERE {_range(turn + 20)}"),
            "omnigraph": lambda turn: sql(
                f"UPDATE changed.nodes.Row SET c = c + 1 WHERE {_range(turn + 20)}"
            ),
        },
        agree=False,
    )
    yield Work(
        "delete 1%",
        {
            "delta": lambda turn: sql(f"DELETE FROM {table} WHERE {_range(turn + 40)}"),
            "omnigraph": lambda turn: graph.refresh().delete("Row", where=_range(turn + 40)),
        },
        agree=False,
    )


def _range(number: int) -> str:
    return f"a >= {number * _RANGE} AND a < {(number + 1) * _RANGE}"


def _changed(stage: Stage, turn: int) -> DataFrame:
    """Return one row in a hundred with another value; one in ten of them is new."""
    rows = _rows(stage).where(_range(turn))
    new = f"CASE WHEN b % 10 = 0 THEN concat(id, '-{turn}') ELSE id END AS id"
    return rows.selectExpr(new, *(c if c != "d" else "d + 1 AS d" for c in rows.columns[1:]))
