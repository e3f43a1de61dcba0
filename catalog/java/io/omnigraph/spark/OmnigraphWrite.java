package io.omnigraph.spark;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** Rows of a statement that are new: INSERT INTO, INSERT OVERWRITE, REPLACE WHERE. */
final class OmnigraphWrite implements SupportsOverwriteV2, Write {
  private final PlannedTable table;
  private final LogicalWriteInfo info;
  private boolean truncates;

  /** Trees of the rows that the new ones take the place of; null is none. */
  private List<Map<String, Object>> replaced;

  OmnigraphWrite(PlannedTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  @Override public boolean canOverwrite(Predicate[] predicates) {
    return isAll(predicates) || new Predicates(table.info()).all(predicates) != null;
  }

  @Override public WriteBuilder overwrite(Predicate[] predicates) {
    if (isAll(predicates)) { return truncate(); }
    replaced = new Predicates(table.info()).all(predicates);
    return this;
  }

  private static boolean isAll(Predicate[] predicates) {
    return Arrays.stream(predicates).allMatch(AlwaysTrue.class::isInstance);
  }

  @Override public WriteBuilder truncate() {
    truncates = true;
    return this;
  }

  @Override public Write build() { return this; }

  @Override public String description() { return table.table().name(); }

  /** Called when the statement runs: by now all its tables have joined the pin. */
  @Override public BatchWrite toBatch() {
    Map<String, String> options = table.writing(table.pin().reads());
    if (replaced != null) { options.put("__replace", Bridge.json(replaced)); }
    WriteBuilder python = table.table().bridge.write(info, info.schema(), options);
    return (truncates ? ((SupportsTruncate) python).truncate() : python).build().toBatch();
  }
}
