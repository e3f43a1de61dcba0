package io.omnigraph.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** What classes of the jar do without a session: one case by its name, in a folder of its files. */
public final class JarUnits {
  private static final StructType ROWS = new StructType().add("n", DataTypes.IntegerType);

  private JarUnits() {}

  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[0]);
    for (String name : Arrays.asList(arguments).subList(1, arguments.length)) {
      switch (name) {
        case "rows" -> rowsArriveInOrderAndTheMessageIsPythons();
        case "early" -> rowsThatPythonDidNotTakeFailTheTask();
        case "failure" -> whatFailsInPythonFailsTheTask();
        case "cancelled" -> aCancelledTaskWaitsForPythonAndStaysCancelled();
        case "batch" -> aBatchThatIsCutShortIsRefused(folder);
        case "ring" -> onlyTheMemoryThatWasMeantIsMapped(folder);
        case "predicates" -> predicatesBecomeTreesOrStay();
        default -> throw new IllegalArgumentException(name);
      }
      System.out.println(name);
    }
  }

  private static void check(Object found, Object expected) {
    if (!found.equals(expected)) { throw new AssertionError(found + " is not " + expected); }
  }

  private static String failure(Runnable action) {
    try {
      action.run();
    } catch (RuntimeException expected) {
      return String.valueOf(expected.getMessage());
    }
    throw new AssertionError("nothing failed");
  }

  // The pipe of rows.

  private record Message() implements WriterCommitMessage {}

  /** A writer that takes rows in this way. */
  private static DataWriterFactory writer(Consumer<Iterator<InternalRow>> taking) {
    return (partition, task) ->
        new DataWriter<InternalRow>() {
          @Override public void write(InternalRow row) {}

          @Override public void writeAll(Iterator<InternalRow> rows) { taking.accept(rows); }

          @Override public WriterCommitMessage commit() { return new Message(); }

          @Override public void abort() {}

          @Override public void close() {}
        };
  }

  private static void insert(DeltaPipe pipe, int rows) {
    for (int n = 0; n < rows; n++) { pipe.insert(new GenericInternalRow(new Object[] {n})); }
  }

  private static void rowsArriveInOrderAndTheMessageIsPythons() {
    List<InternalRow> taken = new ArrayList<>();
    DeltaPipe pipe = new DeltaPipe(writer(rows -> rows.forEachRemaining(taken::add)), ROWS, 0, 0);
    insert(pipe, 10_000);
    check(pipe.commit(), new Message());
    check(taken.size(), 10_000);
    for (int n = 0; n < taken.size(); n++) { check(taken.get(n).getInt(4), n); }
    pipe.close();
  }

  private static void rowsThatPythonDidNotTakeFailTheTask() {
    for (int rows : new int[] {1, 10_000}) {
      DeltaPipe pipe = new DeltaPipe(writer(all -> all.hasNext()), ROWS, 0, 0);
      String said =
          failure(
              () -> {
                insert(pipe, rows);
                pipe.commit();
              });
      check(said, "Python did not take all rows");
      pipe.close();
    }
  }

  private static void whatFailsInPythonFailsTheTask() {
    DataWriterFactory broken =
        writer(rows -> { throw new IllegalStateException("on its way"); });
    DeltaPipe pipe = new DeltaPipe(broken, ROWS, 0, 0);
    insert(pipe, 3);
    check(failure(pipe::commit), "on its way");
    pipe.close();
  }

  private static void aCancelledTaskWaitsForPythonAndStaysCancelled() {
    AtomicBoolean undone = new AtomicBoolean();
    DataWriterFactory slow =
        writer(
            rows -> {
              try {
                rows.forEachRemaining(row -> {});
              } catch (IllegalStateException givenUp) {
                long until = System.nanoTime() + 300_000_000L;
                while (System.nanoTime() < until) { Thread.onSpinWait(); }
                undone.set(true);
                throw givenUp;
              }
            });
    DeltaPipe pipe = new DeltaPipe(slow, ROWS, 0, 0);
    insert(pipe, 3);
    Thread.currentThread().interrupt();
    pipe.close();
    check(undone.get(), true);
    check(Thread.interrupted(), true);
  }

  // Batches of Arrow.

  private static void aBatchThatIsCutShortIsRefused(Path folder) throws Exception {
    byte[] whole = Files.readAllBytes(folder.resolve("lists.arrow"));
    try (ColumnarBatch batch = lists(whole)) {
      check(batch.getRow(1).getArray(0).getInt(0), 3);
    }
    byte[] wrong = Files.readAllBytes(folder.resolve("wrong.arrow"));
    check(failure(() -> lists(wrong)), "a buffer of an Arrow batch is shorter than its rows");
    byte[] cut = Arrays.copyOf(whole, whole.length - 20);
    check(failure(() -> lists(cut)), "an Arrow batch was cut short on its way from Python");
  }

  private static ColumnarBatch lists(byte[] stream) {
    DataType list = DataTypes.createArrayType(DataTypes.IntegerType);
    ByteBuffer bytes = ByteBuffer.wrap(stream).order(ByteOrder.LITTLE_ENDIAN);
    ArrowColumn[] columns = ArrowColumn.columns(new StructType().add("list", list));
    return ArrowColumn.load(columns, bytes, stream, Platform.BYTE_ARRAY_OFFSET);
  }

  private static void onlyTheMemoryThatWasMeantIsMapped(Path folder) throws Exception {
    Path memory = folder.resolve("ring");
    ByteBuffer bytes = ByteBuffer.allocate(4096).order(ByteOrder.LITTLE_ENDIAN);
    Files.write(memory, bytes.putLong(8, 0xabcL).putLong(64, 1L).array());
    check(Ring.of("abd:" + memory) == null, true);
    check(Ring.of("abc:" + folder.resolve("nowhere")) == null, true);
    Ring ring = Ring.of("abc:" + memory);
    check(Ring.of("abc:" + memory) == ring, true);
    ring.free(0);
    ByteBuffer now = ByteBuffer.wrap(Files.readAllBytes(memory)).order(ByteOrder.LITTLE_ENDIAN);
    check(List.of(now.getLong(0), now.getLong(64)), List.of(1L, 0L));
  }

  // Predicates.

  private static void predicatesBecomeTreesOrStay() {
    StructType schema = new StructType().add("n", "int").add("d", "double").add("s", "string");
    Predicates trees = new Predicates(info(schema));
    Expression n = TableInfo.column("n");
    Expression seven = new LiteralValue<>(7, DataTypes.IntegerType);
    check(text(trees, "<", seven, n), "> n 7");
    check(text(trees, "<=>", n, new LiteralValue<>(null, DataTypes.IntegerType)), "<=> n null");
    check(text(trees, "=", n, new LiteralValue<>(null, DataTypes.IntegerType)), "stays");
    check(text(trees, "=", n, new LiteralValue<>(7L, DataTypes.LongType)), "stays");
    Expression nan = new LiteralValue<>(Double.NaN, DataTypes.DoubleType);
    check(text(trees, "=", TableInfo.column("d"), nan), "stays");
    UTF8String noText = UTF8String.fromBytes(new byte[] {-1});
    Expression broken = new LiteralValue<>(noText, DataTypes.StringType);
    check(text(trees, "STARTS_WITH", TableInfo.column("s"), broken), "stays");
    check(text(trees, "=", TableInfo.column("unknown"), seven), "stays");
    Predicate deep = new Predicate("=", new Expression[] {n, seven});
    for (int i = 0; i < 40; i++) { deep = new Predicate("NOT", new Expression[] {deep}); }
    check(trees.tree(deep) == null, true);
  }

  private static String text(Predicates trees, String op, Expression... sides) {
    Map<String, Object> tree = trees.tree(new Predicate(op, sides));
    if (tree == null) { return "stays"; }
    List<?> arguments = (List<?>) tree.get("args");
    Object literal = ((Map<?, ?>) arguments.get(1)).get("lit");
    return tree.get("op") + " " + ((Map<?, ?>) arguments.get(0)).get("col") + " " + literal;
  }

  private static TableInfo info(StructType schema) {
    Map<String, Object> answer = new HashMap<>();
    for (String name : List.of("can", "sortable", "indexed", "ignored", "constraints")) {
      answer.put(name, List.of());
    }
    for (String name : List.of("source", "widths", "properties")) { answer.put(name, Map.of()); }
    answer.put("schema", schema.json());
    answer.put("filterable", List.of("n", "d", "s"));
    answer.put("type_key", "node:T");
    answer.putAll(Map.of("branch", "main", "version", 1, "pinned", false, "rows", 1));
    return TableInfo.of(Bridge.parse(Bridge.json(answer)));
  }
}
