package io.omnigraph.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.types.StructType;

/** One scan of one table: a Python source of its own that plans tasks and reads them. */
final class OmnigraphScan implements Scan, SupportsReportStatistics, SupportsRuntimeV2Filtering {
  private final PlannedTable table;
  private final StructType columns;
  private final PushedWork work;
  private final List<Predicate> predicates;
  private final List<Map<String, Object>> runtimeFilters = new ArrayList<>();
  private Batch planned;

  OmnigraphScan(
      PlannedTable table, StructType columns, PushedWork work, List<Predicate> predicates) {
    this.table = table;
    this.columns = columns;
    this.work = work;
    this.predicates = predicates;
  }

  @Override public StructType readSchema() { return columns; }

  /** For plans; options are left out, because they may hold secrets. */
  @Override public String description() { return describe(table, columns, work, predicates); }

  static String describe(
      PlannedTable table, StructType columns, PushedWork work, List<Predicate> predicates) {
    return table.table().name()
        + " branch=" + table.info().branch()
        + " version=" + table.pin().peek()
        + " columns=[" + String.join(", ", columns.fieldNames()) + "]"
        + " pushed=" + predicates
        + work.describe();
  }

  @Override public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override public CustomMetric[] supportedCustomMetrics() { return ScanMetrics.all(); }

  // Statistics.

  @Override public Statistics estimateStatistics() {
    long rows = work.limit == null ? atMost() : Math.min(work.limit, atMost());
    ScanSize size = new ScanSize(rows, rows * table.info().width(columns));
    boolean ids = columns.getFieldIndex(OmnigraphCatalogTable.ID).isDefined();
    return ids && table.info().typeKey() != null ? size.ofIds() : size;
  }

  /** Too few estimated rows make broadcasts that fail: only filters by id lower the number. */
  private long atMost() {
    long rows = table.info().rows();
    for (Map<String, Object> filter : work.filters) {
      rows = Math.min(rows, PushedWork.values(filter, Set.of("id")));
    }
    return rows;
  }

  // Filters found at run time: the keys of a join's other side.

  /**
   * None where nothing is joined, and the id alone of a table whose rows are decided about.
   *
   * <p>Before UPDATE, DELETE and MERGE Spark 4.2 looks for the values that the rows they are about
   * have in all of these columns, in a query of its own. Where a condition says which rows that is,
   * it would only find them twice; and many columns at once are no filter that could be pushed.
   */
  @Override public NamedReference[] filterAttributes() {
    boolean other = work.limit != null || work.count || work.aggregate != null;
    if (other || !table.info().can().contains("filter") || Bridge.readsOneTable()) {
      return new NamedReference[0];
    }
    boolean decided = columns.getFieldIndex(OmnigraphTable.ROW_ADDRESS).isDefined();
    return table.info().filterable().stream()
        .filter(name -> columns.getFieldIndex(name).isDefined())
        .filter(name -> !decided || name.equals(OmnigraphCatalogTable.ID))
        .map(TableInfo::column)
        .toArray(NamedReference[]::new);
  }

  /** Leaving one out is safe: the join drops what it would have dropped. */
  @Override public synchronized void filter(Predicate[] found) {
    Predicates trees = new Predicates(table.info());
    for (Predicate predicate : found) {
      Map<String, Object> tree = trees.tree(predicate);
      // Spark says so again with every copy of the plan.
      if (tree != null && !runtimeFilters.contains(tree)) {
        runtimeFilters.add(tree);
        planned = null;
      }
    }
  }

  // The batch. Spark makes it many times over, so it does nothing until partitions are planned.

  @Override public Batch toBatch() { return new PlannedBatch(this, columns.json() + options()); }

  private synchronized Map<String, String> options() {
    Map<String, String> out = table.options();
    out.put("__scan", work.json(columns, runtimeFilters));
    return out;
  }

  private synchronized Batch planned() {
    if (planned == null) {
      planned = table.table().bridge.scan(ArrowReaderFactory.TUNNEL, options()).toBatch();
    }
    return planned;
  }

  /** Equal where scans are equal, which lets Spark reuse exchanges. */
  private record PlannedBatch(OmnigraphScan scan, String key) implements Batch {
    @Override public InputPartition[] planInputPartitions() {
      return scan.planned().planInputPartitions();
    }

    @Override public PartitionReaderFactory createReaderFactory() {
      return new ArrowReaderFactory(scan.planned().createReaderFactory(), scan.columns);
    }

    @Override public boolean equals(Object other) {
      return other instanceof PlannedBatch batch && batch.key.equals(key);
    }

    @Override public int hashCode() { return key.hashCode(); }
  }
}
