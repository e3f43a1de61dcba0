"""The one place that maps types to Spark: schemas with their metadata, and the casts of batches.

Spark has no unsigned integers, fixed-size lists or date64, and from 4.2 on it refuses a batch whose
Arrow schema is not exactly the one it derives from the Spark schema. So the Spark schema comes from
the columns, the Arrow schema from the Spark schema by Spark's own function, and batches are cast to
that; nothing here guesses.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

from omnigraph_spark.arrow_rows import public_columns
from omnigraph_spark.blobs import Blobs, is_blob
from omnigraph_spark.errors import ColumnNotFoundError, SchemaMismatchError, UnsupportedError
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import Scalar

_TYPES: dict[Scalar, DataType] = {
    Scalar.STRING: StringType(),
    Scalar.BOOL: BooleanType(),
    Scalar.I32: IntegerType(),
    Scalar.I64: LongType(),
    # The next wider type that holds every value.
    Scalar.U32: LongType(),
    Scalar.U64: DecimalType(20, 0),
    Scalar.F32: FloatType(),
    Scalar.F64: DoubleType(),
    Scalar.DATE: DateType(),
    # An instant, not a wall-clock time: the session's zone only affects how it is shown.
    Scalar.DATETIME: TimestampType(),
    Scalar.VECTOR: ArrayType(FloatType()),
}
#: The column metadata that holds the declared type.
_DECLARED = "omnigraph.type"
_DESCRIPTOR = StructType(
    [
        StructField("kind", StringType()),
        StructField("size", LongType()),
        StructField("uri", StringType()),
    ]
)

# Spark 4.1 has no such parameter and always means UTC.
_ARROW_ARGUMENTS: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)


def spark_schema(columns: Sequence[Column], blobs: Blobs) -> StructType:
    """Return the Spark schema of a type's public rows.

    Column metadata carries what Spark has no place for: the declared type, key, enum values, vector
    dimension. A description is the column's comment, which DESCRIBE shows.
    """
    return StructType([_field(column, blobs) for column in public_columns(columns, blobs)])


def spark_schema_of_arrow(schema: pa.Schema) -> StructType:
    """Return the Spark schema of a table about the graph, whose Arrow types Spark has as well."""
    return from_arrow_schema(schema)


def spark_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of batches with this Spark schema."""
    arrow: pa.Schema = to_arrow_schema(schema, **_ARROW_ARGUMENTS)
    return arrow


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a user's DataFrame, with what its columns say of a graph."""
    fields = []
    for field in schema.fields:
        if isinstance(field.dataType, CharType | VarcharType):
            # Tasks are given them as text, which pyspark does not know.
            field = StructField(field.name, StringType(), field.nullable, field.metadata)
        try:
            [arrow] = spark_arrow_schema(StructType([field]))
        except PySparkTypeError as error:
            given = field.dataType.simpleString()
            raise SchemaMismatchError(
                "a DataFrame", field.name, given, "of no type a graph can hold: cast it"
            ) from error
        declared = field.metadata.get(_DECLARED)
        fields.append(arrow if declared is None else arrow.with_metadata({_DECLARED: declared}))
    return pa.schema(fields)


def to_spark(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Cast public batches to Spark's Arrow schema, exactly or not at all.

    What to do is decided from the first batch: all batches of one scan have the same schema.
    """
    changed: list[tuple[int, pa.Field[Any]]] | None = None
    for batch in batches:
        if not schema.names:
            yield batch.select([])
            continue
        if changed is None:
            changed = _changed(batch.schema, schema)
        arrays = batch.columns
        for index, field in changed:
            arrays[index] = _cast(arrays[index], field)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def with_whole_structs(given: StructType, full: StructType) -> StructType:
    """Return a schema whose structs have all their parts, of which a planner may want some."""
    whole = {f.name: f for f in full.fields if isinstance(f.dataType, StructType)}
    return StructType([whole.get(field.name, field) for field in given.fields])


def check_user_schema(given: StructType, full: StructType, type_name: str) -> list[str]:
    """Return the columns a user's own schema names, if each is a column of the type as it is.

    Names are case-sensitive, as in the graph. A column may be declared nullable though it is not.
    """
    actual = {field.name: field for field in full.fields}
    for field in given.fields:
        if field.name not in actual:
            raise ColumnNotFoundError(type_name, field.name, tuple(actual))
        if not _accepts(field, actual[field.name]):
            raise SchemaMismatchError(
                type_name, field.name, _text(field), _text(actual[field.name])
            )
        if given.names.count(field.name) > 1:
            raise SchemaMismatchError(type_name, field.name, "several columns", "one")
    return [field.name for field in given.fields]


def _field(column: Column, blobs: Blobs) -> StructField:
    metadata: dict[str, Any] = {_DECLARED: str(column.type)}
    if column.key:
        metadata["omnigraph.key"] = True
    if column.type.enum_values is not None:
        metadata["omnigraph.enum"] = list(column.type.enum_values)
    if column.type.dimension is not None:
        metadata["omnigraph.dimension"] = column.type.dimension
    if column.embed_source is not None:
        metadata["omnigraph.embed"] = column.embed_source
    if column.description is not None:
        metadata["comment"] = column.description
    return StructField(column.name, _spark_type(column, blobs), column.type.nullable, metadata)


def _spark_type(column: Column, blobs: Blobs) -> DataType:
    if is_blob(column):
        return BinaryType() if blobs is Blobs.BYTES else _DESCRIPTOR
    scalar = _TYPES[column.type.scalar]
    return ArrayType(scalar) if column.type.list else scalar


def _changed(source: pa.Schema, target: pa.Schema) -> list[tuple[int, pa.Field[Any]]]:
    if source.names != target.names:
        raise ValueError(f"columns {source.names} do not fit {target.names}")
    # Arrow calls lists equal whatever their items are named; Spark names them `element`.
    return [
        (index, field)
        for index, field in enumerate(target)
        if not source.field(index).type.equals(field.type, check_metadata=True)
    ]


def _cast(array: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
    if isinstance(array, pa.StructArray) and isinstance(field.type, pa.StructType):
        wanted = list(field.type)
        parts = [array.field(part.name).cast(part.type) for part in wanted]
        return pa.StructArray.from_arrays(parts, fields=wanted, mask=array.is_null())
    try:
        return array.cast(field.type)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(
            f"a value of column {field.name!r} outside the range of Spark's type ({error})",
            "leave the column out with the option columns, or read it without Spark",
        ) from error


def _accepts(given: StructField, actual: StructField) -> bool:
    weaker = given.nullable or not actual.nullable
    return weaker and _accepts_type(given.dataType, actual.dataType)


def _accepts_type(given: DataType, actual: DataType) -> bool:
    if isinstance(given, ArrayType) and isinstance(actual, ArrayType):
        weaker = given.containsNull or not actual.containsNull
        return weaker and _accepts_type(given.elementType, actual.elementType)
    if isinstance(given, StructType) and isinstance(actual, StructType):
        return given.names == actual.names and all(map(_accepts, given.fields, actual.fields))
    return bool(given == actual)


def _text(field: StructField) -> str:
    return f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
