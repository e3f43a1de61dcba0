package io.omnigraph.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownOffset;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Collects what Spark's optimizer pushes into one scan; Python said what it may push. */
final class OmnigraphScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownLimit,
        SupportsPushDownOffset,
        SupportsPushDownTopN,
        SupportsPushDownAggregates {
  private final PlannedTable table;
  private final List<Predicate> predicates = new ArrayList<>();
  private final PushedWork work = new PushedWork();
  private StructType columns;
  private boolean filtersLeft;
  private Scan answer;

  OmnigraphScanBuilder(PlannedTable table) {
    this.table = table;
    this.columns = table.table().schema();
  }

  @Override public void pruneColumns(StructType required) {
    columns = required;
    table.check(required.fieldNames());
  }

  @Override public Predicate[] pushPredicates(Predicate[] given) {
    Predicates trees = new Predicates(table.info());
    List<Predicate> left = new ArrayList<>();
    for (Predicate predicate : given) {
      Map<String, Object> tree = can("filter") ? trees.tree(predicate) : null;
      if (tree == null) {
        left.add(predicate);
      } else {
        predicates.add(predicate);
        work.filters.add(tree);
        // Spark prunes the other side of a join only by rows it has filtered itself; these are few.
        // Where nothing is joined that would cost a job, for rows that are known while planning.
        boolean few = PushedWork.isLookUp(tree, table.info().indexed());
        if (few && !Bridge.readsOneTable()) { left.add(predicate); }
      }
    }
    filtersLeft = !left.isEmpty();
    return left.toArray(new Predicate[0]);
  }

  @Override public Predicate[] pushedPredicates() { return predicates.toArray(new Predicate[0]); }

  @Override public boolean pushLimit(int limit) {
    if (!can("limit")) { return false; }
    work.limit = limit;
    return true;
  }

  @Override public boolean pushOffset(int offset) {
    if (work.limit == null) {
      return false; // without a limit it would be all the rest, in one task
    }
    work.offset = offset;
    return true;
  }

  @Override public boolean pushTopN(SortOrder[] orders, int limit) {
    List<List<Object>> keys = new ArrayList<>();
    for (SortOrder order : orders) {
      String name = TableInfo.named(order.expression(), table.info().sortable());
      if (name == null) { return false; }
      boolean ascending = order.direction() == SortDirection.ASCENDING;
      boolean nullsFirst = order.nullOrdering() == NullOrdering.NULLS_FIRST;
      keys.add(List.of(name, ascending, nullsFirst));
    }
    if (!pushLimit(limit)) { return false; }
    work.order.addAll(keys);
    return true;
  }

  /** Limit and top-n are answered in full, by one task. */
  @Override public boolean isPartiallyPushed() { return false; }

  @Override public boolean supportCompletePushDown(Aggregation aggregation) {
    return work.filters.isEmpty() && counts(aggregation);
  }

  /** Counts are known while planning, or counted by tasks; other aggregates tasks begin. */
  @Override public boolean pushAggregation(Aggregation aggregation) {
    if (!counts(aggregation)) {
      boolean may = can("aggregate") && !filtersLeft;
      Aggregates pushed = may ? Aggregates.of(table.info(), aggregation) : null;
      if (pushed == null) { return false; }
      columns = pushed.schema();
      work.aggregate = pushed;
      return true;
    }
    int counts = aggregation.aggregateExpressions().length;
    columns = new StructType();
    for (int i = 0; i < counts; i++) {
      columns = columns.add("count" + i, DataTypes.LongType, false);
    }
    if (work.filters.isEmpty()) {
      Object[] row = new Object[counts];
      Arrays.fill(row, rows());
      InternalRow[] known = {new GenericInternalRow(row)};
      answer = new OmnigraphAnswer(columns, known, table.table().name());
    }
    work.count = true;
    return true;
  }

  /** How many rows the table has at the version of the plan. */
  private long rows() {
    if (table.pin().version() == table.info().version()) { return table.info().rows(); }
    return table.ask("count_rows", Map.of()).asLong();
  }

  /** Whether an aggregation consists of counts of all rows. */
  private boolean counts(Aggregation aggregation) {
    return can("count")
        && !filtersLeft
        && aggregation.groupByExpressions().length == 0
        && Arrays.stream(aggregation.aggregateExpressions()).allMatch(this::countsRows);
  }

  private boolean countsRows(AggregateFunc function) {
    if (function instanceof CountStar) { return true; }
    if (!(function instanceof Count count) || count.isDistinct()) { return false; }
    String name = TableInfo.named(count.column(), table.info().filterable());
    // A column without nulls has as many values as there are rows.
    return name != null && !table.info().schema().apply(name).nullable();
  }

  private boolean can(String what) { return table.info().can().contains(what); }

  /** What an index knows is asked for now: a task would take longer to start. */
  @Override public Scan build() {
    if (answer == null && can("filter") && work.looksUp(table.info().indexed())) {
      String wish = work.json(columns, List.of());
      JsonNode found = table.ask("look_up", Map.of("scan", wish));
      String shown = OmnigraphScan.describe(table, columns, work, predicates);
      answer = found.isNull() ? null : OmnigraphAnswer.of(columns, found, shown);
    }
    return answer != null ? answer : new OmnigraphScan(table, columns, work, predicates);
  }
}
