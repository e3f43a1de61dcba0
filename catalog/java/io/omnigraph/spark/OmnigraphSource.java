package io.omnigraph.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("omnigraph")} with everything the planner can push.
 *
 * <p>It has the name of the Python source, and Spark prefers the one of the JVM: the jar upgrades
 * frames without a change to the program.
 */
public class OmnigraphSource implements TableProvider, DataSourceRegister {
  private OmnigraphTable loaded;

  @Override public String shortName() { return "omnigraph"; }

  @Override public StructType inferSchema(CaseInsensitiveStringMap passed) {
    Map<String, String> options = given(passed.asCaseSensitiveMap());
    Bridge bridge = Bridge.ofSession(options);
    TableInfo info = TableInfo.of(bridge.ask("load_table", Map.of()));
    loaded = new OmnigraphTable(bridge, nameOf(options), info);
    return loaded.schema();
  }

  /** A user may name the columns; then the table is looked at when it is first read. */
  @Override public boolean supportsExternalMetadata() { return true; }

  @Override public Table getTable(
      StructType schema, Transform[] parts, Map<String, String> properties) {
    if (loaded != null && loaded.schema().equals(schema)) {
      // Spark infers the schema and gets the table right after: both are of one snapshot.
      return loaded;
    }
    Map<String, String> options = given(properties);
    return new OmnigraphTable(Bridge.ofSession(options), nameOf(options), schema);
  }

  /**
   * The options of a frame, or of a table that {@code CREATE TABLE … USING omnigraph} made: then
   * Spark passes the table's properties too, and each option a second time, marked.
   */
  private static Map<String, String> given(Map<String, String> passed) {
    String place = passed.get(TableCatalog.PROP_LOCATION);
    boolean table = place != null || passed.containsKey(TableCatalog.PROP_OWNER);
    if (!table || !passed.containsKey(TableCatalog.PROP_PROVIDER)) { return passed; }
    Map<String, String> out = new HashMap<>();
    passed.forEach((key, value) -> {
      if (key.startsWith(TableCatalog.OPTION_PREFIX)) {
        out.put(key.substring(TableCatalog.OPTION_PREFIX.length()), value);
      }
    });
    String path = passed.getOrDefault("path", place);
    if (path != null) { out.put("path", path); }
    return out;
  }

  private static String nameOf(Map<String, String> given) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(given);
    return "omnigraph " + options.getOrDefault("type", options.getOrDefault("table", ""));
  }
}
