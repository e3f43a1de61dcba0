package io.omnigraph.spark;

import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
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
    return info == null ? new Constraint[0] : TableConstraints.of(info.constraints());
  }

  /** Tables about the graph are not written to. */
  @Override public Set<TableCapability> capabilities() {
    if (info != null && info.typeKey() == null) {
      return EnumSet.of(TableCapability.BATCH_READ);
    }
    return EnumSet.of(
        TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE);
  }

  @Override public MetadataColumn[] metadataColumns() {
    return new MetadataColumn[] {new RowNumber(ROW_ID), new RowNumber(ROW_ADDRESS)};
  }

  /** What Python said of this table; asked once, and kept with the snapshot it is of. */
  synchronized TableInfo info() {
    if (info == null) {
      info = TableInfo.of(bridge.ask("load_table", Map.of("given", schema.json())));
    }
    return info;
  }

  @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new OmnigraphScanBuilder(snapshot(options));
  }

  /** The table in the plan under construction; options of a frame may name another snapshot. */
  PlannedTable snapshot(CaseInsensitiveStringMap options) {
    Map<String, String> own = bridge.options();
    Map<String, String> given = bridge.options();
    given.putAll(options.asCaseSensitiveMap());
    boolean elsewhere =
        SNAPSHOT_KEYS.stream().anyMatch(key -> !Objects.equals(given.get(key), own.get(key)));
    if (!elsewhere) { return new PlannedTable(this, info(), given); }
    given.putAll(info().source());
    TableInfo there = TableInfo.of(new Bridge(given).ask("load_table", Map.of()));
    return new PlannedTable(this, there, given);
  }

  /** Rows of a frame go to the Python writer as they are. */
  @Override public WriteBuilder newWriteBuilder(LogicalWriteInfo written) {
    Map<String, String> options = bridge.options();
    options.putAll(written.options().asCaseSensitiveMap());
    return bridge.write(written, written.schema(), options);
  }

  /** Removes what says which table and which snapshot; the caller puts in what was resolved. */
  static void forgetSource(Map<String, String> options) {
    SOURCE_KEYS.forEach(options::remove);
  }

  /** A number that every stored row has besides its columns. */
  private record RowNumber(String name) implements MetadataColumn {
    @Override public DataType dataType() { return DataTypes.LongType; }

    @Override public boolean isNullable() { return false; }
  }
}
