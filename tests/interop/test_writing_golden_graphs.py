"""Graphs that the engine wrote, evolved, optimized and cleaned: written here, read there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.schema.model import EntityType, KeyConstraint, NodeType, UniqueConstraint
from tests.engine.writing import assert_whole
from tests.helpers.engine import engine_json, run_engine

pytestmark = pytest.mark.engine


def copies(graph: og.Graph, entity: EntityType) -> pa.Table:
    """The rows of a type under new ids; what has to be unique is made so, or left out."""
    table = graph.snapshot().arrow(str(entity.type_key), blobs="bytes")
    unique = {
        name
        for constraint in entity.constraints
        if isinstance(constraint, UniqueConstraint | KeyConstraint)
        for name in constraint.columns
    }
    for name in {"id", *unique} - {"src", "dst"}:
        at = table.schema.get_field_index(name)
        field = table.schema.field(at)
        if pa.types.is_string(field.type):
            values = table.column(name).to_pylist()
            changed = [None if value is None else f"copy-{value}" for value in values]
            table = table.set_column(at, field, pa.array(changed, field.type))
        elif field.nullable:
            table = table.set_column(at, field, pa.nulls(len(table), field.type))
    return table


def check(graph: og.Graph, folder: Path) -> None:
    assert_whole(graph)
    graph.export_jsonl(folder / "ours.jsonl")
    theirs = run_engine("export", graph.root, "--branch", graph.branch, check=True)
    assert (folder / "ours.jsonl").read_text(encoding="utf-8") == theirs.stdout
    tables = engine_json("repair", graph.root)["tables"]
    assert {table["classification"] for table in tables} == {"no_drift"}


@pytest.mark.parametrize(
    "case", ["history", "optimized", "schema-evolved", "cleaned-branch", "conflicts"]
)
def test_every_type_is_written_in_every_mode(
    golden_in_place: Callable[[str], Path], tmp_path: Path, case: str
) -> None:
    graph = og.open(golden_in_place(case))
    entities = [entity for entity in graph.schema.types() if graph.snapshot().rows(entity.name)]
    before = {key: entry.rows for key, entry in graph.entries.items()}
    keys = [str(entity.type_key) for entity in entities]
    nodes = [entity for entity in entities if isinstance(entity, NodeType)]
    # Copies of all nodes; merging them again changes nothing; then they go.
    with graph.transaction() as tx:
        for entity in nodes:
            tx.append(str(entity.type_key), copies(graph, entity))
    check(graph, tmp_path)
    with graph.transaction() as tx:
        for key in keys:
            tx.merge(key, graph.snapshot().arrow(key, blobs="bytes"))
    assert tx.commit is not None
    assert all(change.inserted == 0 for change in tx.commit.changes.values())
    check(graph, tmp_path)
    with graph.transaction() as tx:
        for key in keys:
            tx.overwrite(key, graph.snapshot().arrow(key, blobs="bytes"))
    check(graph, tmp_path)
    with graph.transaction() as tx:
        for entity in nodes:
            tx.delete(str(entity.type_key), where="id like 'copy-%'")
    assert {key: entry.rows for key, entry in graph.entries.items()} == before
    check(graph, tmp_path)
