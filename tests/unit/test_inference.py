"""A schema from Arrow types: every type of the language, and clear refusals."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph_spark.errors import SchemaMismatchError, SchemaRuleError
from omnigraph_spark.inference import infer_schema
from omnigraph_spark.schema.parser import parse_schema


@pytest.mark.parametrize(
    ("arrow", "declared"),
    [
        (pa.string(), "String?"),
        (pa.large_string(), "String?"),
        (pa.dictionary(pa.int32(), pa.string()), "String?"),
        (pa.bool_(), "Bool?"),
        (pa.int8(), "I32?"),
        (pa.int32(), "I32?"),
        (pa.int64(), "I64?"),
        (pa.uint16(), "U32?"),
        (pa.uint32(), "U32?"),
        (pa.uint64(), "U64?"),
        (pa.decimal128(20, 0), "U64?"),
        (pa.float32(), "F32?"),
        (pa.float64(), "F64?"),
        (pa.date32(), "Date?"),
        (pa.date64(), "DateTime?"),
        (pa.timestamp("us", "UTC"), "DateTime?"),
        (pa.timestamp("ns"), "DateTime?"),
        (pa.binary(), "Blob?"),
        (pa.list_(pa.float32(), 3), "Vector(3)?"),
        (pa.list_(pa.float32()), "[F32]?"),
        (pa.list_(pa.string()), "[String]?"),
    ],
    ids=str,
)
def test_every_type_has_its_arrow_type(arrow: pa.DataType, declared: str) -> None:
    text = infer_schema({"Row": pa.schema([("value", arrow)])}, {}, {})
    schema = parse_schema(text)
    [node] = schema.nodes
    assert str(node.properties[0].type) == declared


@pytest.mark.parametrize(
    "arrow",
    [
        pa.struct([("a", pa.int32())]),
        pa.map_(pa.string(), pa.int32()),
        pa.list_(pa.list_(pa.int32())),
        pa.decimal128(10, 2),
        pa.time64("us"),
        pa.duration("s"),
        pa.null(),
        pa.list_(pa.binary()),
    ],
    ids=str,
)
def test_a_type_that_no_graph_holds_is_refused_by_column(arrow: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="column 'odd' of Row") as error:
        infer_schema({"Row": pa.schema([("fine", pa.int32()), ("odd", arrow)])}, {}, {})
    assert "cast the column or leave it out" in str(error.value)


def test_keys_ends_and_required_columns_are_declared() -> None:
    person = pa.schema(
        [
            pa.field("name", pa.string()),
            pa.field("age", pa.int32(), nullable=False),
            pa.field("id", pa.string()),
        ]
    )
    knows = pa.schema([("src", pa.string()), ("dst", pa.string()), ("since", pa.date32())])
    text = infer_schema(
        {"Person": person, "Place": pa.schema([("x", pa.int32()), ("y", pa.int32())])},
        {"Knows": (knows, "Person", "Place")},
        {"Person": "name", "Place": ["x", "y"]},
    )
    assert text.splitlines() == [
        "node Person {",
        "    name: String @key",
        "    age: I32",
        "}",
        "node Place {",
        "    x: I32",
        "    y: I32",
        "    @key(x, y)",
        "}",
        "edge Knows: Person -> Place {",
        "    since: Date?",
        "}",
    ]
    parse_schema(text)


def test_what_a_column_was_in_a_graph_it_is_again() -> None:
    field = pa.field("level", pa.string(), metadata={"omnigraph.type": "enum(high, low)?"})
    assert "level: enum(high, low)?" in infer_schema({"Row": pa.schema([field])}, {}, {})


def test_names_and_keys_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SchemaRuleError, match="column 'Full Name' of Row"):
        infer_schema({"Row": pa.schema([("Full Name", pa.string())])}, {}, {})
    with pytest.raises(SchemaRuleError, match="there is no column 'nam'"):
        infer_schema({"Row": pa.schema([("name", pa.string())])}, {}, {"Row": "nam"})
    with pytest.raises(SchemaRuleError, match="only node types have keys"):
        infer_schema({}, {}, {"Row": "nam"})
