"""What comparing and merging branches costs in bytes: what differs, not what there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph_spark as og
from benchmarks.branches import BYTES_BOUND, KNOWS, OURS, PERSON, THEIRS, measured, write_graph

pytestmark = pytest.mark.slow

ROWS = 300_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Two branches that differ in one row of a hundred; what is read only once is read already."""
    small = write_graph(tmp_path_factory.mktemp("small") / "graph", 2_000, "near")
    for work in WORKS.values():
        work(small)
    return write_graph(tmp_path_factory.mktemp("large") / "graph", ROWS, "near")


def diff(graph: og.Graph) -> None:
    for key in (PERSON, KNOWS):
        found = graph.diff(OURS, THEIRS, type=key)
        assert sum(batch.num_rows for batch in found.batches(key)) > 0


def merge(graph: og.Graph) -> None:
    graph.create_branch("merged", from_=OURS)
    commit = graph.merge(THEIRS, into="merged")
    assert commit.merged_parent_id is not None


WORKS: dict[str, Callable[[og.Graph], object]] = {
    "diff": diff,
    "preview": lambda graph: graph.preview_merge(THEIRS, into=OURS),
    "merge": merge,
}


@pytest.mark.parametrize("name", WORKS)
def test_of_branches_that_differ_in_one_row_of_a_hundred_a_twentieth_is_read(
    large: og.Graph, name: str
) -> None:
    read = measured(lambda: WORKS[name](large)).read_bytes
    both = sum(
        path.stat().st_size
        for type in ("nodes", "edges")
        for path in (Path(large.root) / type).rglob("data/*.lance")
    )
    # Nearly all files belong to both branches.
    assert 0 < read / (2 * both) <= BYTES_BOUND
