"""`columns_of`: storage is the truth, the declaration only adds to it."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.names import TypeKind
from omnigraph_spark.schema.columns import Column, Role, columns_of
from omnigraph_spark.schema.model import (
    Annotation,
    EdgeType,
    KeyConstraint,
    NodeType,
    Property,
    PropertyType,
    Scalar,
)
from tests.helpers.golden import unpack

ID = pa.field("id", pa.string(), nullable=False)


def described(text: str) -> tuple[Annotation, ...]:
    return (Annotation("description", text),)


def test_every_stored_type_has_its_name_in_the_schema_language(tmp_path: Path) -> None:
    everything = lance.dataset(unpack("rich", tmp_path) / "nodes" / "651f3a92741d9520")
    columns = columns_of(everything.schema, None)
    assert {column.name: str(column.type) for column in columns} == {
        "id": "String",
        "l_bool": "[Bool]?",
        "l_date": "[Date]?",
        "l_datetime": "[DateTime]?",
        "l_f32": "[F32]?",
        "l_f64": "[F64]?",
        "l_i32": "[I32]?",
        "l_i64": "[I64]?",
        "l_string": "[String]",
        "l_u32": "[U32]?",
        "l_u64": "[U64]?",
        "o_bool": "Bool?",
        "o_date": "Date?",
        "o_datetime": "DateTime?",
        "o_enum": "String?",
        "o_f32": "F32?",
        "o_f64": "F64?",
        "o_i32": "I32?",
        "o_i64": "I64?",
        "o_string": "String?",
        "o_u32": "U32?",
        "o_u64": "U64?",
        "o_vector": "Vector(2)?",
        "p_bool": "Bool",
        "p_date": "Date",
        "p_datetime": "DateTime",
        "p_enum": "String",
        "p_f32": "F32",
        "p_f64": "F64",
        "p_i32": "I32",
        "p_i64": "I64",
        "p_string": "String",
        "p_u32": "U32",
        "p_u64": "U64",
        "p_vector": "Vector(4)",
        "slug": "String",
    }
    assert [column.name for column in columns] == everything.schema.names


def test_a_blob_is_known_by_lance_s_type_and_by_the_bare_struct(tmp_path: Path) -> None:
    docs = lance.dataset(unpack("rich", tmp_path) / "nodes" / "e0b75f19922bd915")
    two_children = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
    bare = pa.field("payload", two_children, True, {"ARROW:extension:name": "lance.blob.v2"})
    for schema in (docs.schema, pa.schema([ID, bare])):
        payload = next(c for c in columns_of(schema, None) if c.name == "payload")
        assert payload.type == PropertyType(Scalar.BLOB, nullable=True)


def test_a_declaration_adds_enum_values_key_description_and_embedding() -> None:
    declared = NodeType(
        "Doc",
        properties=(
            Property("slug", PropertyType(Scalar.STRING), described("short name")),
            Property("state", PropertyType(Scalar.STRING, enum_values=("draft", "final"))),
            Property("text", PropertyType(Scalar.STRING)),
            Property(
                "vec", PropertyType(Scalar.VECTOR, dimension=3), (Annotation("embed", "text"),)
            ),
        ),
        constraints=(KeyConstraint(("slug",)),),
    )
    stored = pa.schema(
        [
            ID,
            pa.field("slug", pa.string(), nullable=False),
            pa.field("state", pa.string(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field("vec", pa.list_(pa.field("item", pa.float32()), 3), nullable=False),
        ]
    )
    enum = PropertyType(Scalar.STRING, enum_values=("draft", "final"))
    assert columns_of(stored, declared) == (
        Column("id", PropertyType(Scalar.STRING), Role.ID),
        Column("slug", PropertyType(Scalar.STRING), key=True, description="short name"),
        Column("state", enum),
        Column("text", PropertyType(Scalar.STRING)),
        Column("vec", PropertyType(Scalar.VECTOR, dimension=3), embed_source="text"),
    )


@pytest.mark.parametrize(
    "declared_type",
    [
        PropertyType(Scalar.I64),
        PropertyType(Scalar.STRING, list=True),
        PropertyType(Scalar.VECTOR, dimension=3),
    ],
)
def test_a_declaration_of_another_storage_type_adds_nothing(declared_type: PropertyType) -> None:
    declared = NodeType("Doc", properties=(Property("x", declared_type, described("of today")),))
    stored = pa.schema([ID, pa.field("x", pa.string())])
    assert columns_of(stored, declared)[1] == Column("x", PropertyType(Scalar.STRING, True))


def test_a_declaration_of_the_same_vector_type_but_another_dimension_adds_nothing() -> None:
    declared_type = PropertyType(Scalar.VECTOR, dimension=4)
    declared = NodeType("Doc", properties=(Property("v", declared_type, described("of today")),))
    stored = pa.schema([ID, pa.field("v", pa.list_(pa.float32(), 3))])
    assert columns_of(stored, declared)[1].description is None


def test_nullability_is_what_is_stored_not_what_is_declared() -> None:
    declared = NodeType("Doc", properties=(Property("x", PropertyType(Scalar.STRING)),))
    stored = pa.schema([ID, pa.field("x", pa.string(), nullable=True)])
    assert columns_of(stored, declared)[1].type.nullable


def test_columns_the_schema_does_not_declare_any_more_stay_readable() -> None:
    stored = pa.schema([ID, pa.field("old", pa.int32())])
    names = [column.name for column in columns_of(stored, NodeType("Doc"))]
    assert names == ["id", "old"]


def test_the_ends_of_an_edge_have_roles_and_properties_of_a_node_called_so_do_not() -> None:
    stored = pa.schema([ID, pa.field("src", pa.string()), pa.field("dst", pa.string())])
    edge = [Role.ID, Role.SRC, Role.DST]
    node = [Role.ID, Role.PROPERTY, Role.PROPERTY]
    assert [c.role for c in columns_of(stored, EdgeType("Knows"))] == edge
    assert [c.role for c in columns_of(stored, NodeType("Hop"))] == node
    assert [c.role for c in columns_of(stored, None)] == edge
    assert [c.role for c in columns_of(stored, None, TypeKind.NODE)] == node
    other_order = pa.schema([stored.field("id"), stored.field("dst"), stored.field("src")])
    assert [c.role for c in columns_of(other_order, None)] == node


@pytest.mark.parametrize(
    "arrow", [pa.int8(), pa.float16(), pa.list_(pa.list_(pa.int32())), pa.list_(pa.float64(), 2)]
)
def test_a_stored_type_outside_the_language_is_refused_by_name(arrow: pa.DataType) -> None:
    with pytest.raises(UnsupportedError, match="column 'odd' of stored type"):
        columns_of(pa.schema([ID, pa.field("odd", arrow)]), None)
