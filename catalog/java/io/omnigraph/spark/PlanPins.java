package io.omnigraph.spark;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;

/**
 * One snapshot per executed plan.
 *
 * <p>Spark builds all scans and the write of a plan inside its optimizer, under one tracker. Each
 * table joins the pin of its branch with the snapshot it was loaded at; the newest wins, and is
 * fixed when the first of them needs it. So a DataFrame alone keeps its snapshot, and DataFrames
 * made at different times agree where they meet in one plan.
 */
final class PlanPins {
  private static final Map<QueryPlanningTracker, Map<String, Pin>> PLANS =
      Collections.synchronizedMap(new WeakHashMap<>());

  private PlanPins() {}

  /** The manifest version that the tables of one branch are read at in one plan. */
  static final class Pin {
    private final Set<String> reads = new TreeSet<>();
    private long version;
    private boolean fixed;

    private synchronized Pin join(TableInfo table, boolean read) {
      if (!fixed) { version = Math.max(version, table.version()); }
      if (read && table.typeKey() != null) { reads.add(table.typeKey()); }
      return this;
    }

    /** The version of the plan; from now on it does not change. */
    synchronized long version() {
      fixed = true;
      return version;
    }

    /** What {@link #version} would be by now, for display. */
    synchronized long peek() { return version; }

    /** The type keys that the plan reads on this branch: a write expects them unchanged. */
    synchronized Set<String> reads() { return new TreeSet<>(reads); }
  }

  /**
   * Joins the pin of the plan under construction with a table.
   *
   * <p>A table whose snapshot was named in the query keeps its own, and so does one that is used
   * while nothing is planned. One that is only written to is not {@code read}.
   */
  static Pin join(TableInfo table, boolean read) {
    var tracker = QueryPlanningTracker.get();
    if (table.pinned() || tracker.isEmpty()) { return new Pin().join(table, read); }
    Map<String, Pin> pins = PLANS.computeIfAbsent(tracker.get(), t -> new ConcurrentHashMap<>());
    String graph = table.branch() + " " + table.root();
    return pins.computeIfAbsent(graph, branch -> new Pin()).join(table, read);
  }
}
