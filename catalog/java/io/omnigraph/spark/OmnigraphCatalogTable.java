package io.omnigraph.spark;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A node or edge type by its name in a catalog, which every statement of SQL may write to. */
final class OmnigraphCatalogTable extends OmnigraphTable
    implements SupportsDeleteV2, SupportsRowLevelOperations {
  /** Which row it is, to whoever writes statements. */
  static final String ID = "id";

  /** What an id is that nobody gave: Python takes it from the key, or makes one. */
  private static final ColumnDefaultValue NO_ID =
      new ColumnDefaultValue(
          "char(0)", new LiteralValue<>(UTF8String.fromString("\0"), DataTypes.StringType));

  OmnigraphCatalogTable(Bridge bridge, String name, TableInfo info) { super(bridge, name, info); }

  @Override public Set<TableCapability> capabilities() {
    Set<TableCapability> out = EnumSet.copyOf(super.capabilities());
    out.add(TableCapability.OVERWRITE_BY_FILTER);
    return out;
  }

  /** Every row has an id, but a statement need not give one. */
  @Override public Column[] columns() {
    return Arrays.stream(super.columns())
        .map(column -> column.name().equals(ID) ? withoutNeed(column) : column)
        .toArray(Column[]::new);
  }

  private static Column withoutNeed(Column id) {
    return Column.create(ID, id.dataType(), false, id.comment(), NO_ID, id.metadataInJSON());
  }

  // Rows that are new.

  @Override public WriteBuilder newWriteBuilder(LogicalWriteInfo written) {
    return new OmnigraphWrite(written(written.options()), written);
  }

  /** The table as what a plan writes to, under the options of the statement. */
  PlannedTable written(CaseInsensitiveStringMap options) {
    boolean elsewhere = SNAPSHOT_KEYS.stream().anyMatch(options::containsKey);
    if (info().pinned() || elsewhere) {
      String advice = "write to a branch, by its name: <catalog>.<branch>.nodes.<type>";
      throw OmnigraphException.unsupported("writing to a snapshot", advice);
    }
    return PlannedTable.written(this, options);
  }

  // Rows that go, by a condition that Lance evaluates: one question.

  @Override public boolean canDeleteWhere(Predicate[] predicates) {
    // Without counts the options of the catalog leave rows out, which must not be deleted then.
    return info().can().contains("count") && new Predicates(info()).all(predicates) != null;
  }

  @Override public void deleteWhere(Predicate[] predicates) {
    ask("delete_where", Map.of("filters", new Predicates(info()).all(predicates)));
  }

  @Override public boolean truncateTable() {
    ask("truncate", Map.of());
    return true;
  }

  private void ask(String question, Map<String, ?> arguments) {
    Map<String, Object> all = new HashMap<>(arguments);
    all.put("statement", written(CaseInsensitiveStringMap.empty()).writing(List.of()));
    bridge.ask(question, all);
  }

  // Rows that a statement decides about one by one.

  @Override public RowLevelOperationBuilder newRowLevelOperationBuilder(
      RowLevelOperationInfo operation) {
    return () -> new OmnigraphDelta(this, operation);
  }
}
