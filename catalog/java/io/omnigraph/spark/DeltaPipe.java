package io.omnigraph.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of one task on their way into one Python writer.
 *
 * <p>Spark pushes rows, the Python writer pulls them: a second thread of the task runs the writer,
 * behind a short queue. So a task is one Python call and one message, whatever it decides, and
 * memory holds a few blocks of rows.
 */
final class DeltaPipe implements DeltaWriter<InternalRow> {
  private static final int DELETE = 0;
  private static final int UPDATE = 1;
  private static final int INSERT = 2;

  /** Rows that change hands at once, and how many such blocks wait at most. */
  private static final int BLOCK = 256;
  private static final int BLOCKS = 8;

  /** How long either side waits before it looks whether the other is still there. */
  private static final long LOOK_MS = 100;

  /** How long a task that gives up waits for Python to delete its files. */
  private static final long UNDO_MS = 10_000;

  private static final int FACTS = 4;

  private final StructType rows;
  private final ArrayBlockingQueue<List<InternalRow>> queue = new ArrayBlockingQueue<>(BLOCKS);
  private final FutureTask<WriterCommitMessage> python;
  private List<InternalRow> block = new ArrayList<>(BLOCK);
  private volatile boolean complete;
  private volatile boolean givenUp;

  DeltaPipe(DataWriterFactory writers, StructType rows, int partition, long task) {
    this.rows = rows;
    this.python = new FutureTask<>(() -> write(writers, partition, task));
    Bridge.threadOfTask("omnigraph rows of task " + task, python).start();
  }

  // In Python's thread.

  /** Returns a message of Spark's own class, which the driver knows wherever this jar came from. */
  private WriterCommitMessage write(DataWriterFactory writers, int partition, long task)
      throws IOException {
    try (DataWriter<InternalRow> writer = writers.createWriter(partition, task)) {
      Incoming incoming = new Incoming();
      writer.writeAll(incoming);
      if (!incoming.ended) { throw new IllegalStateException("Python did not take all rows"); }
      return writer.commit();
    }
  }

  /** The rows as they come; it ends when the task says so, and fails when the task gives up. */
  private final class Incoming implements Iterator<InternalRow> {
    private Iterator<InternalRow> current = List.<InternalRow>of().iterator();
    private boolean ended;

    @Override public boolean hasNext() {
      while (!current.hasNext()) {
        // Looked at before the queue, into which nothing more comes then.
        boolean last = complete;
        long wait = last ? 0 : LOOK_MS;
        List<InternalRow> next = waiting(() -> queue.poll(wait, TimeUnit.MILLISECONDS));
        if (next != null) {
          current = next.iterator();
        } else if (givenUp) {
          throw new IllegalStateException("the task that decides about the rows gave up");
        } else if (last) {
          ended = true;
          return false;
        }
      }
      return true;
    }

    @Override public InternalRow next() { return current.next(); }
  }

  // In the task's own thread.

  @Override public void delete(InternalRow metadata, InternalRow id) {
    add(DELETE, metadata, id, null);
  }

  @Override public void update(InternalRow metadata, InternalRow id, InternalRow row) {
    add(UPDATE, metadata, id, row);
  }

  @Override public void insert(InternalRow row) { add(INSERT, null, null, row); }

  /** Spark uses the rows again, so they are copied. */
  private void add(int operation, InternalRow metadata, InternalRow id, InternalRow row) {
    Object[] values = new Object[FACTS + rows.length()];
    values[0] = operation;
    if (id != null) {
      values[1] = id.getUTF8String(0).copy();
      values[2] = metadata.getLong(0);
      values[3] = metadata.getLong(1);
    }
    if (row != null) {
      InternalRow copy = row.copy();
      for (int i = 0; i < rows.length(); i++) {
        values[FACTS + i] = copy.isNullAt(i) ? null : copy.get(i, rows.apply(i).dataType());
      }
    }
    block.add(new GenericInternalRow(values));
    if (block.size() == BLOCK) { send(); }
  }

  private void send() {
    boolean sent = false;
    while (!sent && !python.isDone()) {
      sent = waiting(() -> queue.offer(block, LOOK_MS, TimeUnit.MILLISECONDS));
    }
    // It ends before the rows do only where it failed.
    if (!sent) { waiting(python::get); }
    block = new ArrayList<>(BLOCK);
  }

  @Override public WriterCommitMessage commit() {
    send();
    complete = true;
    return waiting(python::get);
  }

  /** Waits for the other side; what failed there fails here, and so does a task that is stopped. */
  private static <T> T waiting(Wait<T> wait) {
    try {
      return wait.end();
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(stop);
    } catch (ExecutionException failed) {
      if (failed.getCause() instanceof RuntimeException known) { throw known; }
      throw new IllegalStateException(failed.getCause());
    }
  }

  private interface Wait<T> {
    T end() throws InterruptedException, ExecutionException;
  }

  @Override public void abort() { close(); }

  /**
   * After a failure Python is told to give up, and has a moment to delete what it wrote: also where
   * the task was cancelled, which interrupts it.
   */
  @Override public void close() {
    givenUp = true;
    boolean cancelled = Thread.interrupted();
    try {
      python.get(UNDO_MS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException again) {
      cancelled = true;
    } catch (ExecutionException | TimeoutException over) {
      // What failed was told before; what takes longer is left to recovery.
    }
    if (cancelled) { Thread.currentThread().interrupt(); }
  }
}
