"""The cost model of `benchmarks/README.md` against requests that were counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_spark as og
from benchmarks.costs import commit_requests, scan_requests, staging_requests, table
from omnigraph_spark.scan import ScanRequest, plan_scan, read_task
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.storage.lance_session import lance_session
from omnigraph_spark.storage.parts import ScanCost
from tests.helpers.s3 import S3Server

ROW = "node Row { a: I64  b: I64  text: String }"
EVERYTHING = ("id", "a", "b", "text")
LARGE = 200_000


def counted(s3: S3Server, action: Callable[[], object]) -> int:
    s3.reset()
    action()
    return s3.counts().total()


def assert_models(model: int, requests: int) -> None:
    """A model promises no less than there is, and not much more."""
    assert requests <= model <= 3 * requests


def rows(count: int) -> pa.Table:
    random = np.random.default_rng(count)
    numbers = {name: random.integers(0, 1 << 60, count) for name in ("a", "b")}
    return pa.table({**numbers, "text": numbers["a"].astype(str)})


def graph_of(s3: S3Server, schema: str) -> og.Graph:
    return og.create(f"s3://{s3.make_bucket()}/g", schema, storage=s3.storage_options)


@pytest.mark.slow
@pytest.mark.parametrize("types", [1, 2, 5])
def test_a_small_commit_takes_the_requests_of_the_model(s3: S3Server, types: int) -> None:
    names = [f"T{number}" for number in range(5)]
    graph = graph_of(s3, "\n".join(f"node {name} {{ name: String @key }}" for name in names))

    def commit(turn: int, chosen: list[str]) -> None:
        with graph.transaction() as tx:
            for name in chosen:
                tx.append(name, pa.table({"name": [f"n{turn}"]}))

    for turn in range(3):
        commit(turn, names)
    graph.optimize()
    commit(3, names)
    assert_models(commit_requests(types, 2), counted(s3, lambda: commit(4, names[:types])))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [("a",), EVERYTHING])
@pytest.mark.parametrize(("files", "in_each"), [(1, 1_000), (6, 1_000), (2, LARGE)])
def test_a_scan_takes_the_requests_of_the_model(
    s3: S3Server, files: int, in_each: int, columns: tuple[str, ...]
) -> None:
    graph = graph_of(s3, ROW)
    for _ in range(files):
        graph.write(rows(in_each), "Row", check="rows")
    source = ScanSource.of(graph.refresh().snapshot()._state, "Row")
    # What the writer still knows of its files no reader knows.
    lance_session.cache_clear()
    cost = ScanCost()

    def scan() -> None:
        tasks = plan_scan(source, ScanRequest(columns=columns)).tasks
        read = sum(batch.num_rows for task in tasks for batch in read_task(task, cost))
        assert read == files * in_each

    requests = counted(s3, scan)
    assert_models(scan_requests(files, cost.bytes), requests)


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, LARGE])
def test_staging_takes_the_requests_of_the_model(s3: S3Server, count: int) -> None:
    graph = graph_of(s3, ROW)
    s3.reset()
    graph.write(rows(count), "Row", check="rows")
    asked = [
        each for each in s3.requests() if each.kind in ("POST", "PUT") and "/data/" in each.path
    ]
    staged = [each for each in asked if "/__manifest/" not in each.path]
    source = ScanSource.of(graph.refresh().snapshot()._state, "Row")
    [file] = source.open().fragments()
    assert_models(staging_requests(1, file.size_bytes), len(staged))


def test_the_readme_prints_the_model_of_ten_billion_edges() -> None:
    readme = Path("benchmarks", "README.md").read_text()
    assert table(edges=10_000_000_000, edge_bytes=60, executors=200) in readme
