"""The writes of ``make bench`` that lance-spark can do, in its SQL and with DataFrames.

Parquet has no way to change rows, so changes have no baseline here: they are given in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from benchmarks.baselines import ITS_PARQUET, LANCE_SPARK
from benchmarks.changes import changed, one_in_a_hundred
from benchmarks.lance_spark.session import Session, new_table
from benchmarks.measure import Work

#: The works, in the order they come.
NAMES = ("bulk write", "upsert 1%", "update 1%", "delete 1%", "small commit")
_SMALL = 1_000


def works(session: Session) -> Iterator[Work]:
    """Yield a bulk write, changes of a copy, and small commits."""
    yield _bulk(session)
    yield from _changes(session)
    yield _small(session)


def _bulk(session: Session) -> Work:
    rows = session.read(ITS_PARQUET, "Row")
    target = session.scratch / "bulk.parquet"
    return Work(
        "bulk write",
        {
            ITS_PARQUET: lambda _: rows.write.parquet(str(target)),
            LANCE_SPARK: lambda turn: new_table(rows, f"bulk{turn}.default.Row", "Row").create(),
        },
        {
            ITS_PARQUET: lambda _: session.fresh(target.name),
            LANCE_SPARK: lambda turn: _empty_catalog(session, turn),
        },
        agree=False,
        warm_ups=0,
    )


def _empty_catalog(session: Session, turn: int) -> None:
    # A catalog keeps what it knows of its tables, so each turn has another; disks are finite.
    session.fresh(f"bulk{turn - 1}")
    session.catalog(f"bulk{turn}")


def _changes(session: Session) -> Iterator[Work]:
    """Change one row in a hundred, other ones in every repeat; a copy takes all changes."""
    table = f"{session.copy('changed')}.default.Row"
    sql = session.spark.sql
    source = str(session.scratch / "changes")

    def made(turn: int) -> None:
        # Of all rows, to find these takes longer than many an upsert: it is not part of the work.
        rows = session.read(ITS_PARQUET, "Row")
        changed(rows, turn).write.mode("overwrite").parquet(source)

    def upsert(_: int) -> None:
        session.spark.read.parquet(source).createOrReplaceTempView("changed_rows")
        sql(
            f"MERGE INTO {table} t USING changed_rows s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def update(turn: int) -> None:
        sql(f"UPDATE {table} SET c = c + 1 WHERE {one_in_a_hundred(turn + 20)}")

    def delete(turn: int) -> None:
        sql(f"DELETE FROM {table} WHERE {one_in_a_hundred(turn + 40)}")

    yield Work("upsert 1%", {LANCE_SPARK: upsert}, {LANCE_SPARK: made}, agree=False)
    yield Work("update 1%", {LANCE_SPARK: update}, agree=False)
    yield Work("delete 1%", {LANCE_SPARK: delete}, agree=False)


def _small(session: Session) -> Work:
    """Append the same thousand rows; Parquet has no commit, only more files."""
    table = f"{session.catalog('small')}.default.T0"
    folder = str(session.fresh("small.parquet"))
    _thousand(session, 0).limit(0).writeTo(table).using("lance").create()

    def append(turn: int) -> None:
        _thousand(session, turn).writeTo(table).append()

    return Work(
        "small commit",
        {
            ITS_PARQUET: lambda turn: _thousand(session, turn).write.mode("append").parquet(folder),
            LANCE_SPARK: append,
        },
        agree=False,
        warm_ups=3,
        repeats=41,
    )


def _thousand(session: Session, turn: int) -> DataFrame:
    numbers = session.spark.range(turn * _SMALL, (turn + 1) * _SMALL, 1, 1)
    return numbers.selectExpr("concat('name-', id) AS name", f"id - {turn * _SMALL} AS number")
