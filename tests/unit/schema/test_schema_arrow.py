"""The Arrow schema of a dataset, as the engine creates it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from omnigraph_spark.names import TypeKey
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.columns import columns_of
from omnigraph_spark.schema.parser import parse_schema
from tests.helpers.golden import GOLDEN, Expected
from tests.helpers.schema_cases import GOOD


def test_a_node_has_its_id_then_its_properties_by_name() -> None:
    (node,) = parse_schema("node A { b: I32? a: String e: enum(x) v: Vector(2)? }").nodes
    expected: list[pa.Field[Any]] = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("a", pa.string(), nullable=False),
        pa.field("b", pa.int32()),
        pa.field("e", pa.string(), nullable=False),
        pa.field("v", pa.list_(pa.float32(), 2)),
    ]
    assert arrow_schema(node) == pa.schema(expected)


def test_an_edge_has_its_ends_after_its_id() -> None:
    (edge,) = parse_schema("node A {} edge E: A -> A { a: DateTime }").edges
    assert arrow_schema(edge).names == ["id", "src", "dst", "a"]
    assert arrow_schema(edge).field("a").type == pa.date64()


def test_a_blob_is_a_struct_of_two_with_the_name_of_lances_type() -> None:
    (node,) = parse_schema("node A { b: Blob }").nodes
    blob = arrow_schema(node).field("b")
    assert blob.type == pa.struct([("data", pa.large_binary()), ("uri", pa.string())])
    assert blob.metadata == {b"ARROW:extension:name": b"lance.blob.v2"}
    assert not blob.nullable


def test_only_blobs_carry_metadata() -> None:
    (node,) = parse_schema(GOOD["every scalar"]).nodes
    schema = arrow_schema(node)
    assert schema.metadata is None
    assert [field.name for field in schema if field.metadata] == ["k"]


def test_the_schemas_are_those_of_the_golden_graph_with_every_type() -> None:
    schema = parse_schema((GOLDEN / "empty" / "input" / "schema.pg").read_text(encoding="utf-8"))
    for key, table in Expected("empty").tables()["main"].items():
        entity = schema.get(TypeKey.parse(key))
        assert entity is not None
        ours = [
            f"{field.name}: {_shown(field)}{'' if field.nullable else ' not null'}"
            for field in arrow_schema(entity)
        ]
        assert ours == table["schema"]


def _shown(field: pa.Field[pa.DataType]) -> str:
    return "extension<lance.blob.v2<BlobType>>" if field.metadata else str(field.type)


@pytest.mark.parametrize("name", ["every scalar", "every scalar, nullable", "every list"])
def test_a_reader_finds_the_declared_types_in_the_columns(name: str) -> None:
    for entity in parse_schema(GOOD[name]).types():
        columns = columns_of(arrow_schema(entity), entity)
        declared = {prop.name: prop.type for prop in entity.properties}
        assert {column.name: column.type for column in columns[1:]} == declared
