"""Branches merged with Spark: the same rows as without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark.session import workspace
from tests.engine.writing import (
    ages,
    all_ids,
    assert_whole,
    edges,
    people,
    write_staffed,
)


def branched(root: Path) -> og.Graph:
    """The staffed graph after changes on main and on dev, of nodes, edges and single columns."""
    write_staffed(root)
    graph = og.open(root)
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    dev.write(people(Ann=31, Dan=1), "Person", mode="merge")
    dev.write(edges(k9="Ann-Dan"), "Knows")
    dev.delete("Person", ["Cid"])
    graph.write(people(Bob=50, Eve=2), "Person", mode="merge")
    graph.write(edges(w9="Bob-Acme"), "WorksAt")
    return graph


@pytest.mark.slow
def test_many_rows_are_merged_by_spark_jobs_of_the_session_at_hand(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = branched(tmp_path / "here"), branched(tmp_path / "there")
    plans = [here.preview_merge("dev")]
    here.merge("dev")
    made = []
    monkeypatch.setattr(workspace, "SPARK_ROWS", 0)
    begin = workspace.SparkWorkspace.__init__

    def begun(self: workspace.SparkWorkspace, session: SparkSession) -> None:
        made.append(session)
        begin(self, session)

    monkeypatch.setattr(workspace.SparkWorkspace, "__init__", begun)
    plans.append(there.preview_merge("dev"))
    there.merge("dev")
    assert len(made) == 2
    assert plans[0].counts == plans[1].counts
    assert all_ids(here.refresh()) == all_ids(there.refresh())
    assert ages(here) == ages(there) == {"Ann": 31, "Bob": 50, "Dan": 1, "Eve": 2}
    assert_whole(there)
