package org.apache.spark.sql.connector.catalog;

/** Spark 4.2's class of that name, as far as the jar uses it. */
public class ChangelogContext {
  public ChangelogRange range() { throw new AssertionError("only compiled against"); }
}
