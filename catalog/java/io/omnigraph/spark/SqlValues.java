package io.omnigraph.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Values between Spark's own form and JSON; times are microseconds in both. */
final class SqlValues {
  private SqlValues() {}

  /** A value as JSON can hold it. */
  static Object plain(Object value, DataType type) {
    if (value instanceof ArrayData list && type instanceof ArrayType of) {
      List<Object> out = new ArrayList<>();
      for (Object each : list.toObjectArray(of.elementType())) {
        out.add(plain(each, of.elementType()));
      }
      return out;
    }
    return value instanceof UTF8String text ? text.toString() : value;
  }

  /** A list of values as a row of these columns. */
  static Object[] row(JsonNode values, StructType columns) {
    Object[] out = new Object[columns.length()];
    for (int i = 0; i < out.length; i++) {
      out[i] = internal(values.get(i), columns.apply(i).dataType());
    }
    return out;
  }

  private static Object internal(JsonNode value, DataType type) {
    if (value.isNull()) {
      return null;
    }
    if (type instanceof ArrayType of) {
      List<Object> out = new ArrayList<>();
      value.forEach(each -> out.add(internal(each, of.elementType())));
      return new GenericArrayData(out.toArray());
    }
    if (type instanceof StringType) {
      return UTF8String.fromString(value.asText());
    }
    if (type instanceof BooleanType) {
      return value.asBoolean();
    }
    return type instanceof IntegerType ? (Object) value.asInt() : (Object) value.asLong();
  }
}
