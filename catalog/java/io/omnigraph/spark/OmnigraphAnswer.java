package io.omnigraph.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Rows that are known while planning: no task, no worker. */
final class OmnigraphAnswer implements LocalScan, SupportsReportStatistics {
  private final StructType schema;
  private final InternalRow[] rows;
  private final String what;

  /** Rows of Spark's internal values; {@code what} is shown in plans. */
  OmnigraphAnswer(StructType schema, List<Object[]> rows, String what) {
    this(schema, rows.stream().map(GenericInternalRow::new).toArray(InternalRow[]::new), what);
  }

  private OmnigraphAnswer(StructType schema, InternalRow[] rows, String what) {
    this.schema = schema;
    this.rows = rows;
    this.what = what;
  }

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

  @Override public StructType readSchema() { return schema; }

  @Override public String description() { return what; }

  @Override public InternalRow[] rows() { return rows.clone(); }

  @Override public Statistics estimateStatistics() {
    long bytes = Math.max(1, (long) rows.length * schema.defaultSize());
    return new Statistics() {
      @Override public OptionalLong sizeInBytes() { return OptionalLong.of(bytes); }

      @Override public OptionalLong numRows() { return OptionalLong.of(rows.length); }
    };
  }
}
