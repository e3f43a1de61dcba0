package org.apache.spark.sql.connector.catalog;

import java.util.Optional;

/** Spark 4.2's interface of that name, as far as the jar uses it. */
public interface ChangelogRange {
  boolean startingBoundInclusive();

  boolean endingBoundInclusive();

  /** Between versions. */
  record VersionRange(
      String startingVersion,
      Optional<String> endingVersion,
      boolean startingBoundInclusive,
      boolean endingBoundInclusive)
      implements ChangelogRange {}

  /** Between times. */
  record TimestampRange(
      long startingTimestamp,
      Optional<Long> endingTimestamp,
      boolean startingBoundInclusive,
      boolean endingBoundInclusive)
      implements ChangelogRange {}
}
