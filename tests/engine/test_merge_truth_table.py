"""The merge truth table (RS-45): what becomes of every pair of changes, told without the engine."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import MergeConflictsError
from tests.engine.writing import assert_whole
from tests.helpers.merge_cells import (
    CELLS,
    Cell,
    Conflicts,
    Op,
    broken_rules,
    row_conflicts,
    rows_of,
    without_conflicts,
    write_base,
    write_side,
)

Rows = Mapping[str, Mapping[str, tuple[object, ...]]]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return write_base(tmp_path_factory.mktemp("cells") / "graph")


def conflicts_of(graph: og.Graph, source: str, target: str) -> Conflicts:
    with pytest.raises(MergeConflictsError) as refused:
        graph.merge(source, into=target)
    found = refused.value.conflicts
    assert refused.value.count == len(found)
    return {(each.type_key, each.id, str(each.kind)) for each in found}


def merged_rows(base: Rows, source: Rows, target: Rows) -> dict[str, dict[str, object]]:
    """What a merge without conflicts leaves: the source's rows where it changed them."""
    return {
        key: {
            id_: (source if source[key].get(id_) != base[key].get(id_) else target)[key].get(id_)
            for id_ in base[key].keys() | source[key].keys() | target[key].keys()
        }
        for key in base
    }


def there(rows: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    return {
        key: {id_: row for id_, row in of_type.items() if row is not None}
        for key, of_type in rows.items()
    }


def test_there_are_49_cells_for_nodes_and_for_edges() -> None:
    pairs = {(cell.about, cell.source, cell.target) for cell in CELLS}
    assert len(pairs) == 2 * len(Op) ** 2 == 98


@pytest.mark.slow
def test_every_cell_ends_as_the_table_says(graph: og.Graph) -> None:
    """RS-45: rows in conflict first, then rules, then what merges, row for row."""
    before = graph.refresh().snapshot().manifest_version
    cells: list[Cell] = CELLS
    for stage, expected in (("rows", row_conflicts(cells)), ("rules", broken_rules(cells))):
        write_side(graph, f"{stage}-s", cells, "source")
        write_side(graph, f"{stage}-t", cells, "target")
        assert conflicts_of(graph, f"{stage}-s", f"{stage}-t") == expected
        cells = without_conflicts(cells, expected)
    assert len(cells) > 49
    write_side(graph, "merge-s", cells, "source")
    write_side(graph, "merge-t", cells, "target")
    base, source, target = (rows_of(graph, branch) for branch in ("main", "merge-s", "merge-t"))
    plan = graph.preview_merge("merge-s", into="merge-t")
    commit = graph.merge("merge-s", into="merge-t")
    assert rows_of(graph, "merge-t") == there(merged_rows(base, source, target))
    assert_whole(graph.as_branch("merge-t"))
    assert rows_of(graph, "merge-s") == source
    assert {key: vars(counts) for key, counts in plan.counts.items()} == {
        key: {name: getattr(made, name) for name in ("inserted", "updated", "deleted")}
        for key, made in commit.changes.items()
    }
    assert graph.refresh().snapshot().manifest_version == before
