package io.omnigraph.spark;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;

/** What Python does for one scan, collected from the optimizer and sent as one option. */
final class PushedWork {
  /** Trees that {@link Predicates} made; a row must pass them all. */
  final List<Map<String, Object>> filters = new ArrayList<>();

  /** Sort keys: column, ascending, nulls first. */
  final List<List<Object>> order = new ArrayList<>();

  /** The most rows; null is all of them. */
  Integer limit;

  /** Rows left out before the first, counted within the limit. */
  int offset;

  /** Whether tasks return the number of their rows instead of the rows. */
  boolean count;

  /** Asked for while planning, when there surely is a session. */
  private final int parallelism = Bridge.parallelism();

  /** What tasks return instead of rows: groups, and functions of each; null is the rows. */
  Aggregates aggregate;

  /** The most values of one column that are looked up while planning. */
  private static final int MOST_LOOKED_UP = 1_000;

  /** Whether indexes of these columns may know the answer: few rows, or ends of whole columns. */
  boolean looksUp(Collection<String> columns) {
    return filters.stream().anyMatch(filter -> isLookUp(filter, columns))
        || aggregate != null && filters.isEmpty() && aggregate.isOf(columns);
  }

  static boolean isLookUp(Map<String, Object> filter, Collection<String> columns) {
    return values(filter, columns) <= MOST_LOOKED_UP;
  }

  /** How many values a filter leaves for one of these columns. */
  static int values(Map<String, Object> filter, Collection<String> columns) {
    List<?> sides = (List<?>) filter.get("args");
    boolean equality = filter.get("op").equals("=") || filter.get("op").equals("in");
    boolean known = equality && columns.contains(((Map<?, ?>) sides.get(0)).get("col"));
    return known ? sides.size() - 1 : Integer.MAX_VALUE;
  }

  /** The work as JSON; {@code columns} is what Spark reads. */
  String json(StructType columns, List<Map<String, Object>> runtimeFilters) {
    List<Map<String, Object>> all = new ArrayList<>(filters);
    all.addAll(runtimeFilters);
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("schema", columns.json());
    out.put("filters", all);
    out.put("order", order);
    out.put("limit", limit);
    out.put("offset", offset);
    out.put("count", count);
    out.put("parallelism", parallelism);
    out.put("aggregate", aggregate == null ? null : aggregate.wish());
    return Bridge.json(out);
  }

  /** The work as plans show it. */
  String describe() {
    String out = order.isEmpty() ? "" : " order=" + order;
    out += limit == null ? "" : " limit=" + limit;
    out += offset == 0 ? "" : " offset=" + offset;
    out += aggregate == null ? "" : " aggregate=" + aggregate.wish();
    return count ? out + " count" : out;
  }
}
