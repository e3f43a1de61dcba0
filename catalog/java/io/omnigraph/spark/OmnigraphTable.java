package io.omnigraph.spark;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One type of a graph, or one table about it, as Python described it. */
class OmnigraphTable implements SupportsRead, SupportsWrite, SupportsMetadataColumns {
  /** Which row it is, whatever versions do to its place. */
  static final String ROW_ID = "_rowid";

  /** Where the row lies at this version. */
  static final String ROW_ADDRESS = "_rowaddr";

  /** The options that name a snapshot or what is read, in any spelling Python takes. */
  private static final List<String> SOURCE_KEYS =
      List.of(
          "type", "table", "branch", "commit", "version", "versionAsOf", "timestamp",
          "timestampAsOf");

  /** Those of them that name a snapshot. */
  static final List<String> SNAPSHOT_KEYS = SOURCE_KEYS.subList(2, SOURCE_KEYS.size());

  final Bridge bridge;
  private final String name;
  private final StructType schema;
  private TableInfo info;

  /** A table that was loaded. */
  OmnigraphTable(Bridge bridge, String name, TableInfo info) {
    this(bridge, name, info.schema());
    this.info = info;
  }

  /** A table of a frame whose columns the user named; it is loaded when it is first read. */
  OmnigraphTable(Bridge bridge, String name, StructType schema) {
    this.bridge = bridge;
    this.name = name;
    this.schema = schema;
    KnownRows.know();
  }

  @Override public String name() { return name; }

  @Override public StructType schema() { return schema; }

  /**
   * Null on purpose: Spark loads a table that has a version again after analysis, one by one, so
   * that the tables of one statement would no longer belong to one commit.
   */
  @Override public String version() { return null; }

  @Override public Map<String, String> properties() { return info().properties(); }

  /** A frame that is written names its own columns: nothing is asked about its table. */
  @Override public synchronized Constraint[] constraints() {
    List<TableInfo.Key> keys = info == null ? List.of() : info.constraints();
    return keys.stream().map(TableInfo.Key::constraint).toArray(Constraint[]::new);
  }

  /** Tables about the graph are not written to. */
  @Override public Set<TableCapability> capabilities() {
    return hasStoredRows()
        ? EnumSet.of(
            TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE)
        : EnumSet.of(TableCapability.BATCH_READ);
  }

  @Override public MetadataColumn[] metadataColumns() {
    return hasStoredRows()
        ? new MetadataColumn[] {new RowNumber(ROW_ID), new RowNumber(ROW_ADDRESS)}
        : new MetadataColumn[0];
  }

  /** Whether it is a type, as far as is known; rows of other tables are made when they are read. */
  private synchronized boolean hasStoredRows() { return info == null || info.typeKey() != null; }

  /** What Python said of this table; asked once, and kept with the snapshot it is of. */
  synchronized TableInfo info() {
    if (info == null) {
      info = TableInfo.of(bridge.ask("load_table", Map.of("given", schema.json())));
    }
    return info;
  }

  @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new OmnigraphScanBuilder(planned(options));
  }

  /** The table in the plan under construction, by what one read says besides the catalog. */
  private PlannedTable planned(CaseInsensitiveStringMap options) {
    Map<String, String> own = bridge.options();
    info().ignored().forEach(own::remove);
    Map<String, String> given = Bridge.anyCase(own);
    given.putAll(options.asCaseSensitiveMap());
    return new PlannedTable(this, given.equals(own) ? info() : info(options, given), given, true);
  }

  /** What Python says of this table under other options: at its snapshot unless they name one. */
  private TableInfo info(CaseInsensitiveStringMap options, Map<String, String> given) {
    TableInfo own = info();
    Map<String, String> named = Bridge.anyCase(given);
    named.putAll(own.source());
    named.putIfAbsent("branch", own.branch());
    Map<String, Object> at = new HashMap<>();
    boolean elsewhere = SNAPSHOT_KEYS.stream().anyMatch(options::containsKey);
    at.put("version", elsewhere || own.areChanges() ? null : own.version());
    at.put("pinned", own.pinned());
    return TableInfo.of(new Bridge(named).ask("reload_table", at));
  }

  /** Rows of a frame go to the Python writer as they are. */
  @Override public WriteBuilder newWriteBuilder(LogicalWriteInfo written) {
    Map<String, String> options = bridge.options();
    options.putAll(written.options().asCaseSensitiveMap());
    return bridge.write(written, written.schema(), options);
  }

  /** Removes what says which table and which snapshot; the caller puts in what was resolved. */
  static void forgetSource(Map<String, String> options) { SOURCE_KEYS.forEach(options::remove); }

  /** A number that every stored row has besides its columns. */
  private record RowNumber(String name) implements MetadataColumn {
    @Override public DataType dataType() { return DataTypes.LongType; }

    @Override public boolean isNullable() { return false; }
  }
}
