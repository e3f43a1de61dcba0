package io.omnigraph.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * Rows that are known while planning: no task, no worker.
 *
 * @param description what plans show
 */
record OmnigraphAnswer(StructType readSchema, InternalRow[] rows, String description)
    implements LocalScan, SupportsReportStatistics {

  /** The rows of an Arrow stream, which Python sent as text. */
  static OmnigraphAnswer of(StructType schema, JsonNode text, String what) {
    byte[] stream = Base64.getDecoder().decode(text.asText());
    ByteBuffer bytes = ByteBuffer.wrap(stream).order(ByteOrder.LITTLE_ENDIAN);
    List<InternalRow> rows = new ArrayList<>();
    ArrowColumn.load(ArrowColumn.columns(schema), bytes, stream, Platform.BYTE_ARRAY_OFFSET)
        .rowIterator()
        .forEachRemaining(row -> rows.add(row.copy()));
    return new OmnigraphAnswer(schema, rows.toArray(new InternalRow[0]), what);
  }

  @Override public Statistics estimateStatistics() {
    return new ScanSize(rows.length, (double) rows.length * readSchema.defaultSize());
  }
}
