package io.omnigraph.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.NamedReference;
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
      String name = column(by);
      // Of floats, zeros and NaNs of many forms are one group to Spark.
      if (name == null || !table.sortable().contains(name)) { return null; }
      groups.add(name);
      schema = schema.add("group" + groups.size(), type(table, name), true);
    }
    List<Map<String, Object>> functions = new ArrayList<>();
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      Wanted wanted = Wanted.of(table, function);
      if (wanted == null) { return null; }
      functions.add(wanted.json());
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
        .anyMatch(f -> type(table, (String) f.get("col")).equals(DataTypes.LongType));
  }

  /** One function: its name, its column if any, whether of its texts' lengths, and its type. */
  private record Wanted(String op, String column, boolean length, DataType type) {
    static Wanted of(TableInfo table, AggregateFunc function) {
      if (function instanceof CountStar) {
        return new Wanted("count_all", null, false, DataTypes.LongType);
      }
      if (function instanceof Count count) {
        String name = count.isDistinct() ? null : known(table, count.column());
        return name == null ? null : new Wanted("count", name, false, DataTypes.LongType);
      }
      if (function instanceof Sum sum) {
        String name = sum.isDistinct() ? null : known(table, sum.column());
        DataType type = name == null ? null : Aggregates.type(table, name);
        if (name == null || !WHOLE.contains(type) && !FLOATING.contains(type)) { return null; }
        DataType wide = WHOLE.contains(type) ? DataTypes.LongType : DataTypes.DoubleType;
        return new Wanted("sum", name, false, wide);
      }
      if (function instanceof Min min) { return compared(table, "min", min.column()); }
      return function instanceof Max max ? compared(table, "max", max.column()) : null;
    }

    /** Of columns in whose order Arrow and Spark agree; among floats NaN is another matter. */
    private static Wanted compared(TableInfo table, String op, Expression of) {
      boolean length = of instanceof GeneralScalarExpression f && f.name().equals("CHAR_LENGTH");
      String name = known(table, length ? of.children()[0] : of);
      if (name == null || !table.sortable().contains(name)) { return null; }
      DataType type = Aggregates.type(table, name);
      if (!length) { return new Wanted(op, name, false, type); }
      boolean text = type.equals(DataTypes.StringType);
      return text ? new Wanted(op, name, true, DataTypes.IntegerType) : null;
    }

    Map<String, Object> json() {
      Map<String, Object> out = new LinkedHashMap<>();
      out.put("op", op);
      if (column != null) { out.put("col", column); }
      if (length) { out.put("length", true); }
      return out;
    }
  }

  private static String known(TableInfo table, Expression expression) {
    String name = column(expression);
    return name != null && table.filterable().contains(name) ? name : null;
  }

  private static String column(Expression expression) {
    boolean plain = expression instanceof NamedReference column && column.fieldNames().length == 1;
    return plain ? ((NamedReference) expression).fieldNames()[0] : null;
  }

  private static DataType type(TableInfo table, String name) {
    return table.schema().apply(name).dataType();
  }
}
