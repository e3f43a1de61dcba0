"""The type table of Spark: schemas, their metadata, exact casts, a user's own schema. No JVM."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from omnigraph_spark.arrow_rows import public_schema, to_public
from omnigraph_spark.blobs import Blobs
from omnigraph_spark.errors import ColumnNotFoundError, SchemaMismatchError, UnsupportedError
from omnigraph_spark.schema.columns import Column, Role, columns_of
from omnigraph_spark.schema.model import PropertyType, Scalar
from omnigraph_spark.session.types import (
    check_user_schema,
    spark_arrow_schema,
    spark_schema,
    spark_schema_of_arrow,
    to_spark,
)
from tests.helpers.golden import unpack

pytestmark = pytest.mark.smoke

UTC = dt.UTC
DESCRIPTOR = "struct<kind:string,size:bigint,uri:string>"


def column(kind: PropertyType, name: str = "x", **more: Any) -> Column:
    return Column(name, kind, **more)


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def cast_one(array: pa.Array[Any], kind: PropertyType, blobs: Blobs = Blobs.DESCRIPTOR) -> Any:
    """Send one column all the way from its public form to Spark's."""
    columns = [column(kind)]
    schema = spark_arrow_schema(spark_schema(columns, blobs))
    batch = pa.RecordBatch.from_arrays([array], schema=public_schema(columns, blobs))
    (cast,) = to_spark([batch], schema)
    assert cast.schema.equals(schema, check_metadata=True)
    return cast.column(0)


@pytest.mark.parametrize(
    ("kind", "spark"),
    [
        (PropertyType(Scalar.STRING), "string"),
        (PropertyType(Scalar.STRING, enum_values=("a", "b")), "string"),
        (PropertyType(Scalar.BOOL), "boolean"),
        (PropertyType(Scalar.I32), "int"),
        (PropertyType(Scalar.I64), "bigint"),
        (PropertyType(Scalar.U32), "bigint"),
        (PropertyType(Scalar.U64), "decimal(20,0)"),
        (PropertyType(Scalar.F32), "float"),
        (PropertyType(Scalar.F64), "double"),
        (PropertyType(Scalar.DATE), "date"),
        (PropertyType(Scalar.DATETIME), "timestamp"),
        (PropertyType(Scalar.VECTOR, dimension=3), "array<float>"),
        (PropertyType(Scalar.BLOB), DESCRIPTOR),
        (PropertyType(Scalar.U64, list=True), "array<decimal(20,0)>"),
        (PropertyType(Scalar.DATETIME, list=True), "array<timestamp>"),
        (PropertyType(Scalar.STRING, list=True), "array<string>"),
    ],
    ids=str,
)
@pytest.mark.parametrize("nullable", [False, True])
def test_every_type_has_its_spark_type(kind: PropertyType, spark: str, nullable: bool) -> None:
    kind = PropertyType(kind.scalar, nullable, kind.list, kind.enum_values, kind.dimension)
    (field,) = spark_schema([column(kind)], Blobs.DESCRIPTOR).fields
    assert (field.dataType.simpleString(), field.nullable) == (spark, nullable)
    assert field.metadata["omnigraph.type"] == str(kind)


def test_blobs_are_descriptors_bytes_or_absent() -> None:
    columns = [column(PropertyType(Scalar.STRING), "id"), column(PropertyType(Scalar.BLOB), "b")]
    types = {blobs: spark_schema(columns, blobs).simpleString() for blobs in Blobs}
    assert types == {
        Blobs.DESCRIPTOR: f"struct<id:string,b:{DESCRIPTOR}>",
        Blobs.BYTES: "struct<id:string,b:binary>",
        Blobs.NONE: "struct<id:string>",
    }


