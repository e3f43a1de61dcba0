"""What holds for every schema, not only for those we thought of."""

from __future__ import annotations

import json
import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph_spark.errors import SchemaError
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.ir import hash_of_ir_value, ir_compact, ir_hash, ir_pretty
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.schema.printer import print_schema
from omnigraph_spark.schema.rust_text import debug_float, json_float, plain_float
from omnigraph_spark.schema.storable import check_storable
from tests.helpers.schema_cases import GOOD
from tests.helpers.schema_texts import random_schema_text

# No deadline: the first example builds the grammar. Derandomized: a run says the same tomorrow.
many = settings(max_examples=80, deadline=None, derandomize=True)
schema_texts = st.integers(0, 2**32).map(random_schema_text)


@many
@given(schema_texts)
def test_text_to_model_to_text_to_model_is_stable(text: str) -> None:
    schema = parse_schema(text)
    printed = print_schema(schema)
    again = parse_schema(printed)
    assert again == schema
    assert ir_pretty(again) == ir_pretty(schema)
    assert print_schema(again) == printed


@many
@given(schema_texts)
def test_the_compiled_schema_is_json_with_a_hash_that_survives_reading(text: str) -> None:
    schema = parse_schema(text)
    value = json.loads(ir_pretty(schema))
    assert value == json.loads(ir_compact(schema))
    assert hash_of_ir_value(value) == ir_hash(schema)


@many
@given(schema_texts)
def test_every_type_has_columns_a_repr_and_a_pickle(text: str) -> None:
    schema = parse_schema(text)
    check_storable(schema)
    for entity in schema.types():
        assert len(arrow_schema(entity).names) == len(set(arrow_schema(entity).names))
    assert str(schema).count("\n") == len(schema.nodes) + len(schema.edges)
    assert pickle.loads(pickle.dumps(schema)) == schema


@many
@given(st.sampled_from(sorted(GOOD.values())), st.data())
def test_a_damaged_text_is_read_or_refused_but_never_fails_otherwise(
    text: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(at + 3, len(text))))
    damaged = text[:at] + data.draw(st.text('@(){}:.,?"/*\\aA1 \n-', max_size=3)) + text[until:]
    try:
        schema = parse_schema(damaged)
    except SchemaError as error:
        line, column = getattr(error, "line", None), getattr(error, "column", None)
        assert line is not None
        assert column is not None
        assert 1 <= line <= damaged.count("\n") + 1
        assert 1 <= column <= len(damaged.split("\n")[line - 1]) + 1
    else:
        assert parse_schema(print_schema(schema)) == schema


@many
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_notation_of_a_float_reads_back_as_the_same_float(number: float) -> None:
    for text in (json_float(number), debug_float(number), plain_float(number)):
        assert repr(float(text)) == repr(number)
    assert "e" not in plain_float(number)
