"""Works that read a whole type: what most analytics is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Way, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.data import Reading
    from benchmarks.stage import Stage

ALL = "id,a,at,b,c,d,day,flag,kind,name,text,vector"
_SPARK = ("parquet", "delta", "omnigraph", "pip", "simplest", "simplest, named")
Query = Callable[["DataFrame"], Any]


def _chosen(*expressions: str) -> Query:
    return lambda rows: [tuple(row) for row in rows.selectExpr(*expressions).collect()]


def _grouped(rows: DataFrame) -> Any:
    return sorted(tuple(row) for row in rows.groupBy("kind").agg({"b": "sum"}).collect())


def _filtered(rows: DataFrame) -> Any:
    return [tuple(row) for row in rows.where("a < 10000").selectExpr("sum(b)").collect()]


def _consumed(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


#: Name of the work -> the type, the columns it reads, what it does with them.
QUERIES: dict[str, tuple[str, str, Query]] = {
    "count": ("Row", "id", lambda rows: rows.count()),
    "sum of one column": ("Row", "a", _chosen("sum(a)")),
    "filter 1%, sum": ("Row", "a,b", _filtered),
    "group by kind": ("Row", "kind,b", _grouped),
    "max(length(text))": ("Row", "text", _chosen("max(length(text))")),
    "four numbers": ("Row", "a,b,c,d", _chosen("sum(a)", "sum(b)", "sum(c)", "sum(d)")),
    "all 12 columns": ("Row", ALL, _consumed),
    "wide rows": ("Document", "id,body,embedding,title", _consumed),
}
NAMES = tuple(QUERIES)


def works(stage: Stage) -> Iterator[Work]:
    """Yield every scan."""
    for name, (type_name, columns, _) in QUERIES.items():
        ways = with_spark(stage, name, [who for who in _SPARK if who in stage.contestants])
        if "pylance" in stage.contestants:
            path = stage.lance_path(type_name)
            ways["pylance"] = partial(_alone, path, name, columns)
        yield scan(name, ways)


def scan(name: str, ways: Mapping[str, Way]) -> Work:
    """Return the work of a scan."""
    if name == "count":
        # Planning is all of it, and Spark's planner is fast only when its code was compiled.
        return Work(name, ways, repeats=7, warm_ups=3)
    return Work(name, ways, agree=QUERIES[name][2] is not _consumed)


def with_spark(stage: Reading, name: str, contestants: Iterable[str]) -> dict[str, Way]:
    """Return the ways of those who read with the session of a stage."""
    return {who: partial(_run, stage, who, *QUERIES[name]) for who in contestants}


def _run(
    stage: Reading, contestant: str, type_name: str, columns: str, query: Query, _: int
) -> object:
    rows = stage.read(contestant, type_name, columns).select(*columns.split(","))
    return query(rows)


def _alone(path: str, work: str, columns: str, _: int) -> Any:
    """Do the same with Lance and Arrow in this process: no Spark, no other process."""
    import lance
    import pyarrow.compute as pc

    dataset = lance.dataset(path)
    names = columns.split(",")
    if work == "count":
        return dataset.count_rows()
    if work == "filter 1%, sum":
        return [(pc.sum(dataset.to_table(columns=["b"], filter="a < 10000")["b"]).as_py(),)]
    if work == "group by kind":
        table = dataset.to_table(columns=names).group_by("kind").aggregate([("b", "sum")])
        return sorted((row["kind"], row["b_sum"]) for row in table.to_pylist())
    totals: dict[str, Any] = dict.fromkeys(names, 0)
    longest = 0
    for batch in dataset.scanner(columns=names, batch_size=65_536).to_batches():
        if work == "max(length(text))":
            longest = max(longest, pc.max(pc.utf8_length(batch.column(0))).as_py())
        elif work in ("sum of one column", "four numbers"):
            for name in names:
                totals[name] += pc.sum(batch.column(name)).as_py()
    if work == "max(length(text))":
        return [(longest,)]
    return [tuple(totals.values())] if len(totals) <= 4 else None