def test_column_metadata_says_what_spark_has_no_place_for() -> None:
    columns = [
        column(PropertyType(Scalar.STRING), "id", role=Role.ID),
        column(PropertyType(Scalar.STRING), "slug", key=True, description="It's short"),
        column(PropertyType(Scalar.STRING, True, enum_values=("a", "b")), "state"),
        column(PropertyType(Scalar.VECTOR, dimension=4), "vec", embed_source="slug"),
    ]
    metadata = {f.name: f.metadata for f in spark_schema(columns, Blobs.DESCRIPTOR).fields}
    assert metadata == {
        "id": {"omnigraph.type": "String"},
        "slug": {"omnigraph.type": "String", "omnigraph.key": True, "comment": "It's short"},
        "state": {"omnigraph.type": "enum(a, b)?", "omnigraph.enum": ["a", "b"]},
        "vec": {
            "omnigraph.type": "Vector(4)",
            "omnigraph.dimension": 4,
            "omnigraph.embed": "slug",
        },
    }


def test_every_type_of_the_engine_s_graph_becomes_exactly_spark_s_arrow(tmp_path: Path) -> None:
    stored = lance.dataset(unpack("rich", tmp_path) / "nodes" / "651f3a92741d9520")
    columns = columns_of(stored.schema, None)
    schema = spark_schema(columns, Blobs.DESCRIPTOR)
    expected = spark_arrow_schema(schema)
    public = (to_public(batch, columns, Blobs.DESCRIPTOR) for batch in stored.to_batches())
    (batch,) = to_spark(public, expected)
    batch.validate(full=True)
    assert batch.schema.equals(expected, check_metadata=True)
    bare, full = sorted(batch.to_pylist(), key=lambda row: row["slug"])
    assert full["p_u32"] == 2**32 - 1
    assert full["p_u64"] == Decimal(2**64 - 1)
    assert full["l_u64"] == [Decimal(2**64 - 1)]
    assert full["p_datetime"] == dt.datetime(2026, 6, 11, 12, 34, 56, 789_000, tzinfo=UTC)
    assert full["l_datetime"][1] == dt.datetime(1970, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC)
    assert full["l_bool"] == [True, False, None]
    assert full["p_vector"] == [1.0, 2.5, -3.0, 0.0]
    assert bare["o_vector"] is None
    assert bare["l_string"] == []


def test_the_arrow_schema_is_the_one_spark_itself_expects() -> None:
    schema = struct(
        a=ArrayType(TimestampType()), b=DecimalType(20, 0), c=StructType([]), d=LongType()
    ).add("e", StringType(), nullable=False)
    try:
        own = to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        own = to_arrow_schema(schema)
    assert spark_arrow_schema(schema).equals(own, check_metadata=True)
    assert own.field("a").type == pa.list_(pa.field("element", pa.timestamp("us", "UTC")))
    assert not own.field("e").nullable


def test_a_vector_with_null_rows_becomes_a_list_with_null_rows() -> None:
    vectors = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))
    kind = PropertyType(Scalar.VECTOR, True, dimension=2)
    lists = cast_one(vectors.slice(1), kind)
    assert lists.to_pylist() == [None, [3.0, 4.0]]
    assert lists.type.value_field.name == "element"


def test_unsigned_extremes_are_exact() -> None:
    u64 = cast_one(pa.array([0, 2**64 - 1, None], pa.uint64()), PropertyType(Scalar.U64, True))
    assert u64.to_pylist() == [Decimal(0), Decimal(18446744073709551615), None]
    u32 = cast_one(pa.array([0, 2**32 - 1, None], pa.uint32()), PropertyType(Scalar.U32, True))
    assert u32.to_pylist() == [0, 4294967295, None]


def test_a_time_spark_cannot_hold_is_refused_by_column() -> None:
    year_500_000 = pa.array([15_716_188_800_000_000], pa.timestamp("ms", "UTC"))
    with pytest.raises(UnsupportedError, match=r"column 'x' outside the range .* option columns"):
        cast_one(year_500_000, PropertyType(Scalar.DATETIME))


def test_columns_that_fit_already_are_not_copied() -> None:
    texts = pa.array(["a", None])
    cast = cast_one(texts, PropertyType(Scalar.STRING, True))
    assert [b and b.address for b in cast.buffers()] == [b and b.address for b in texts.buffers()]


