"""Rows found by an index: which tasks find them, and when there is no look-up."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import lookups
from omnigraph_spark.lookups import plan_lookup
from omnigraph_spark.scan import ScanRequest, ScanSource, plan_scan, read_task

SCHEMA = """
node Person { name: String @key  age: I32? @index }
edge Knows: Person -> Person
"""


def people(*names: str, age: int = 7) -> pa.Table:
    return pa.table({"name": names, "age": pa.array([age] * len(names), pa.int32())})


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Three fragments of persons with indexes, then two that these do not cover."""
    graph = og.create(tmp_path / "g", SCHEMA)
    for letter in "abc":
        graph.write(people(*(f"{letter}{n}" for n in range(20))), "Person")
    graph.build_indexes()
    for letter in "de":
        graph.write(people(*(f"{letter}{n}" for n in range(20))), "Person")
    return graph.refresh()


def source(graph: og.Graph) -> ScanSource:
    return ScanSource.of(graph.refresh().snapshot()._state, "Person")


def found(graph: og.Graph, where: str, **values: int) -> list[str] | None:
    request = ScanRequest(columns=("name",), where=where, keys=tuple(values))
    lookup = plan_lookup(source(graph), request, values)
    if lookup is None:
        return None
    batches = [batch for task in lookup.attempt() for batch in read_task(task)]
    names = sorted(str(name) for batch in batches for name in batch.column("name").to_pylist())
    # Reading stops where the index would have counted too many.
    assert lookup.finds_few() == (len(names) <= lookup.most_rows)
    return names if lookup.finds_few() else None


def test_rows_are_found_whether_or_not_the_index_covers_them(graph: og.Graph) -> None:
    assert found(graph, "id = 'b7'", id=1) == ["b7"]
    assert found(graph, "id = 'e7'", id=1) == ["e7"]
    assert found(graph, "id IN ('a1', 'd2', 'nobody')", id=3) == ["a1", "d2"]
    assert found(graph, "id = 'a1' AND age = 8", id=1) == []


def test_one_task_reads_what_the_index_covers_and_others_the_rest(graph: og.Graph) -> None:
    request = ScanRequest(where="id = 'b7'", keys=("id",), split_bytes=1, spread_over=1_000_000)
    pieces = [task.fragment_ids for task in plan_scan(source(graph), request).tasks]
    assert len(pieces[0]) == 3
    assert sorted(id_ for piece in pieces for id_ in piece) == [0, 1, 2, 3, 4]


def test_without_an_index_of_the_column_there_is_no_look_up(graph: og.Graph) -> None:
    assert found(graph, "name = 'b7'", name=1) is None
    assert found(graph, "age > 3") is None


def test_many_rows_are_no_look_up(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MOST_ROWS", 60)
    assert found(graph, "age = 7", age=1) is None
    assert found(graph, "age = 9", age=1) == []
    monkeypatch.setattr(lookups, "MOST_UNCOVERED_ROWS", 39)
    assert found(graph, "id = 'b7'", id=1) is None


def test_an_attempt_reads_one_row_more_than_may_be_and_keeps_a_limit_below_that(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "MOST_ROWS", 10)
    for limit, read in ((None, 11), (5, 5), (50, 11)):
        request = ScanRequest(("name",), "age = 7", limit=limit, keys=("age",))
        lookup = plan_lookup(source(graph), request, {"age": 1})
        assert lookup is not None
        rows = [sum(b.num_rows for b in read_task(task)) for task in lookup.attempt()]
        # The index covers one task's fragments; those of another are read as they are.
        assert rows == ([read] if limit else [11, 11])


def test_an_index_that_may_be_outdated_is_not_asked(graph: og.Graph) -> None:
    graph.write(people("a1", age=70), "Person", "merge")
    dataset = lance.dataset(str(next(Path(graph.root, "nodes").iterdir())))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    graph.repair(force=True)
    assert found(graph, "age = 70", age=1) is None
    assert found(graph, "id = 'a1'", id=1) == ["a1"]
