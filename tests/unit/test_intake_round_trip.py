"""What was read can be written back, and then the stored rows are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.blobs import Blobs
from omnigraph_spark.errors import SchemaMismatchError
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.columns import columns_of
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.session.types import spark_arrow_schema, spark_schema, to_spark
from omnigraph_spark.writing.intake import Intake
from tests.helpers import golden
from tests.helpers.exported import exported_value

CASES = ("rich", "history", "schema-evolved", "optimized")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], og.Graph]:
    graphs: dict[str, og.Graph] = {}
    folder = tmp_path_factory.mktemp("golden")

    def open_once(case: str) -> og.Graph:
        if case not in graphs:
            graphs[case] = og.open(str(golden.unpack(case, folder)))
        return graphs[case]

    return open_once


def _types(graph: og.Graph) -> list[EntityType]:
    return [
        declared for declared in graph.schema.types() if str(declared.type_key) in graph.entries
    ]


def _stored(graph: og.Graph, declared: EntityType) -> list[dict[str, Any]]:
    """Read what is stored past our reader; bytes of blobs are left to the test."""
    entry = graph.entries[str(declared.type_key)]
    dataset = lance.dataset(f"{graph.root}/{entry.path}").checkout_version(
        (entry.dataset_branch, entry.dataset_version)
    )
    return _plain(dataset.to_table(columns=_without_blobs(declared)))


def _without_blobs(declared: EntityType) -> list[str]:
    return [field.name for field in arrow_schema(declared) if not pa.types.is_struct(field.type)]


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    columns = {name: [exported_value(v) for v in table[name]] for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _written_back(declared: EntityType, rows: pa.Table) -> pa.Table:
    intake = Intake(declared, rows.schema, "overwrite")
    stored = [intake.convert(batch) for batch in rows.to_batches(max_chunksize=2)]
    assert [str(violation) for violation in intake.violations()] == []
    return pa.Table.from_batches(stored, intake.schema)


def _as_spark_sends_it(declared: EntityType, rows: pa.Table) -> pa.Table:
    """Cast as our reader does for Spark, which is how Spark hands rows to a writer."""
    columns = columns_of(arrow_schema(declared), declared)
    arrow = spark_arrow_schema(spark_schema(columns, Blobs.BYTES))
    batches = list(to_spark(rows.to_batches(), arrow))
    nullable = pa.schema([field.with_nullable(True) for field in arrow])
    return pa.Table.from_batches(batches, arrow).cast(nullable)


@pytest.mark.parametrize("shape", ["as read", "from Spark"])
@pytest.mark.parametrize("case", CASES)
def test_every_type_of_a_graph_can_be_written_back(
    case: str, shape: str, opened: Callable[[str], og.Graph]
) -> None:
    graph = opened(case)
    for declared in _types(graph):
        rows = graph.snapshot().arrow(str(declared.type_key), blobs="bytes")
        given = rows if shape == "as read" else _as_spark_sends_it(declared, rows)
        back = _written_back(declared, given)
        assert back.schema.equals(arrow_schema(declared), check_metadata=True)
        assert _plain(back.select(_without_blobs(declared))) == _stored(graph, declared)
        for name in set(back.column_names) - set(_without_blobs(declared)):
            blobs = [blob and blob["data"] for blob in back[name].to_pylist()]
            assert blobs == rows[name].to_pylist()


def test_the_stored_form_is_taken_as_well(opened: Callable[[str], og.Graph]) -> None:
    graph = opened("rich")
    for declared in _types(graph):
        rows = graph.snapshot().arrow(str(declared.type_key), blobs="bytes")
        stored = _written_back(declared, rows)
        assert _written_back(declared, stored).equals(stored)


def test_descriptors_of_blobs_are_not_their_bytes(opened: Callable[[str], og.Graph]) -> None:
    graph = opened("rich")
    (declared,) = (
        declared
        for declared in _types(graph)
        if len(_without_blobs(declared)) < len(arrow_schema(declared))
    )
    rows = graph.snapshot().arrow(str(declared.type_key))
    with pytest.raises(SchemaMismatchError, match="which takes bytes"):
        Intake(declared, rows.schema, "overwrite")
