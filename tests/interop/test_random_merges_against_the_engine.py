"""Random branch histories, merged by us and by the engine: same conflicts, or same rows.

A few here; ``OMNIGRAPH_RANDOM_MERGES=200`` runs more.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import MergeConflictsError
from tests.engine.writing import assert_whole
from tests.helpers.engine import run_engine
from tests.helpers.merge_cells import SCHEMA, knows, people, rows_of
from tests.interop.test_merging_against_the_engine import conflicts_in

HISTORIES = int(os.environ.get("OMNIGRAPH_RANDOM_MERGES", "4"))
NODES, EDGES = 14, 14


@dataclass
class Work:
    """What one branch does, a commit each: deletions, and rows that are given."""

    gone: list[str] = field(default_factory=list)
    gone_edges: list[str] = field(default_factory=list)
    nodes: dict[str, int] = field(default_factory=dict)
    edges: dict[str, tuple[str, str, int]] = field(default_factory=dict)


def make_work(chance: random.Random, share: int | None) -> list[Work]:
    """Commits of one branch; with a share, about rows that the other branch leaves alone.

    Values only grow, so that nothing is changed back: a type of which nothing is left to merge is
    an error to the engine.
    """
    works = []
    alive = {f"n{number}" for number in range(NODES)}
    for commit in range(chance.randrange(1, 4)):
        work, value = Work(), 1 + chance.randrange(2) + 10 * commit
        mine = [n for n in range(NODES) if share is None or n % 2 == share]
        work.gone = [f"n{n}" for n in chance.sample(mine, chance.randrange(2))]
        work.gone_edges = [f"e{n}" for n in chance.sample(mine, chance.randrange(2))]
        for n in chance.sample(mine, chance.randrange(1, 4)):
            work.nodes[chance.choice([f"n{n}", f"m{n}"])] = value
        alive = (alive - set(work.gone)) | set(work.nodes)
        for n in chance.sample(mine, chance.randrange(1, 4)):
            ends = chance.choice(sorted(alive)), chance.choice(sorted(alive))
            work.edges[chance.choice([f"e{n}", f"f{n}"])] = (*ends, value)
        works.append(work)
    return works


def do(graph: og.Graph, branch: str, works: list[Work]) -> None:
    graph.create_branch(branch)
    bound = graph.as_branch(branch)
    for work in works:
        with bound.transaction() as tx:
            tx.delete("Person", ids=work.gone)
            tx.delete("Knows", ids=work.gone_edges)
        with bound.transaction() as tx:
            tx.merge("Person", people(work.nodes))
            tx.merge("Knows", knows(work.edges))


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_random_histories_merge_as_with_the_engine(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    graph = og.create(tmp_path / "g", SCHEMA, actor="ann")
    nodes = dict.fromkeys((f"n{number}" for number in range(NODES)), 0)
    with graph.transaction() as tx:
        tx.append("Person", people(nodes))
        ends = [(chance.choice(list(nodes)), chance.choice(list(nodes))) for _ in range(EDGES)]
        tx.append("Knows", knows({f"e{n}": (*pair, 0) for n, pair in enumerate(ends)}))
    apart = seed % 2
    source, target = (make_work(chance, side if apart else None) for side in (0, 1))
    do(graph, "s", source)
    for branch in ("ours", "engines"):
        do(graph, branch, target)
    told = run_engine("branch", "merge", "--uri", tmp_path / "g", "s", "--into", "engines")
    planned = graph.preview_merge("s", into="ours")
    if told.returncode == 0:
        graph.merge("s", into="ours")
        assert planned.can_merge
        assert rows_of(graph, "ours") == rows_of(graph, "engines")
        assert_whole(graph.as_branch("ours"))
        assert graph.preview_merge("s", into="ours").outcome == "up_to_date"
        return
    with pytest.raises(MergeConflictsError) as refused:
        graph.merge("s", into="ours")
    found = {(each.type_key, each.id, str(each.kind)) for each in refused.value.conflicts}
    assert found == conflicts_in(told.stderr), told.stderr
