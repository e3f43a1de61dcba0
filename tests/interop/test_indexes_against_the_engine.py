"""Indexes that the engine's Lance wrote, in formats of its own, are carried on or built anew."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.maintenance.indexing import IndexAction
from omnigraph_spark.storage.datasets import DatasetAddress, open_dataset
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers.engine import run_engine

pytestmark = pytest.mark.engine


def test_texts_that_the_engine_indexed_are_indexed_anew_with_those_that_came(
    tmp_path: Path,
) -> None:
    root = tmp_path / "graph"
    graph = og.create(root, "node Doc { name: String @key  title: String? @index }")
    graph.write(pa.table({"name": ["a"], "title": ["first words"]}), "Doc")
    lines = tmp_path / "rows.jsonl"
    row = {"type": "Doc", "data": {"name": "b", "title": "second words"}}
    lines.write_text(json.dumps(row), "utf-8")
    run_engine("load", root, "--data", lines, "--mode", "merge", check=True)
    graph.refresh()
    kinds = {(row["columns"][0], row["kind"]) for row in indexes(graph)}
    assert ("title", "Inverted") in kinds, "the engine indexed it"

    graph.write(pa.table({"name": ["c"], "title": ["third words"]}), "Doc")
    built = {build.column: build.action for build in graph.build_indexes()}
    assert built["title"] is IndexAction.REBUILT
    graph.write(pa.table({"name": ["d"], "title": ["fourth words"]}), "Doc")
    built = {build.column: build.action for build in graph.build_indexes()}
    assert built["title"] is IndexAction.EXTENDED
    assert {row["id"] for row in graph.refresh().snapshot().arrow("Doc").to_pylist()} == set("abcd")


def indexes(graph: og.Graph) -> list[dict[str, object]]:
    entry = graph.snapshot().entries["node:Doc"]
    dataset = open_dataset(
        DatasetAddress(graph.root, entry.path, entry.dataset_branch),
        entry.dataset_version,
        StorageSettings(),
    )
    return [vars(index) for index in dataset.indexes()]
