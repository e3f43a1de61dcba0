package io.omnigraph.spark;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Aggregates that tasks begin and Spark completes.
 *
 * @param schema what tasks return: the groups, then the partial results
 * @param wish the same for Python
 */
record Aggregates(StructType schema, Map<String, Object> wish) {
  private static final Set<DataType> WHOLE = Set.of(DataTypes.IntegerType, DataTypes.LongType);
  private static final Set<DataType> FLOATING = Set.of(DataTypes.FloatType, DataTypes.DoubleType);

  /** What is pushed of an aggregation, or null where a part of it would not be exact. */
  static Aggregates of(TableInfo table, Aggregation aggregation) {
    StructType schema = new StructType();
    List<String> groups = new ArrayList<>();
    for (Expression by : aggregation.groupByExpressions()) {
      // Of floats, zeros and NaNs of many forms are one group to Spark.
      String name = TableInfo.named(by, table.sortable());
      if (name == null) { return null; }
      groups.add(name);
      schema = schema.add("group" + groups.size(), table.type(name), true);
    }
    List<Map<String, Object>> functions = new ArrayList<>();
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      Wanted wanted = Wanted.of(table, function);
      if (wanted == null) { return null; }
      functions.add(wanted.wish());
      schema = schema.add("result" + functions.size(), wanted.type, true);
    }
    boolean average = isAverage(table, functions);
    Map<String, Object> told = Map.of("groups", groups, "functions", functions);
    return average ? null : new Aggregates(schema, told);
  }

  /**
   * Whether this is what Spark makes of an average of bigints: it would add them up as bigints,
   * which may overflow, where it adds up doubles itself.
   */
  private static boolean isAverage(TableInfo table, List<Map<String, Object>> functions) {
    Set<Object> counted = new HashSet<>();
    functions.stream()
        .filter(f -> f.get("op").equals("count"))
        .forEach(f -> counted.add(f.get("col")));
    return functions.stream()
        .filter(f -> f.get("op").equals("sum") && counted.contains(f.get("col")))
        .anyMatch(f -> table.type((String) f.get("col")).equals(DataTypes.LongType));
  }

  /** Whether it is of all rows, and of these columns alone. */
  boolean isOf(Collection<String> columns) {
    return ((List<?>) wish.get("groups")).isEmpty()
        && ((List<?>) wish.get("functions"))
            .stream()
            .map(f -> ((Map<?, ?>) f).get("col"))
            .allMatch(column -> column == null || columns.contains(column));
  }

  /** One function for Python, with the type of its results. */
  private record Wanted(Map<String, Object> wish, DataType type) {
    Wanted(String op, String column, DataType type) { this(Map.of("op", op, "col", column), type); }

    static Wanted of(TableInfo table, AggregateFunc function) {
      if (function instanceof CountStar) {
        return new Wanted(Map.of("op", "count_all"), DataTypes.LongType);
      }
      if (function instanceof Count count && !count.isDistinct()) {
        String name = TableInfo.named(count.column(), table.filterable());
        return name == null ? null : new Wanted("count", name, DataTypes.LongType);
      }
      if (function instanceof Sum sum && !sum.isDistinct()) {
        String name = TableInfo.named(sum.column(), table.filterable());
        if (name == null) { return null; }
        DataType type = table.type(name);
        if (WHOLE.contains(type)) { return new Wanted("sum", name, DataTypes.LongType); }
        return FLOATING.contains(type) ? new Wanted("sum", name, DataTypes.DoubleType) : null;
      }
      if (function instanceof Min min) { return compared(table, "min", min.column()); }
      return function instanceof Max max ? compared(table, "max", max.column()) : null;
    }

    /** Of columns in whose order Arrow and Spark agree; among floats NaN is another matter. */
    private static Wanted compared(TableInfo table, String op, Expression of) {
      boolean length = of instanceof GeneralScalarExpression f && f.name().equals("CHAR_LENGTH");
      String name = TableInfo.named(length ? of.children()[0] : of, table.sortable());
      if (name == null || !table.filterable().contains(name)) { return null; }
      DataType type = table.type(name);
      if (!length) { return new Wanted(op, name, type); }
      Map<String, Object> wish = Map.of("op", op, "col", name, "length", true);
      return type.equals(DataTypes.StringType) ? new Wanted(wish, DataTypes.IntegerType) : null;
    }
  }
}
