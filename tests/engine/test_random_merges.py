"""Laws of merging over random branch histories, without the engine."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import MergeConflictsError
from tests.engine.writing import assert_whole
from tests.helpers.merge_cells import SCHEMA, knows, people, rows_of
from tests.interop.test_random_merges_against_the_engine import EDGES, NODES, do, make_work

pytestmark = pytest.mark.slow

HISTORIES = int(os.environ.get("OMNIGRAPH_RANDOM_MERGES", "3"))
Rows = dict[str, dict[str, tuple[object, ...]]]


def write_graph(root: Path, chance: random.Random) -> og.Graph:
    graph = og.create(root, SCHEMA, actor="ann")
    nodes = dict.fromkeys((f"n{number}" for number in range(NODES)), 0)
    with graph.transaction() as tx:
        tx.append("Person", people(nodes))
        ends = [(chance.choice(list(nodes)), chance.choice(list(nodes))) for _ in range(EDGES)]
        tx.append("Knows", knows({f"e{n}": (*pair, 0) for n, pair in enumerate(ends)}))
    return graph


def applied(graph: og.Graph, before: str, after: str, rows: Rows) -> Rows:
    """Apply what differs between two branches to rows."""
    result = {key: dict(of_type) for key, of_type in rows.items()}
    for key, of_type in result.items():
        for found in graph.diff(before, after, type=key).arrow().to_pylist():
            if found["after"] is None:
                of_type.pop(found["id"])
            else:
                of_type[found["id"]] = tuple(found["after"].values())
    return result


def conflicts_of(plan: Any) -> set[tuple[str, str, str]]:
    return {(each.type_key, each.id, str(each.kind)) for each in plan.conflicts}


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_laws_of_diff_and_merge(seed: int, tmp_path: Path) -> None:
    """Diffs apply; disjoint branches merge in either order; what was merged is up to date."""
    chance = random.Random(1000 + seed)
    graph = write_graph(tmp_path / "g", chance)
    works = [make_work(chance, share) for share in (0, 1)]
    for name, order in (("one", (0, 1)), ("other", (1, 0))):
        for number in order:
            do(graph, f"{name}{number}", works[number])
    base, left, right = (rows_of(graph, name) for name in ("main", "one0", "one1"))
    assert graph.diff("one0", "one0").arrow().num_rows == 0
    assert applied(graph, "main", "one0", base) == left
    assert applied(graph, "one0", "one1", left) == right
    assert applied(graph, "one1", "main", right) == base
    # 1 into 0, and 0 into 1: the same rows, or the same conflicts.
    plans = [
        graph.preview_merge("one1", into="one0"),
        graph.preview_merge("other0", into="other1"),
    ]
    assert conflicts_of(plans[0]) == conflicts_of(plans[1])
    if not plans[0].can_merge:
        with pytest.raises(MergeConflictsError):
            graph.merge("one1", into="one0")
        assert rows_of(graph, "one0") == left
        return
    counts = {key: vars(each) for key, each in plans[0].counts.items()}
    graph.merge("one1", into="one0")
    graph.merge("other0", into="other1")
    assert rows_of(graph, "one0") == rows_of(graph, "other1")
    assert applied(graph, "main", "one0", base) == rows_of(graph, "one0")
    assert graph.preview_merge("one1", into="one0").outcome == "up_to_date"
    assert graph.merge("one0", into="one1").id
    assert rows_of(graph, "one1") == rows_of(graph, "one0")
    assert sum(sum(each.values()) for each in counts.values()) > 0
    for branch in ("one0", "one1", "other1"):
        assert_whole(graph.as_branch(branch))
