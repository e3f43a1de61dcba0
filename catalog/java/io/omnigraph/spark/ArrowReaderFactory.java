package io.omnigraph.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;

/**
 * The executors' end of the tunnel: rows that each carry, or name the place of, one Arrow batch.
 *
 * <p>Batches are read where they lie, so no value is copied row by row. A batch lives until the
 * next one is asked for; its place is given back then, or when the task closes its reader, however
 * it ends.
 */
public record ArrowReaderFactory(PartitionReaderFactory python, StructType schema)
    implements PartitionReaderFactory {

  /**
   * What Python hands over: the ring, the place in it with offset and length, or the batch itself;
   * in the last row instead of a batch what the scan has cost.
   */
  static final StructType TUNNEL =
      new StructType()
          .add("ring", DataTypes.StringType)
          .add("place", DataTypes.IntegerType)
          .add("offset", DataTypes.LongType)
          .add("length", DataTypes.IntegerType)
          .add("ipc", DataTypes.BinaryType)
          .add("requests", DataTypes.LongType)
          .add("read", DataTypes.LongType)
          .add("fragments", DataTypes.LongType);

  /** Places in shared memory that readers of this process hold now: zero when none is open. */
  public static long heldPlaces() { return Ring.HELD.get(); }

  @Override public boolean supportColumnarReads(InputPartition partition) { return true; }

  @Override public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("batches are columnar");
  }

  @Override public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new BatchReader(python.createReader(partition), ArrowColumn.columns(schema));
  }

  /** The batches of one task. */
  private static final class BatchReader implements PartitionReader<ColumnarBatch> {
    private final PartitionReader<InternalRow> cells;
    private final ArrowColumn[] columns;
    private final ScanMetrics.Totals totals = new ScanMetrics.Totals();
    private Ring ring;
    private boolean announced;
    private ColumnarBatch batch;
    private int held = -1;

    BatchReader(PartitionReader<InternalRow> cells, ArrowColumn[] columns) {
      this.cells = cells;
      this.columns = columns;
    }

    @Override public boolean next() throws IOException {
      release();
      if (!cells.next()) { return false; }
      InternalRow cell = cells.get();
      if (cell.isNullAt(1) && cell.isNullAt(4)) {
        totals.cost(cell);
        return next();
      }
      // One that this process may not map stays out of reach.
      if (!announced && !cell.isNullAt(0)) {
        announced = true;
        ring = Ring.of(cell.getUTF8String(0).toString());
      }
      batch = cell.isNullAt(4) ? inRing(cell) : inline(cell.getBinary(4));
      totals.add(batch, held >= 0);
      return true;
    }

    private ColumnarBatch inRing(InternalRow cell) throws IOException {
      if (ring == null) {
        throw new IOException("the memory shared with a Python worker is gone; is it still alive?");
      }
      held = cell.getInt(1);
      Ring.HELD.incrementAndGet();
      ByteBuffer stream = ring.slice(cell.getLong(2), cell.getInt(3));
      return ArrowColumn.load(columns, stream, null, ring.address(cell.getLong(2)));
    }

    private ColumnarBatch inline(byte[] stream) {
      ByteBuffer bytes = ByteBuffer.wrap(stream).order(ByteOrder.LITTLE_ENDIAN);
      return ArrowColumn.load(columns, bytes, stream, Platform.BYTE_ARRAY_OFFSET);
    }

    @Override public ColumnarBatch get() { return batch; }

    @Override public CustomTaskMetric[] currentMetricsValues() { return totals.values(); }

    private void release() {
      batch = null;
      if (held >= 0) {
        ring.free(held);
        held = -1;
        Ring.HELD.decrementAndGet();
      }
    }

    @Override public void close() throws IOException {
      release();
      cells.close();
    }
  }
}
