package io.omnigraph.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Which of Spark's predicates Python evaluates exactly as Spark would, and how it is told of them.
 *
 * <p>A predicate becomes a tree of {@code {"op", "args"}}, {@code {"col"}} and {@code {"lit"}}: a
 * column on the left and literals of exactly its type on the right. What does not fit that is
 * null, and stays in Spark.
 */
record Predicates(TableInfo table) {
  private static final Map<String, String> LOGIC = Map.of("AND", "and", "OR", "or", "NOT", "not");
  private static final Map<String, String> FLIPPED =
      Map.of("=", "=", "<>", "<>", "<=>", "<=>", "<", ">", "<=", ">=", ">", "<", ">=", "<=");
  private static final Map<String, String> TEXT =
      Map.of("STARTS_WITH", "starts_with", "ENDS_WITH", "ends_with", "CONTAINS", "contains");
  private static final Map<String, String> NULLS =
      Map.of("IS_NULL", "is_null", "IS_NOT_NULL", "is_not_null");
  private static final Set<DataType> LITERALS =
      Set.of(
          DataTypes.BooleanType, DataTypes.IntegerType, DataTypes.LongType, DataTypes.FloatType,
          DataTypes.DoubleType, DataTypes.StringType, DataTypes.DateType, DataTypes.TimestampType,
          DataTypes.createDecimalType(20, 0));

  /** Above, parsing the list in every task costs more than reading the rows. */
  private static final int MOST_VALUES = 10_000;

  /** Lance's parser gives up on expressions nested some fifty deep. */
  private static final int DEEPEST = 16;

  /** Chains of conditions are planned by recursion: long ones stay in Spark. */
  private static final int LONGEST = 200;

  /** The trees of predicates that must all hold, or null when one of them stays in Spark. */
  List<Map<String, Object>> all(Predicate[] predicates) {
    List<Map<String, Object>> out = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Map<String, Object> tree = tree(predicate);
      if (tree != null) {
        out.add(tree);
      } else if (!(predicate instanceof AlwaysTrue)) {
        return null;
      }
    }
    return out;
  }

  /** The tree of a predicate, or null when it stays in Spark. */
  Map<String, Object> tree(Predicate predicate) { return tree(predicate, 0); }

  private Map<String, Object> tree(Expression expression, int depth) {
    if (!(expression instanceof Predicate predicate) || depth > DEEPEST) { return null; }
    String logic = LOGIC.get(predicate.name());
    return logic == null ? comparison(predicate) : logical(logic, predicate, depth);
  }

  /** Chains of the same connective become one flat node, however Spark nested them. */
  private Map<String, Object> logical(String op, Predicate predicate, int depth) {
    List<Object> args = new ArrayList<>();
    for (Expression child : flat(predicate)) {
      Map<String, Object> tree = tree(child, depth + 1);
      if (tree == null || args.size() == LONGEST) { return null; }
      args.add(tree);
    }
    return node(op, args);
  }

  private static List<Expression> flat(Predicate predicate) {
    List<Expression> out = new ArrayList<>();
    for (Expression child : predicate.children()) {
      boolean same = child instanceof Predicate p && p.name().equals(predicate.name());
      if (same && !predicate.name().equals("NOT")) {
        out.addAll(flat((Predicate) child));
      } else {
        out.add(child);
      }
    }
    return out;
  }

  private Map<String, Object> comparison(Predicate predicate) {
    String op = predicate.name();
    List<Expression> sides = Arrays.asList(predicate.children());
    if (FLIPPED.containsKey(op) && sides.get(0) instanceof Literal) {
      op = FLIPPED.get(op);
      sides = List.of(sides.get(1), sides.get(0));
    }
    String name = sides.isEmpty() ? null : TableInfo.named(sides.get(0), table.filterable());
    if (name == null) { return null; }
    DataType type = table.type(name);
    List<Object> args = new ArrayList<>(List.of(Map.of("col", name)));
    if (NULLS.containsKey(op)) { return node(NULLS.get(op), args); }
    boolean text = TEXT.containsKey(op) && type.equals(DataTypes.StringType);
    boolean list = op.equals("IN") && sides.size() <= MOST_VALUES;
    if (!text && !list && !FLIPPED.containsKey(op)) { return null; }
    // Only where nulls are values like others, or legal in a list, does a null compare.
    boolean nulls = list || op.equals("<=>");
    for (Expression side : sides.subList(1, sides.size())) {
      if (!(side instanceof Literal<?> literal) || !fits(literal, type, nulls)) { return null; }
      Map<String, Object> value = new LinkedHashMap<>();
      value.put("lit", value(literal.value()));
      args.add(value);
    }
    return node(list ? "in" : text ? TEXT.get(op) : op, args);
  }

  private static boolean fits(Literal<?> literal, DataType type, boolean nulls) {
    Object value = literal.value();
    if (value instanceof Double d && !Double.isFinite(d)
        || value instanceof Float f && !Float.isFinite(f)) {
      return false; // they have no exact text
    }
    if (value instanceof UTF8String text && !text.isValid()) {
      return false; // bytes that are no characters would become others
    }
    boolean same = literal.dataType().equals(type) && LITERALS.contains(type);
    return same && (nulls || value != null);
  }

  private static Object value(Object value) {
    if (value instanceof UTF8String || value instanceof Decimal) { return value.toString(); }
    // As a double a float is written in full, not in the fewest digits that are its own.
    return value instanceof Float f ? (Object) f.doubleValue() : value;
  }

  private static Map<String, Object> node(String op, List<Object> args) {
    return Map.of("op", op, "args", args);
  }
}
