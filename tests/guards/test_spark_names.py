"""Names of Spark's types in the `properties` table are those of the types themselves."""

from __future__ import annotations

import pytest

from omnigraph_spark.blobs import Blobs
from omnigraph_spark.errors import SchemaError
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import Property, PropertyType, Scalar
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.session.types import spark_schema
from omnigraph_spark.tables import spark_type_name


def declared(text: str) -> PropertyType | None:
    """The type of a property written like this, or None when the language has no such type."""
    try:
        (node,) = parse_schema(f"node Thing {{ x: {text} }}").nodes
    except SchemaError:
        return None
    prop = node.property("x")
    assert isinstance(prop, Property)
    return prop.type


TEXTS = [str(scalar) for scalar in Scalar if scalar is not Scalar.VECTOR]
TEXTS += ["Vector(4)", "enum(a, b)"]
TYPES = {
    text: type_
    for text in [*TEXTS, *(f"[{text}]" for text in TEXTS)]
    if (type_ := declared(text)) is not None
}


def test_every_scalar_of_the_language_is_among_the_types_and_most_lists_are() -> None:
    assert {type_.scalar for type_ in TYPES.values()} == set(Scalar)
    assert sum(type_.list for type_ in TYPES.values()) >= 10


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("text", TYPES)
def test_the_name_of_a_type_is_what_spark_calls_it(text: str, nullable: bool) -> None:
    type_ = declared(f"{text}?") if nullable else TYPES[text]
    assert type_ is not None
    column = Column("x", type_)
    (field,) = spark_schema([column], Blobs.DESCRIPTOR).fields
    assert spark_type_name(column) == field.dataType.simpleString()
