"""Diffs of graphs that the engine wrote, against a comparison of all their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import OmnigraphError
from tests.helpers import golden

CASES = ["branches", "history", "optimized", "rich", "schema-evolved"]


def rows_by_id(snapshot: og.Snapshot, key: str) -> dict[str, dict[str, Any]]:
    """Every row of a type, blobs as bytes."""
    if key not in snapshot.entries:
        return {}
    return {row["id"]: row for row in snapshot.arrow(key, blobs="bytes").to_pylist()}


def compared(before: og.Snapshot, after: og.Snapshot) -> dict[tuple[str, str], Any]:
    """What a comparison of all rows finds, by type and id: the change and the columns."""
    found: dict[tuple[str, str], Any] = {}
    for key in {*before.entries, *after.entries}:
        old, new = rows_by_id(before, key), rows_by_id(after, key)
        for id_ in {*old, *new}:
            if id_ not in old:
                found[key, id_] = ("added", set())
            elif id_ not in new:
                found[key, id_] = ("removed", set())
            else:
                names = {*old[id_], *new[id_]}
                unequal = {name for name in names if old[id_].get(name) != new[id_].get(name)}
                if unequal:
                    found[key, id_] = ("changed", unequal)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_diff_finds_what_a_comparison_of_all_rows_finds(case: str, tmp_path: Path) -> None:
    graph = og.open(golden.unpack(case, tmp_path), mode="r")
    snapshots = [graph.at(branch=branch.name) for branch in graph.branches()]
    for commit in graph.history():
        try:
            snapshot = graph.at(commit=commit.id)
            for key in snapshot.entries:
                snapshot.arrow(key, columns=["id"], limit=1)
        except OmnigraphError:
            continue
        snapshots.append(snapshot)
    # Every one against the newest, both ways, and against its neighbour.
    pairs = [(each, snapshots[0]) for each in snapshots[1:6]]
    pairs += [(snapshots[0], each) for each in snapshots[1:4]]
    pairs += list(zip(snapshots[2:6], snapshots[1:5], strict=False))
    assert pairs or case == "rich"
    differing = 0
    for before, after in pairs:
        diff = og.Diff(before._state, after._state).arrow()
        assert isinstance(diff, pa.Table)
        found = {
            (row["type_key"], row["id"]): (row["change"], set(row["columns"]))
            for row in diff.to_pylist()
        }
        assert len(found) == diff.num_rows
        assert found == compared(before, after)
        differing += len(found)
    assert differing or case == "optimized"
