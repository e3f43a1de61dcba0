package io.omnigraph.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The way from the JVM to the Python data source: questions, scans and writes.
 *
 * <p>With {@link PlanPins} and {@link KnownRows} the only class that names Spark internals. Spark
 * keeps what a {@code PythonDataSourceV2} planned and hands it to the next query on it, so each
 * question, scan and write gets a fresh one.
 */
final class Bridge {
  static final ObjectMapper JSON = new ObjectMapper();

  /** The name of the Python source, which Spark looks for among those of Python alone. */
  private static final String SOURCE = "omnigraph";

  /** Before settings of the session for Hadoop's S3 client: Python translates and ranks them. */
  private static final String HADOOP = "__hadoop.";

  /** Defaults, and what Spark took from the environment, which Python reads itself. */
  private static final Pattern NOT_SET_HERE = Pattern.compile("core-default|from AWS_");

  private final Map<String, String> options;

  /** A bridge that sends these options with everything. */
  Bridge(Map<String, String> options) { this.options = anyCase(options); }

  /** One for the options of a catalog, or of a frame, over settings that the session has. */
  static Bridge ofSession(Map<String, String> options) {
    Bridge bridge = new Bridge(options);
    if (bridge.options.getOrDefault("path", "").startsWith("s3")) { bridge.addHadoopSettings(); }
    return bridge;
  }

  private void addHadoopSettings() {
    var session = (org.apache.spark.sql.classic.SparkSession) SparkSession.active();
    Configuration known = session.sessionState().newHadoopConf();
    known.getPropsWithPrefix("fs.s3a.").forEach((key, value) -> {
      String from = Arrays.toString(known.getPropertySources("fs.s3a." + key));
      if (!NOT_SET_HERE.matcher(from).find()) {
        options.putIfAbsent(HADOOP + "fs.s3a." + key, value);
      }
    });
  }

  /** A copy of the options this bridge sends, to which a caller adds its own. */
  synchronized Map<String, String> options() { return anyCase(options); }

  /** Sends these options from now on as well, or no longer where they are null. */
  synchronized void remember(JsonNode session) {
    session.fields().forEachRemaining(option -> {
      if (option.getValue().isNull()) {
        options.remove(option.getKey());
      } else {
        options.put(option.getKey(), option.getValue().asText());
      }
    });
  }

  /** A copy of options whose keys have no case: the later of two spellings replaces the other. */
  static Map<String, String> anyCase(Map<String, String> given) {
    Map<String, String> out = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    out.putAll(given);
    return out;
  }

  private PythonDataSourceV2 fresh() {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(SOURCE);
    return source;
  }

  /**
   * Asks Python a question and returns its answer.
   *
   * <p>It is answered by the source's {@code schema()}, in a worker that Spark reuses: no job, and
   * no Python driver is needed. The answer is text in the metadata of the only field. An error is
   * an answer too, so that the worker lives on and the message is not buried in a traceback.
   */
  JsonNode ask(String question, Map<String, ?> arguments) {
    Map<String, String> asked = options();
    asked.put("__call", question);
    asked.put("__args", json(arguments));
    StructType answer = fresh().inferSchema(new CaseInsensitiveStringMap(asked));
    JsonNode said = parse(answer.fields()[0].metadata().getString("answer"));
    if (said.has("error")) {
      throw OmnigraphException.of(said.get("error").asText(), said.get("message").asText());
    }
    return said.get("ok");
  }

  /** Has Python plan and read rows of this schema; the options say which. */
  Scan scan(StructType schema, Map<String, String> scanOptions) {
    SupportsRead table = (SupportsRead) table(schema);
    return table.newScanBuilder(new CaseInsensitiveStringMap(scanOptions)).build();
  }

  /** Has Python write rows of this schema; the options say what becomes of them. */
  WriteBuilder write(LogicalWriteInfo info, StructType schema, Map<String, String> writeOptions) {
    var sent = new CaseInsensitiveStringMap(writeOptions);
    var forPython = new Written(sent, info.queryId(), schema);
    return ((SupportsWrite) table(schema)).newWriteBuilder(forPython);
  }

  private record Written(CaseInsensitiveStringMap options, String queryId, StructType schema)
      implements LogicalWriteInfo {}

  /** A thread that belongs to the running task, so that Python workers may be started in it. */
  static Thread threadOfTask(String name, Runnable work) {
    TaskContext context = TaskContext.get();
    Runnable within =
        () -> {
          TaskContext$.MODULE$.setTaskContext(context);
          try {
            work.run();
          } finally {
            TaskContext$.MODULE$.unset();
          }
        };
    Thread thread = new Thread(within, name);
    thread.setDaemon(true);
    return thread;
  }

  /** How many tasks run at the same time. */
  static int parallelism() { return SparkSession.active().sparkContext().defaultParallelism(); }

  /**
   * Whether the plan under construction is known to read one table, once: then nothing is joined.
   *
   * <p>A query that is executed is planned within its execution, by which Spark knows the whole of
   * it. One that is only explained is not known, and may be anything.
   */
  static boolean readsOneTable() {
    var tracker = QueryPlanningTracker.get();
    String execution =
        SparkSession.active()
            .sparkContext()
            .getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    if (tracker.isEmpty() || execution == null) { return false; }
    QueryExecution running = SQLExecution.getQueryExecution(Long.parseLong(execution));
    if (running == null || running.tracker() != tracker.get()) { return false; }
    LogicalPlan plan = running.analyzed();
    return plan.collectLeaves().size() == 1 && plan.subqueriesAll().isEmpty();
  }

  private Table table(StructType schema) {
    return fresh().getTable(schema, new Transform[0], Map.of());
  }

  static String json(Object value) { return JSON.valueToTree(value).toString(); }

  static JsonNode parse(String text) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException broken) {
      throw new IllegalArgumentException(broken);
    }
  }
}
