"""Works that write many rows: bulk, upsert, update and delete of one row in a hundred."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

import omnigraph_spark as og
from benchmarks.changes import changed, one_in_a_hundred
from benchmarks.data import SCHEMA
from benchmarks.measure import Way, Work
from benchmarks.stage import Stage

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
    """Change one row in a hundred of a table that nobody changed before: a copy for each repeat."""
    if {"delta", "omnigraph"} <= set(stage.contestants):
        yield _upsert(stage, _Copies(stage, "upsert"))
        yield _update(stage, _Copies(stage, "update"))
        yield _delete(stage, _Copies(stage, "delete"))


class _Copies:
    """A copy of the rows for each repeat of a work, known to the session before it begins."""

    def __init__(self, stage: Stage, work: str) -> None:
        self._stage = stage
        self._work = work
        self._graphs: dict[int, og.Graph] = {}

    def before(self) -> dict[str, Way]:
        return {"delta": self._copy_delta, "omnigraph": self._copy_graph}

    def delta(self, turn: int) -> str:
        """Return what SQL calls the Delta table of a repeat."""
        return f"delta.`{self._stage.scratch / self._name(turn)}.delta`"

    def table(self, turn: int) -> str:
        """Return what SQL calls our table of a repeat."""
        return f"{self._name(turn)}.nodes.Row"

    def graph(self, turn: int) -> og.Graph:
        return self._graphs[turn]

    def _name(self, turn: int) -> str:
        return f"{self._work}{turn}"

    def _copy_delta(self, turn: int) -> None:
        self._stage.copy_of_delta("Row", f"{self._name(turn)}.delta")
        self._stage.spark.sql(f"SELECT count(*) FROM {self.delta(turn)}").collect()

    def _copy_graph(self, turn: int) -> None:
        root = self._stage.copy_of_graph(self._name(turn))
        self._stage.know(self._name(turn), root)
        self._stage.spark.sql(f"SELECT count(*) FROM {self.table(turn)}").collect()
        self._graphs[turn] = og.open(root, spark=self._stage.spark)


def _upsert(stage: Stage, copies: _Copies) -> Work:
    def changes() -> DataFrame:
        return stage.spark.read.parquet(str(stage.scratch / "changes"))

    def with_changes(copy: Way, turn: int) -> None:
        # Of all rows, to find these takes longer than many an upsert: it is not part of the work.
        changed(_rows(stage), turn).write.mode("overwrite").parquet(str(stage.scratch / "changes"))
        copy(turn)

    def in_delta(turn: int) -> None:
        changes().createOrReplaceTempView("changed_rows")
        stage.spark.sql(
            f"MERGE INTO {copies.delta(turn)} t USING changed_rows s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    return Work(
        "upsert 1%",
        {
            "delta": in_delta,
            "omnigraph": lambda turn: copies.graph(turn).write(changes(), "Row", mode="merge"),
        },
        {who: partial(with_changes, copy) for who, copy in copies.before().items()},
        agree=False,
    )


def _update(stage: Stage, copies: _Copies) -> Work:
    def in_sql(table: Callable[[int], str], turn: int) -> None:
        stage.spark.sql(f"UPDATE {table(turn)} SET c = c + 1 WHERE {one_in_a_hundred(turn)}")

    ways = {"delta": partial(in_sql, copies.delta), "omnigraph": partial(in_sql, copies.table)}
    return Work("update 1%", ways, copies.before(), agree=False)


def _delete(stage: Stage, copies: _Copies) -> Work:
    def in_delta(turn: int) -> None:
        stage.spark.sql(f"DELETE FROM {copies.delta(turn)} WHERE {one_in_a_hundred(turn)}")

    ways: dict[str, Way] = {
        "delta": in_delta,
        "omnigraph": lambda turn: copies.graph(turn).delete("Row", where=one_in_a_hundred(turn)),
    }
    return Work("delete 1%", ways, copies.before(), agree=False)
