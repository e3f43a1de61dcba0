"""What recovery and health cost in requests when there is nothing to do, which is nearly always."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

import omnigraph_spark as og
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.slow


def schema(types: int) -> str:
    return "\n".join(f"node T{number} {{ name: String @key }}" for number in range(types))


def cost(s3: S3Server, action: Callable[[], object]) -> Counter[str]:
    s3.reset()
    action()
    return s3.counts()


def graph_of(s3: S3Server, types: int) -> og.Graph:
    root = f"s3://{s3.make_bucket()}/g"
    graph = og.create(root, schema(types), storage=s3.storage_options)
    for number in range(types):
        graph.write(pa.table({"name": ["a"]}), f"T{number}")
    return graph


def test_opening_for_writing_costs_two_listings_more_than_for_reading(s3: S3Server) -> None:
    graph = graph_of(s3, 1)
    reading, writing = (
        cost(s3, lambda mode=mode: og.open(graph.root, mode=mode, storage=s3.storage_options))
        for mode in ("r", "rw")
    )
    assert writing - reading == {"LIST": 2}
    assert reading - writing == {}


@pytest.mark.parametrize("types", [1, 4])
def test_health_costs_a_few_requests_per_type(s3: S3Server, types: int) -> None:
    graph = graph_of(s3, types)
    graph.health()
    counted = cost(s3, graph.health)
    # Per type: its branches, its newest version, its folders, the files of data. Once: sidecars,
    # staged files, what is left of the lock, branches, folders of both kinds, the newest manifest.
    assert counted["LIST"] == 4 * types + 7
    assert counted["GET"] + counted["HEAD"] <= 2


def test_health_costs_the_same_after_many_commits(s3: S3Server) -> None:
    graph = graph_of(s3, 2)
    graph.health()
    before = cost(s3, graph.health)
    for number in range(6):
        graph.write(pa.table({"name": [f"n{number}"]}), "T0")
    graph.health()
    assert cost(s3, graph.health) == before
