package io.omnigraph.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.types.DataType;
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
 * @param properties what DESCRIBE EXTENDED shows
 * @param constraints the keys of the type, see {@link TableConstraints}
 */
record TableInfo(
    StructType schema,
    Map<String, String> source,
    String typeKey,
    String branch,
    long version,
    boolean pinned,
    long rows,
    Map<String, String> widths,
    Set<String> can,
    Set<String> filterable,
    Set<String> sortable,
    Set<String> indexed,
    Map<String, String> properties,
    JsonNode constraints) {

  static TableInfo of(JsonNode answer) {
    JsonNode type = answer.get("type_key");
    return new TableInfo(
        (StructType) DataType.fromJson(answer.get("schema").asText()),
        texts(answer.get("source")),
        type.isNull() ? null : type.asText(),
        answer.get("branch").asText(),
        answer.get("version").asLong(),
        answer.get("pinned").asBoolean(),
        answer.get("rows").asLong(),
        texts(answer.get("widths")),
        names(answer.get("can")),
        names(answer.get("filterable")),
        names(answer.get("sortable")),
        names(answer.get("indexed")),
        texts(answer.get("properties")),
        answer.get("constraints"));
  }

  /** Whether the rows are changes along commits, which the source names, and not a snapshot. */
  boolean areChanges() { return source.containsKey("readChangeFeed"); }

  /** Estimates the bytes of one row of these columns. */
  double width(StructType columns) {
    double width = 0;
    for (String column : columns.fieldNames()) {
      width += Double.parseDouble(widths.getOrDefault(column, "8"));
    }
    return width;
  }

  /** A column by its exact name, whatever letters that has. */
  static NamedReference column(String name) {
    return Expressions.column("`" + name.replace("`", "``") + "`");
  }

  private static Set<String> names(JsonNode list) {
    Set<String> out = new LinkedHashSet<>();
    list.forEach(name -> out.add(name.asText()));
    return out;
  }

  private static Map<String, String> texts(JsonNode object) {
    Map<String, String> out = new LinkedHashMap<>();
    object.fields().forEachRemaining(field -> out.put(field.getKey(), field.getValue().asText()));
    return out;
  }
}
