package io.omnigraph.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** What a scan adds to Spark's figures in its web interface; each is a class by Spark's rules. */
public final class ScanMetrics {
  private ScanMetrics() {}

  private abstract static class Figure extends CustomSumMetric {
    @Override public String name() { return "omnigraph" + getClass().getSimpleName(); }
  }

  /** Fragments that tasks read from. */
  public static final class Fragments extends Figure {
    @Override public String description() { return "fragments scanned"; }
  }

  /** Requests to storage. */
  public static final class Requests extends Figure {
    @Override public String description() { return "requests to storage"; }
  }

  /** Bytes these requests returned. */
  public static final class BytesRead extends Figure {
    @Override public String description() { return "bytes read from storage"; }
  }

  /** Arrow batches that arrived. */
  public static final class Batches extends Figure {
    @Override public String description() { return "Arrow batches read"; }
  }

  /** Those of them that lay in shared memory. */
  public static final class SharedBatches extends Figure {
    @Override public String description() { return "Arrow batches read in shared memory"; }
  }

  /** Rows of all batches. */
  public static final class Rows extends Figure {
    @Override public String description() { return "rows that left Lance"; }
  }

  /** One of each. */
  static CustomMetric[] all() {
    return new CustomMetric[] {
      new Fragments(), new Requests(), new BytesRead(), new Batches(), new SharedBatches(),
      new Rows()
    };
  }

  /** The figures of one task, in the same order. */
  static final class Totals {
    private final long[] values = new long[6];

    void add(ColumnarBatch batch, boolean inRing) {
      values[3] += 1;
      values[4] += inRing ? 1 : 0;
      values[5] += batch.numRows();
    }

    void cost(InternalRow cell) {
      values[0] = cell.getLong(7);
      values[1] = cell.getLong(5);
      values[2] = cell.getLong(6);
    }

    CustomTaskMetric[] values() {
      CustomMetric[] metrics = all();
      CustomTaskMetric[] out = new CustomTaskMetric[metrics.length];
      for (int i = 0; i < out.length; i++) { out[i] = new Value(metrics[i].name(), values[i]); }
      return out;
    }
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
