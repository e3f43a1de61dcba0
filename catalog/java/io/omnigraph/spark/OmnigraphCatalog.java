package io.omnigraph.spark;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A graph as a SQL catalog: owns the names, and asks Python what they stand for.
 *
 * <p>{@code spark.sql.catalog.og=io.omnigraph.spark.OmnigraphCatalog}, {@code
 * spark.sql.catalog.og.path=…}; further options are the defaults of everything read and written.
 */
public class OmnigraphCatalog implements TableCatalog, SupportsNamespaces, ProcedureCatalog {
  /** Tells Python that options hold for reading and for writing. */
  private static final String CATALOG = "__catalog";

  private static final String SCHEMA_ADVICE =
      "a type is part of the graph's schema, and apply_schema is not there yet: change the schema"
          + " with the engine, by omnigraph schema apply --schema <file> <graph>";
  private static final String BRANCH_ADVICE =
      "branches are namespaces: use CALL system.create_branch and system.delete_branch";

  private String name;
  private Bridge bridge;

  @Override public void initialize(String catalogName, CaseInsensitiveStringMap options) {
    name = catalogName;
    Map<String, String> sent = new HashMap<>(options.asCaseSensitiveMap());
    sent.put(CATALOG, catalogName);
    bridge = Bridge.ofSession(sent);
  }

  @Override public String name() { return name; }

  @Override public String[] defaultNamespace() { return new String[] {"nodes"}; }

  // Tables.

  @Override public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List<String> names = askNamespace("list_tables", namespace, new TypeReference<>() {});
    return names.stream().map(each -> Identifier.of(namespace, each)).toArray(Identifier[]::new);
  }

  @Override public Table loadTable(Identifier table) throws NoSuchTableException {
    return load(table, "load_table", Map.of());
  }

  @Override public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    return load(table, "load_table", Map.of("version", version));
  }

  @Override public Table loadTable(Identifier table, long microseconds)
      throws NoSuchTableException {
    return load(table, "load_table", Map.of("timestamp_us", microseconds));
  }

  /** Asks for a table by its name; that it leads nowhere is Spark's own condition. */
  private OmnigraphTable load(Identifier table, String question, Map<String, ?> more)
      throws NoSuchTableException {
    Map<String, Object> asked = new HashMap<>(more);
    asked.put("namespace", List.of(table.namespace()));
    asked.put("table", table.name());
    String shown = name + "." + String.join(".", table.namespace()) + "." + table.name();
    try {
      TableInfo info = TableInfo.of(bridge.ask(question, asked));
      return info.typeKey() == null
          ? new OmnigraphTable(bridge, shown, info)
          : new OmnigraphCatalogTable(bridge, shown, info);
    } catch (OmnigraphException error) {
      if (error.meansNoSuchName()) { throw new NoSuchTableException(table); }
      throw error;
    }
  }

  /** The changes of a table. No {@code @Override}: Spark 4.1 has neither method nor classes. */
  public Changelog loadChangelog(
      Identifier table, ChangelogContext asked, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    Map<String, Object> range = OmnigraphChangelog.question(asked.range());
    return OmnigraphChangelog.of(load(table, "load_changes", range));
  }

  @Override public Table createTable(
      Identifier table, Column[] columns, Transform[] parts, Map<String, String> properties) {
    throw OmnigraphException.unsupported("CREATE TABLE", SCHEMA_ADVICE);
  }

  @Override public Table alterTable(Identifier table, TableChange... changes) {
    throw OmnigraphException.unsupported("ALTER TABLE", SCHEMA_ADVICE);
  }

  @Override public boolean dropTable(Identifier table) {
    throw OmnigraphException.unsupported("DROP TABLE", SCHEMA_ADVICE);
  }

  @Override public void renameTable(Identifier from, Identifier to) {
    throw OmnigraphException.unsupported("ALTER TABLE … RENAME", SCHEMA_ADVICE);
  }

  // Namespaces: nodes, edges and system, below a branch or at the top.

  @Override public String[][] listNamespaces() throws NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  @Override public String[][] listNamespaces(String[] parent) throws NoSuchNamespaceException {
    return askNamespace("list_namespaces", parent, new TypeReference<>() {});
  }

  @Override public Map<String, String> loadNamespaceMetadata(String[] namespace)
      throws NoSuchNamespaceException {
    return askNamespace("describe_namespace", namespace, new TypeReference<>() {});
  }

  private <T> T askNamespace(String question, String[] namespace, TypeReference<T> answer)
      throws NoSuchNamespaceException {
    try {
      JsonNode said = bridge.ask(question, Map.of("namespace", List.of(namespace)));
      return Bridge.JSON.convertValue(said, answer);
    } catch (OmnigraphException error) {
      if (error.meansNoSuchName()) { throw new NoSuchNamespaceException(namespace); }
      throw error;
    }
  }

  // Procedures: those of Python, in the namespace system, below a branch or at the top.

  @Override public UnboundProcedure loadProcedure(Identifier called) {
    JsonNode described = procedures(called.namespace(), called.name());
    return new OmnigraphProcedure(bridge, called, described.get(0));
  }

  @Override public Identifier[] listProcedures(String[] namespace) {
    List<Identifier> out = new ArrayList<>();
    for (JsonNode described : procedures(namespace, null)) {
      out.add(Identifier.of(namespace, described.get("name").asText()));
    }
    return out.toArray(new Identifier[0]);
  }

  /** The procedures of a namespace as Python describes them, or the one of that name. */
  private JsonNode procedures(String[] namespace, String called) {
    Map<String, Object> asked = new HashMap<>(Map.of("namespace", List.of(namespace)));
    asked.put("name", called);
    return bridge.ask("describe_procedures", asked);
  }

  @Override public void createNamespace(String[] namespace, Map<String, String> metadata) {
    throw OmnigraphException.unsupported("CREATE NAMESPACE", BRANCH_ADVICE);
  }

  @Override public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw OmnigraphException.unsupported("ALTER NAMESPACE", BRANCH_ADVICE);
  }

  @Override public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw OmnigraphException.unsupported("DROP NAMESPACE", BRANCH_ADVICE);
  }
}
