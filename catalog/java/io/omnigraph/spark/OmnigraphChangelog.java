package io.omnigraph.spark;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code SELECT … FROM og.nodes.Person CHANGES FROM VERSION 2 TO VERSION 5}: the change feed.
 *
 * <p>Spark 4.2 and later; nothing loads this class before. Updates come with both images and no row
 * is carried over, so that Spark has nothing to work out.
 */
record OmnigraphChangelog(OmnigraphTable changes) implements Changelog {
  /** As Spark's own type, so that whoever loads the caller need not look whether it is one. */
  static Changelog of(OmnigraphTable changes) { return new OmnigraphChangelog(changes); }

  /** What Python is asked for the changes of a table in a range. */
  static Map<String, Object> question(ChangelogRange range) {
    Map<String, Object> asked = new HashMap<>();
    asked.put(
        "leave_out", List.of(!range.startingBoundInclusive(), !range.endingBoundInclusive()));
    asked.put("are_times", range instanceof ChangelogRange.TimestampRange);
    if (range instanceof ChangelogRange.VersionRange versions) {
      asked.put("starting", versions.startingVersion());
      asked.put("ending", versions.endingVersion().orElse(null));
    } else if (range instanceof ChangelogRange.TimestampRange times) {
      asked.put("starting", times.startingTimestamp());
      asked.put("ending", times.endingTimestamp().orElse(null));
    } else {
      String advice = "name a first version or time: CHANGES FROM VERSION 1";
      throw OmnigraphException.unsupported("CHANGES without a beginning", advice);
    }
    return asked;
  }

  @Override public String name() { return changes.name() + " changes"; }

  @Override public Column[] columns() { return changes.columns(); }

  @Override public boolean containsCarryoverRows() { return false; }

  @Override public boolean containsIntermediateChanges() { return true; }

  @Override public boolean representsUpdateAsDeleteAndInsert() { return false; }

  @Override public NamedReference[] rowId() {
    return new NamedReference[] {Expressions.column("id")};
  }

  @Override public NamedReference rowVersion() { return Expressions.column("_commit_version"); }

  @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return changes.newScanBuilder(options);
  }
}