def test_a_projection_without_columns_keeps_the_row_count() -> None:
    batch = pa.record_batch({"x": [1, 2, 3]}).select([])
    (cast,) = to_spark([batch], spark_arrow_schema(StructType([])))
    assert (cast.num_rows, cast.num_columns) == (3, 0)


def test_a_batch_with_other_columns_is_refused() -> None:
    schema = spark_arrow_schema(struct(a=LongType()))
    with pytest.raises(ValueError, match=r"columns \['b'\] do not fit \['a'\]"):
        list(to_spark([pa.record_batch({"b": [1]})], schema))


def test_no_batches_are_no_batches() -> None:
    assert list(to_spark([], spark_arrow_schema(struct(a=LongType())))) == []


def test_tables_about_the_graph_keep_times_in_utc_and_lists() -> None:
    arrow = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("rows", pa.int64()),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("types", pa.list_(pa.field("item", pa.string()))),
        ]
    )
    schema = spark_schema_of_arrow(arrow)
    assert schema.simpleString() == "struct<id:string,rows:bigint,at:timestamp,types:array<string>>"
    assert [field.nullable for field in schema.fields] == [False, True, True, True]


FULL = spark_schema(
    [
        column(PropertyType(Scalar.STRING), "id"),
        column(PropertyType(Scalar.I32, True), "age"),
        column(PropertyType(Scalar.VECTOR, True, dimension=2), "vec"),
        column(PropertyType(Scalar.BLOB, True), "blob"),
    ],
    Blobs.DESCRIPTOR,
)


@pytest.mark.parametrize(
    "given",
    [
        struct(age=IntegerType()),
        struct(age=IntegerType(), id=StringType()),
        StructType().add("id", StringType(), nullable=False),
        struct(vec=ArrayType(FloatType())),
        struct(blob=struct(kind=StringType(), size=LongType(), uri=StringType())),
    ],
    ids=lambda given: given.simpleString(),
)
def test_a_user_s_schema_chooses_columns(given: StructType) -> None:
    assert check_user_schema(given, FULL, "node:Person") == given.names


def test_an_empty_schema_chooses_no_column() -> None:
    assert check_user_schema(StructType([]), FULL, "node:Person") == []


@pytest.mark.parametrize("name", ["agee", "Age", "_rowid", "id`; drop", ""])
def test_a_user_s_schema_with_an_unknown_column_is_refused(name: str) -> None:
    given = StructType([StructField(name, StringType())])
    with pytest.raises(ColumnNotFoundError) as caught:
        check_user_schema(given, FULL, "node:Person")
    assert caught.value.column == name


@pytest.mark.parametrize(
    ("field", "given", "actual"),
    [
        (StructField("age", StringType()), "string", "int"),
        (StructField("vec", ArrayType(StringType())), "array<string>", "array<float>"),
        (StructField("vec", ArrayType(FloatType(), False)), "array<float>", "array<float>"),
        (StructField("blob", StringType()), "string", DESCRIPTOR),
        (
            StructField("blob", StructType([StructField("size", StringType())])),
            "struct<size:string>",
            DESCRIPTOR,
        ),
    ],
)
def test_a_user_s_schema_of_another_type_is_refused(
    field: StructField, given: str, actual: str
) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        check_user_schema(StructType([field]), FULL, "node:Person")
    assert (caught.value.column, caught.value.given, caught.value.actual) == (
        field.name,
        given,
        actual,
    )


def test_a_user_s_schema_names_a_column_once() -> None:
    twice = struct(age=IntegerType()).add("age", IntegerType())
    with pytest.raises(SchemaMismatchError, match="given as several columns but is one"):
        check_user_schema(twice, FULL, "node:Person")


def test_a_user_s_schema_may_not_promise_what_storage_does_not() -> None:
    with pytest.raises(SchemaMismatchError, match="given as int not null but is int"):
        check_user_schema(
            StructType().add("age", IntegerType(), nullable=False), FULL, "node:Person"
        )
