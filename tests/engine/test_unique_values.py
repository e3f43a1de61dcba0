"""Unique values of a small write are looked for, not compared with all rows there are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import ConstraintViolationError
from omnigraph_spark.storage.datasets import PinnedDataset
from omnigraph_spark.writing import workspace

SCHEMA = """
node Person {
    name: String @key
    mail: String? @unique
    badge: I64? @unique
    city: String?
    flat: I32?
    @unique(city, flat)
    @unique(flat, badge)
}
"""
TYPES = pa.schema(
    {
        "name": pa.string(),
        "mail": pa.string(),
        "badge": pa.int64(),
        "city": pa.string(),
        "flat": pa.int32(),
    }
)
Row = dict[str, Any]


def rows(*given: Row) -> pa.Table:
    return pa.Table.from_pylist(list(given), schema=TYPES)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create(tmp_path / "g", SCHEMA)
    graph.write(
        rows({"name": "ann", "mail": "a@x", "badge": 1, "city": "Rome", "flat": 1}), "Person"
    )
    graph.write(rows({"name": "bob", "mail": 'it\'s "b"', "city": "Oslo"}), "Person")
    graph.write(rows({"name": "cy", "badge": 3, "flat": 3}), "Person")
    return graph


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The filters of all scans, None for one that reads all rows."""
    filters: list[str | None] = []
    batches = PinnedDataset.batches

    def noted(dataset: PinnedDataset, *given: Any, **scan: Any) -> Any:
        filters.append(scan["filter"])
        return batches(dataset, *given, **scan)

    monkeypatch.setattr(PinnedDataset, "batches", noted)
    return filters


@pytest.mark.parametrize(
    "taken",
    [
        {"mail": "a@x"},
        {"mail": 'it\'s "b"'},
        {"badge": 3},
        {"city": "Rome", "flat": 1},
        {"flat": 3, "badge": 3},
        {"mail": "new", "badge": 9, "city": "Rome", "flat": 1},
    ],
)
def test_a_value_that_is_taken_is_refused(graph: og.Graph, taken: Row) -> None:
    with pytest.raises(ConstraintViolationError, match="unique"):
        graph.write(rows({"name": "new", **taken}), "Person")


@pytest.mark.parametrize(
    "free",
    [{}, {"mail": "A@x"}, {"badge": 2}, {"city": "Rome"}, {"city": "Rome", "flat": 2}, {"flat": 1}],
)
def test_a_value_that_is_free_or_not_whole_is_taken(graph: og.Graph, free: Row) -> None:
    graph.write(rows({"name": "new", **free}), "Person")
    assert graph.entity("Person", "new") is not None


def test_values_that_are_not_given_cost_no_look_at_rows_that_are_there(
    graph: og.Graph, scans: list[str | None]
) -> None:
    graph.write(rows({"name": "dan", "city": "Rome"}, {"name": "eve", "flat": 1}), "Person")
    assert scans == []


def test_texts_are_looked_for_by_a_filter(graph: og.Graph, scans: list[str | None]) -> None:
    graph.write(rows({"name": "dan", "mail": "d@x", "city": "Rome", "flat": 4}), "Person")
    [where] = scans
    assert where is not None
    assert "`mail` IN ('d@x')" in where
    assert "`city` IN ('Rome')" in where


def test_long_texts_and_other_types_are_compared_with_all_rows(
    graph: og.Graph, scans: list[str | None]
) -> None:
    graph.write(rows({"name": "dan", "mail": "d" * (2 << 20)}), "Person")
    assert set(scans) == {None}
    scans.clear()
    graph.write(rows({"name": "eve", "badge": 5}), "Person")
    assert scans == [None]


@pytest.mark.parametrize("seed", range(8))
def test_looking_for_values_finds_what_reading_all_rows_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Few values, so that most writes meet some that are taken, by one rule or several."""
    drawn = random.Random(seed)
    outcomes = set()
    graph = og.create(tmp_path / "g", SCHEMA)

    def told(table: pa.Table, mode: str) -> list[str]:
        return sorted(map(str, graph.check(table, "Person", mode=mode)))

    for step in range(12):
        mode = drawn.choice(["append", "merge"])
        table = rows(
            *(
                {
                    "name": f"p{number}" if mode == "merge" else f"s{step}-{number}",
                    "mail": drawn.choice([None, *(f"it's {n}" for n in range(30))]),
                    "badge": drawn.choice([None, *range(40)]),
                    "city": drawn.choice([None, "x", "y"]),
                    "flat": drawn.choice([None, *range(12)]),
                }
                for number in drawn.sample(range(20), 2)
            )
        )
        found = told(table, mode)
        with monkeypatch.context() as patched:
            patched.setattr(workspace, "_LOOKUP_VALUES", 0)
            assert found == told(table, mode)
        outcomes.add(bool(found))
        if not found:
            graph.write(table, "Person", mode=mode)
    assert outcomes == {True, False}
