package io.omnigraph.spark;

import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;

/**
 * How much a scan returns at most, to the planner.
 *
 * @param rows how many rows
 * @param bytes what they take
 * @param columnStats what is known of single columns
 */
record ScanSize(long rows, long bytes, Map<NamedReference, ColumnStatistics> columnStats)
    implements Statistics {

  ScanSize(long rows, double bytes) { this(rows, (long) bytes, Map.of()); }

  /** The same of rows that have ids, each its own. */
  ScanSize ofIds() {
    var ids = new ColumnStatistics() {
      @Override public OptionalLong distinctCount() { return OptionalLong.of(rows); }

      @Override public OptionalLong nullCount() { return OptionalLong.of(0); }
    };
    return new ScanSize(rows, bytes, Map.of(TableInfo.column(OmnigraphCatalogTable.ID), ids));
  }

  @Override public OptionalLong numRows() { return OptionalLong.of(rows); }

  /** Never nothing: Spark takes that for a broken estimate. */
  @Override public OptionalLong sizeInBytes() { return OptionalLong.of(Math.max(1, bytes)); }
}
