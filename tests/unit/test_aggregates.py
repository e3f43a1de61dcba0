"""Partial aggregates, added up as Spark would add them up, against plain Python over all rows."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_spark import aggregates
from omnigraph_spark.aggregates import Aggregation, Function, partial_aggregates

SCHEMA = pa.schema(
    [
        pa.field("k", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("x", pa.float64()),
        pa.field("d", pa.date32()),
        pa.field("at", pa.timestamp("ms", "UTC")),
    ]
)
ALL = (
    Function("count_all"),
    Function("count", "n"),
    Function("sum", "n"),
    Function("min", "n"),
    Function("max", "d"),
    Function("min", "k"),
    Function("max", "k", of_length=True),
    Function("min", "at"),
)
BIG = (1 << 63) - 1


def rows(count: int, keys: int, largest: int = 1_000, seed: int = 1) -> list[dict[str, Any]]:
    made = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if made.random() < 0.1 else value

    return [
        {
            "k": maybe(f"kéy{made.randrange(keys)}"),
            "n": maybe(made.randint(-largest, largest)),
            "x": maybe(float(made.randint(-99, 99))),
            "d": maybe(made.randint(-100_000, 100_000)),
            # Beyond the years that Python's own times have.
            "at": maybe(made.randint(-(1 << 50), 1 << 50)),
        }
        for _ in range(count)
    ]


def batches(given: list[dict[str, Any]], size: int) -> list[pa.RecordBatch]:
    out = []
    for start in range(0, len(given), size):
        part = given[start : start + size]
        columns = {f.name: pa.array([row[f.name] for row in part], _plain(f)) for f in SCHEMA}
        arrays = [columns[f.name].view(f.type) for f in SCHEMA]
        out.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return out


def _plain(field: pa.Field[Any]) -> pa.DataType:
    return {"d": pa.int32(), "at": pa.int64()}.get(field.name, field.type)


def value(function: Function, row: dict[str, Any]) -> Any:
    if function.column is None:
        return 1
    found = row[function.column]
    return len(found) if function.of_length and found is not None else found


def combined(function: Function, values: Iterable[Any]) -> Any:
    present = [each for each in values if each is not None]
    if function.op.startswith("count"):
        return len(present)
    return {"sum": sum, "min": min, "max": max}[function.op](present) if present else None


def expected(given: list[dict[str, Any]], wanted: Aggregation) -> dict[Any, list[Any]]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    if not wanted.groups:
        groups[()] = given
    for row in given if wanted.groups else ():
        groups.setdefault(tuple(row[name] for name in wanted.groups), []).append(row)
    return {
        key: [combined(f, (value(f, row) for row in of_key)) for f in wanted.functions]
        for key, of_key in groups.items()
    }


def added_up(parts: list[pa.RecordBatch], wanted: Aggregation) -> dict[Any, list[Any]]:
    """What Spark makes of the parts; a count is a sum of counts."""
    plain = [_as_numbers(part) for part in parts]
    width = len(wanted.groups)
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for part in plain:
        for row in part:
            groups.setdefault(row[:width], []).append(row[width:])
    out: dict[Any, list[Any]] = {}
    for key, partial in groups.items():
        again = [Function("sum") if f.op.startswith("count") else f for f in wanted.functions]
        columns = list(zip(*partial, strict=True))
        out[key] = [combined(f, column) for f, column in zip(again, columns, strict=True)]
    return out


def _as_numbers(part: pa.RecordBatch) -> list[tuple[Any, ...]]:
    columns = [
        c.view(pa.int64()) if pa.types.is_timestamp(c.type) else c
        for c in (c.view(pa.int32()) if pa.types.is_date(c.type) else c for c in part.columns)
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("groups", [(), ("k",), ("k", "d"), ("at",)])
@pytest.mark.parametrize(
    ("count", "keys", "largest"),
    [(0, 1, 1), (1, 1, 1), (5_000, 7, 1_000), (5_000, 4_000, 10), (4_000, 3, BIG)],
)
def test_parts_add_up_to_the_whole(
    groups: tuple[str, ...], count: int, keys: int, largest: int
) -> None:
    given = rows(count, keys, largest)
    wanted = Aggregation(groups, ALL)
    parts = list(partial_aggregates(batches(given, 700), SCHEMA, wanted))
    assert added_up(parts, wanted) == expected(given, wanted)


def test_few_groups_make_few_rows() -> None:
    wanted = Aggregation(("k",), ALL)
    parts = list(partial_aggregates(batches(rows(5_000, 7), 500), SCHEMA, wanted))
    assert sum(part.num_rows for part in parts) == 8


def test_no_partial_sum_leaves_64_bits() -> None:
    wanted = Aggregation((), (Function("sum", "n"),))
    given = [{"k": None, "n": BIG, "x": None, "d": None, "at": None}] * 10
    parts = list(partial_aggregates(batches(given, 3), SCHEMA, wanted))
    sums = [row["c0"] for part in parts for row in part.to_pylist() if row["c0"] is not None]
    assert sum(sums) == 10 * BIG
    assert max(sums) == BIG


def test_sums_of_doubles_are_doubles() -> None:
    wanted = Aggregation(("k",), (Function("sum", "x"),))
    given = rows(900, 3)
    parts = list(partial_aggregates(batches(given, 100), SCHEMA, wanted))
    assert added_up(parts, wanted) == expected(given, wanted)
    assert parts[0].schema.field("c1").type == pa.float64()


def test_long_texts_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "_WAITING_BYTES", 10_000)
    given = [{**row, "k": f"{place % 40:01000}"} for place, row in enumerate(rows(800, 1))]
    wanted = Aggregation(("k",), (Function("count_all"), Function("sum", "n")))
    parts = list(partial_aggregates(batches(given, 200), SCHEMA, wanted))
    assert len(parts) > 1
    assert added_up(parts, wanted) == expected(given, wanted)
