package io.omnigraph.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of an Arrow batch, read where the batch lies: in a byte array or in shared memory.
 *
 * <p>Nothing is copied or allocated, so nothing has to be freed. Spark's own view of Arrow memory
 * checks bounds and counts references with every value, which on sums of numbers costs as much as
 * the sum. Here the extent of every buffer is checked once, when a batch is loaded; Python casts
 * batches to exactly the Arrow types of the Spark schema, which decide the layout.
 */
final class ArrowColumn extends ColumnVector {
  private final ArrowColumn[] children;
  private Object base;
  private long validity;
  private long values;
  private long content;
  private int nulls;

  private ArrowColumn(DataType type) {
    super(type);
    if (type instanceof ArrayType array) {
      children = new ArrowColumn[] {new ArrowColumn(array.elementType())};
    } else if (type instanceof StructType struct) {
      children = columns(struct);
    } else {
      children = new ArrowColumn[0];
    }
  }

  /** Columns of this schema, to be loaded with one batch after another. */
  static ArrowColumn[] columns(StructType schema) {
    StructField[] fields = schema.fields();
    ArrowColumn[] out = new ArrowColumn[fields.length];
    for (int i = 0; i < out.length; i++) { out[i] = new ArrowColumn(fields[i].dataType()); }
    return out;
  }

  /**
   * Loads columns with the one batch of an Arrow IPC stream.
   *
   * @param stream the stream, in little endian; the batch lies where it lies
   * @param base the array that holds it, or null for memory outside the heap
   * @param address where the stream begins, in {@link Platform}'s terms
   */
  static ColumnarBatch load(ArrowColumn[] columns, ByteBuffer stream, Object base, long address) {
    // Each message is a mark, the length of its description, the description and its buffers.
    int at = 8 + stream.getInt(4);
    int described = stream.getInt(at + 4);
    ByteBuffer text = stream.slice(at + 8, described).order(ByteOrder.LITTLE_ENDIAN);
    Message message = Message.getRootAsMessage(text);
    RecordBatch batch = (RecordBatch) message.header(new RecordBatch());
    int body = at + 8 + described;
    if (batch == null || body + message.bodyLength() > stream.limit()) {
      throw new IllegalStateException("an Arrow batch was cut short on its way from Python");
    }
    Cursor cursor = new Cursor(batch, base, address + body, message.bodyLength());
    for (ArrowColumn column : columns) { column.load(cursor); }
    return new ColumnarBatch(columns, Math.toIntExact(batch.length()));
  }

  /** Where the next column's counts and buffers stand in the description of a batch. */
  private static final class Cursor {
    private final RecordBatch batch;
    private final Object base;
    private final long body;
    private final long size;
    private int node;
    private int buffer;

    Cursor(RecordBatch batch, Object base, long body, long size) {
      this.batch = batch;
      this.base = base;
      this.body = body;
      this.size = size;
    }

    private long next(long least) {
      var described = batch.buffers(buffer++);
      check(least <= described.length() && described.offset() + described.length() <= size);
      return body + described.offset();
    }
  }

  private static void check(boolean isWhole) {
    if (!isWhole) {
      throw new IllegalStateException("a buffer of an Arrow batch is shorter than its rows");
    }
  }

  /** Returns how many values the column has. */
  private long load(Cursor cursor) {
    var node = cursor.batch.nodes(cursor.node++);
    long rows = node.length();
    base = cursor.base;
    nulls = Math.toIntExact(node.nullCount());
    // Columns without nulls may have no bits for them.
    validity = cursor.next(nulls == 0 ? 0 : (rows + 7) / 8);
    if (type instanceof StructType) {
      for (ArrowColumn child : children) { child.load(cursor); }
      return rows;
    }
    boolean offsets =
        type instanceof ArrayType || type instanceof StringType || type instanceof BinaryType;
    values = cursor.next(rows == 0 ? 0 : offsets ? 4 * (rows + 1) : (rows * bits() + 7) / 8);
    long end = offsets && rows > 0 ? Platform.getInt(base, values + 4 * rows) : 0;
    if (type instanceof ArrayType) {
      check(end <= children[0].load(cursor));
    } else if (offsets) {
      content = cursor.next(end);
    }
    return rows;
  }

  /** The bits of a value; Spark's defaults are Arrow's bytes, but for truth values and decimals. */
  private int bits() {
    return switch (type.typeName()) {
      case "boolean" -> 1;
      case "byte" -> 8;
      case "short" -> 16;
      case "integer", "date", "float" -> 32;
      case "long", "timestamp", "timestamp_ntz", "double" -> 64;
      default -> {
        if (type.typeName().startsWith("decimal")) { yield 128; }
        throw new IllegalStateException("no column of type " + type.typeName() + " is expected");
      }
    };
  }

  @Override public boolean hasNull() { return nulls > 0; }

  @Override public int numNulls() { return nulls; }

  @Override public boolean isNullAt(int row) { return nulls > 0 && !bit(validity, row); }

  @Override public boolean getBoolean(int row) { return bit(values, row); }

  private boolean bit(long from, int row) {
    return (Platform.getByte(base, from + (row >> 3)) >> (row & 7) & 1) == 1;
  }

  @Override public byte getByte(int row) { return Platform.getByte(base, values + row); }

  @Override public short getShort(int row) { return Platform.getShort(base, values + 2L * row); }

  @Override public int getInt(int row) { return Platform.getInt(base, values + 4L * row); }

  @Override public long getLong(int row) { return Platform.getLong(base, values + 8L * row); }

  @Override public float getFloat(int row) { return Platform.getFloat(base, values + 4L * row); }

  @Override public double getDouble(int row) { return Platform.getDouble(base, values + 8L * row); }

  @Override public Decimal getDecimal(int row, int precision, int scale) {
    byte[] digits = new byte[16];
    for (int i = 0; i < 16; i++) {
      digits[i] = Platform.getByte(base, values + 16L * row + 15 - i);
    }
    BigDecimal value = new BigDecimal(new BigInteger(digits), scale);
    return isNullAt(row) ? null : Decimal.apply(value, precision, scale);
  }

  @Override public UTF8String getUTF8String(int row) {
    int start = getInt(row);
    return isNullAt(row)
        ? null
        : UTF8String.fromAddress(base, content + start, getInt(row + 1) - start);
  }

  @Override public byte[] getBinary(int row) {
    if (isNullAt(row)) { return null; }
    int start = getInt(row);
    byte[] out = new byte[getInt(row + 1) - start];
    Platform.copyMemory(base, content + start, out, Platform.BYTE_ARRAY_OFFSET, out.length);
    return out;
  }

  @Override public ColumnarArray getArray(int row) {
    int start = getInt(row);
    return isNullAt(row) ? null : new ColumnarArray(children[0], start, getInt(row + 1) - start);
  }

  @Override public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException("no type of a graph is a map");
  }

  @Override public ColumnVector getChild(int ordinal) { return children[ordinal]; }

  /** Nothing to free: without its base a column would read anywhere. */
  @Override public void close() {}
}
