package io.omnigraph.spark;

import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * UPDATE, MERGE, and DELETE by what Lance cannot evaluate: each row says what becomes of it.
 *
 * <p>Spark reads the table, decides, and hands over rows to delete, to update and to insert. They
 * go to one Python writer, with the id and the place of the row they were.
 */
record OmnigraphDelta(OmnigraphCatalogTable table, RowLevelOperationInfo operation)
    implements SupportsDelta {

  @Override public Command command() { return operation.command(); }

  @Override public String description() { return table.name(); }

  @Override public NamedReference[] rowId() {
    return new NamedReference[] {Expressions.column(OmnigraphCatalogTable.ID)};
  }

  @Override public NamedReference[] requiredMetadataAttributes() {
    return new NamedReference[] {
      Expressions.column(OmnigraphTable.ROW_ID), Expressions.column(OmnigraphTable.ROW_ADDRESS)
    };
  }

  @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return table.newScanBuilder(options);
  }

  @Override public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    PlannedTable written = table.written(info.options());
    return new DeltaWriteBuilder() {
      @Override public DeltaWrite build() { return new Decided(written, info); }
    };
  }

  /** The rows of one statement on their way to Python. */
  private record Decided(PlannedTable table, LogicalWriteInfo info) implements DeltaWrite {
    @Override public String description() { return table.table().name(); }

    /** Called when the statement runs: by now all its tables have joined the pin. */
    @Override public DeltaBatchWrite toBatch() {
      Map<String, String> options = table.writing(table.pin().reads());
      options.put("__delta", "true");
      StructType rows = info.schema();
      var write = table.table().bridge.write(info, sent(rows), options).build();
      return new Batch(write.toBatch(), rows);
    }

    /** What Python gets: what becomes of a row, its id, number and place, and new values. */
    private static StructType sent(StructType rows) {
      String facts = "__op int NOT NULL, __id string, __rowid bigint, __rowaddr bigint";
      StructType out = StructType.fromDDL(facts);
      for (StructField field : rows.fields()) {
        // Of rows that are deleted there are no values.
        out = out.add(field.name(), field.dataType(), true);
      }
      return out;
    }
  }

  private record Batch(BatchWrite python, StructType rows) implements DeltaBatchWrite {
    @Override public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
      return new Writers(python.createBatchWriterFactory(info), rows);
    }

    @Override public boolean useCommitCoordinator() { return python.useCommitCoordinator(); }

    @Override public void commit(WriterCommitMessage[] messages) { python.commit(messages); }

    @Override public void abort(WriterCommitMessage[] messages) { python.abort(messages); }
  }

  /** Goes to the executors. */
  private record Writers(DataWriterFactory python, StructType rows) implements DeltaWriterFactory {
    @Override public DeltaWriter<InternalRow> createWriter(int partition, long task) {
      return new DeltaPipe(python, rows, partition, task);
    }
  }
}
