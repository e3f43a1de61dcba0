package io.omnigraph.spark;

import java.util.Map;
import org.apache.spark.SparkThrowable;

/**
 * An error of the engine on its way to the SQL user: its code is the condition Spark reports.
 *
 * <p>An illegal argument to the JVM, because PySpark shows the text of those without a stack trace.
 */
final class OmnigraphException extends IllegalArgumentException implements SparkThrowable {
  private final String code;

  private OmnigraphException(String code, String message) {
    super(message);
    this.code = code;
  }

  /** The exception that Spark's users expect for an error with this code; the text says all. */
  static RuntimeException of(String code, String message) {
    if (code.startsWith("OMNIGRAPH_OPTION")) { return new IllegalArgumentException(message); }
    if (code.equals("OMNIGRAPH_UNSUPPORTED")) { return new UnsupportedOperationException(message); }
    return new OmnigraphException(code, message);
  }

  /** The refusal of a statement; the advice names what does it. */
  static UnsupportedOperationException unsupported(String what, String advice) {
    String text = "[OMNIGRAPH_UNSUPPORTED] " + what + " is not supported; " + advice;
    return new UnsupportedOperationException(text);
  }

  /**
   * Whether the error says that a name leads nowhere, for which Spark has conditions; a branch that
   * an option or {@code VERSION AS OF} names is no part of a table's name.
   */
  boolean meansNoSuchName() {
    return code.equals("OMNIGRAPH_TYPE_NOT_FOUND")
        || code.equals("OMNIGRAPH_NAMESPACE_NOT_FOUND");
  }

  @Override public String getCondition() { return code; }

  @Override public Map<String, String> getMessageParameters() {
    return Map.of("message", getMessage());
  }
}
