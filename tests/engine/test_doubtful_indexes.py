"""Indexes that hold outdated values, as other tools leave them, never decide what is read."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.scan import ScanRequest, plan_scan
from omnigraph_spark.scan_source import ScanSource

FOLDER = "nodes/40d76f1f51639ec0"
SCHEMA = "node Person { name: String @key age: I32? @index }"


def people(ages: dict[str, int]) -> pa.Table:
    return pa.table({"name": list(ages), "age": pa.array(ages.values(), pa.int32())})


def found(graph: og.Graph, where: str) -> list[str]:
    rows = graph.refresh().snapshot().arrow("Person", columns=["name"], where=where)
    return sorted(map(str, rows.column("name").to_pylist()))


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """People whose indexes a plain Lance tool carried on after Ann and Bob became older."""
    graph = og.create(tmp_path / "g", SCHEMA)
    graph.write(people({"Ann": 0, "Bob": 1, "Cid": 2, "Dan": 3}), "Person")
    dataset = lance.dataset(f"{graph.root}/{FOLDER}")
    for column in ("id", "age"):
        dataset.create_scalar_index(column, "BTREE")
    graph.repair(force=True)
    graph.write(people({"Ann": 70, "Bob": 71}), "Person", "merge")
    lance.dataset(dataset.uri).optimize.optimize_indices(num_indices_to_merge=0)
    graph.repair(force=True)
    return graph.refresh()


def test_such_an_index_finds_rows_by_values_they_no_longer_have(graph: og.Graph) -> None:
    raw = lance.dataset(f"{graph.root}/{FOLDER}").to_table(filter="age = 0", columns=["name"])
    assert raw.column("name").to_pylist() == ["Ann"], "or there is nothing to guard against"


def test_a_filter_on_its_column_reads_the_rows_instead(graph: og.Graph) -> None:
    assert found(graph, "age = 0") == []
    assert found(graph, "age = 70") == ["Ann"]
    assert found(graph, "age <> 0") == ["Ann", "Bob", "Cid", "Dan"]
    assert found(graph, "AGE = 0 OR name = 'Dan'") == ["Dan"]


def test_a_deletion_takes_the_rows_that_match_and_no_others(graph: og.Graph) -> None:
    assert graph.delete("Person", where="age = 0") is None
    graph.delete("Person", where="age < 2 OR age = 71")
    assert found(graph, "age IS NOT NULL") == ["Ann", "Cid", "Dan"]


def test_a_lookup_by_id_still_goes_through_its_index(graph: og.Graph) -> None:
    source = ScanSource.of(graph.snapshot()._state, "Person")
    uses = {
        where: [task.use_index for task in plan_scan(source, ScanRequest(where=where)).tasks]
        for where in ("id = 'Ann'", "age = 0")
    }
    assert uses == {"id = 'Ann'": [True], "age = 0": [False]}
    assert found(graph, "id = 'Ann'") == ["Ann"]
