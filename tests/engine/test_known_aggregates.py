"""Counts, least and greatest values that indexes know: those of the rows, or no answer."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraph_spark as og
from omnigraph_spark.aggregates import Aggregation, Function
from omnigraph_spark.known_aggregates import known_aggregates
from omnigraph_spark.scan import ScanRequest, plan_scan, read_all
from omnigraph_spark.scan_source import ScanSource

SCHEMA = """
node Thing {
    text: String? @index  i: I32? @index  l: I64? @index  u: U32? @index  w: U64? @index
    day: Date? @index  at: DateTime? @index  plain: I32?
}
"""
# Texts have an index of their words alone.
INDEXED = ("id", "i", "l", "u", "w", "day", "at")
EXTREMES: dict[str, list[Any]] = {
    "text": ["", "it's", "é", "\U0001f600", "z" * 300],
    "i": [-(1 << 31), (1 << 31) - 1, 0],
    "l": [-(1 << 63), (1 << 63) - 1, 0],
    "u": [0, (1 << 32) - 1],
    "w": [0, (1 << 64) - 1, 1 << 63],
    "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)],
    "at": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59), dt.datetime(1969, 12, 31, 23)],
}
TYPES = {
    "text": pa.string(), "i": pa.int32(), "l": pa.int64(), "u": pa.uint32(), "w": pa.uint64(),
    "day": pa.date32(), "at": pa.timestamp("ms"), "plain": pa.int32(),
}  # fmt: skip


def things(seed: int, first: int, rows: int) -> pa.Table:
    """Random rows: nulls, a few extremes, and what lies between."""
    chosen = random.Random(seed)

    def value(name: str) -> Any:
        if chosen.random() < 0.2:
            return None
        if chosen.random() < 0.002 or name == "plain":
            return chosen.choice(EXTREMES.get(name, [1, 2]))
        n = chosen.randrange(1_000_000)
        day = dt.date(2000, 1, 1) + dt.timedelta(days=n % 9_000)
        at = dt.datetime(2000, 1, 1) + dt.timedelta(seconds=n)
        return {"text": f"m{n:07}", "day": day, "at": at}.get(name, n)

    columns = {name: pa.array([value(name) for _ in range(rows)], TYPES[name]) for name in TYPES}
    return pa.table({"id": [f"t{number:06}" for number in range(first, first + rows)], **columns})


def wanted(*functions: tuple[str, str | None]) -> Aggregation:
    return Aggregation((), tuple(Function(op, column) for op, column in functions))


def known(graph: og.Graph, *functions: tuple[str, str | None], **request: Any) -> Any:
    source = ScanSource.of(graph.refresh().snapshot()._state, "Thing")
    columns = tuple(dict.fromkeys(column for _, column in functions if column))
    found = known_aggregates(source, ScanRequest(columns, **request), wanted(*functions))
    return None if found is None else [value for [value] in found]


def of_rows(graph: og.Graph, *functions: tuple[str, str | None]) -> list[pa.Scalar[Any]]:
    """The same, of all rows as they are read."""
    source = ScanSource.of(graph.refresh().snapshot()._state, "Thing")
    plan = plan_scan(source, ScanRequest())
    rows = pa.Table.from_batches(read_all(plan), plan.schema)
    step: dict[str, Any] = {"min": pc.min, "max": pc.max, "count": pc.count}
    return [
        pa.scalar(rows.num_rows) if column is None else step[op](rows.column(column))
        for op, column in functions
    ]


FUNCTIONS = [(op, name) for name in INDEXED for op in ("min", "max", "count")]


@pytest.mark.parametrize("rows", [1, 2, 90])
def test_a_few_values_and_nulls_on_one_page_are_known(tmp_path: Path, rows: int) -> None:
    graph = og.create(tmp_path / "g", SCHEMA)
    graph.write(things(rows, 0, rows), "Thing")
    graph.build_indexes()
    for function in FUNCTIONS:
        found, expected = known(graph, function), of_rows(graph, function)
        # Where all values are null, none is the least.
        assert found == (expected if expected[0].is_valid else None), function


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_is_what_the_rows_say(tmp_path: Path, seed: int) -> None:
    graph = og.create(tmp_path / "g", SCHEMA)
    graph.write(things(seed, 0, 12_000), "Thing")
    graph.build_indexes()
    asked = [("count_all", None), *FUNCTIONS]
    assert known(graph, *asked) == of_rows(graph, *asked)
    # What no index covers yet is found as well, and what was deleted is not.
    graph.write(things(seed + 10, 50_000, 300), "Thing")
    doomed = [value for op, name in FUNCTIONS[:2] for value in of_rows(graph, (op, name))]
    graph.delete("Thing", [str(value) for value in doomed])
    changed = things(seed + 20, 100, 50)
    graph.write(changed, "Thing", "merge")
    for function in FUNCTIONS:
        found = known(graph, function)
        assert found is None or found == of_rows(graph, function), function
    assert known(graph, ("count_all", None), *FUNCTIONS[:2]) is not None
    graph.build_indexes()
    assert known(graph, *asked) == of_rows(graph, *asked)


def test_what_is_not_known_is_no_answer(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", SCHEMA)
    assert known(graph, ("min", "id")) is None
    graph.write(things(0, 0, 100), "Thing")
    assert known(graph, ("min", "id")) is None
    graph.build_indexes()
    assert known(graph, ("min", "id"), ("count", "plain")) is None
    assert known(graph, ("min", "text")) is None
    assert known(graph, ("sum", "i")) is None
    assert known(graph, ("min", "id"), where="i > 3") is None
    assert known(graph, ("min", "id"), limit=3) is None
    [least] = known(graph, ("min", "id"))
    assert least.as_py() == "t000000"
    # Where all rows that the index has in its only page are gone, it says nothing of the others.
    graph.delete("Thing", [f"t{number:06}" for number in range(100)])
    assert known(graph, ("max", "id")) is None
    graph.write(things(1, 500, 1), "Thing")
    assert known(graph, ("max", "id")) in (None, [pa.scalar("t000500")])
