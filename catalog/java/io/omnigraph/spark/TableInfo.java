package io.omnigraph.spark;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.util.StdConverter;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * What {@code load_table} answered about one table at one snapshot.
 *
 * @param schema its columns
 * @param source the options by which Python finds it again: {@code type} or {@code table}
 * @param typeKey such as {@code node:Person}; null for a table about the graph
 * @param branch the branch the snapshot is on
 * @param version the manifest version of the snapshot
 * @param pinned whether the query named the snapshot itself
 * @param rows how many rows it has
 * @param widths bytes of one value, by column: less than one where files store many in one
 * @param can what Python evaluates for this table: filter, limit, topn, count
 * @param filterable the columns whose comparisons Lance evaluates as Spark would
 * @param sortable the columns that Lance sorts as Spark would
 * @param indexed the columns whose rows of one value an index finds
 * @param ignored options of the catalog that are not about this table
 * @param properties what DESCRIBE EXTENDED shows
 * @param constraints the keys of the type, in the order they are shown
 */
record TableInfo(
    @JsonDeserialize(converter = SchemaOfJson.class) StructType schema,
    Map<String, String> source,
    @JsonProperty("type_key") String typeKey,
    String branch,
    long version,
    boolean pinned,
    long rows,
    Map<String, Double> widths,
    List<String> can,
    List<String> filterable,
    List<String> sortable,
    List<String> indexed,
    List<String> ignored,
    Map<String, String> properties,
    List<Key> constraints) {

  /** Reads Spark's own text of a schema. */
  static final class SchemaOfJson extends StdConverter<String, DataType> {
    @Override public DataType convert(String text) { return DataType.fromJson(text); }
  }

  static TableInfo of(JsonNode answer) { return Bridge.JSON.convertValue(answer, TableInfo.class); }

  /** Whether the rows are changes along commits, which the source names, and not a snapshot. */
  boolean areChanges() { return source.containsKey("readChangeFeed"); }

  /** The address of the graph, however a user wrote it. */
  String root() { return properties.get("location"); }

  /** The type of a column that there is. */
  DataType type(String column) { return schema.apply(column).dataType(); }

  /** Whether there is this column, with values of the same type. */
  boolean has(StructField column) {
    return schema.getFieldIndex(column.name()).isDefined()
        && type(column.name()).equals(column.dataType());
  }

  /** Estimates the bytes of one row of these columns. */
  double width(StructType columns) {
    double width = 0;
    for (String column : columns.fieldNames()) { width += widths.getOrDefault(column, 8.0); }
    return width;
  }

  /** The name of a column that an expression is, if it is one of these; else null. */
  static String named(Expression expression, List<String> columns) {
    boolean plain = expression instanceof NamedReference path && path.fieldNames().length == 1;
    String name = plain ? ((NamedReference) expression).fieldNames()[0] : null;
    return columns.contains(name) ? name : null;
  }

  /** A column by its exact name, whatever letters that has. */
  static NamedReference column(String name) {
    return Expressions.column("`" + name.replace("`", "``") + "`");
  }

  /**
   * A key of the type as Spark's constraint: shown by DESCRIBE, and the planner may rely on it.
   *
   * <p>Rules about single values are left out: Spark would check them a second time when it writes.
   *
   * @param to for an end of edges the namespace and the type of its nodes, else null
   */
  record Key(String name, List<String> columns, List<String> to) {
    Constraint constraint() {
      var own = columns.stream().map(TableInfo::column).toArray(NamedReference[]::new);
      if (to != null) {
        Identifier nodes = Identifier.of(new String[] {to.get(0)}, to.get(1));
        NamedReference[] ids = {Expressions.column("id")};
        return Constraint.foreignKey(name, own, nodes, ids).rely(true).enforced(true).build();
      }
      return name.equals("id")
          ? Constraint.primaryKey(name, own).rely(true).enforced(true).build()
          : Constraint.unique(name, own).rely(true).enforced(true).build();
    }
  }
}
