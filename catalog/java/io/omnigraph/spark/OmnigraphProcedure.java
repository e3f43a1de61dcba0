package io.omnigraph.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** {@code CALL og.system.…}: a procedure as Python described it; Python runs it, once. */
final class OmnigraphProcedure implements UnboundProcedure, BoundProcedure {
  private final Bridge bridge;
  private final Identifier called;
  private final JsonNode described;

  OmnigraphProcedure(Bridge bridge, Identifier called, JsonNode described) {
    this.bridge = bridge;
    this.called = called;
    this.described = described;
  }

  @Override public String name() { return called.name(); }

  @Override public String description() { return described.get("about").asText(); }

  @Override public BoundProcedure bind(StructType arguments) { return this; }

  @Override public boolean isDeterministic() { return false; }

  @Override public ProcedureParameter[] parameters() {
    List<ProcedureParameter> out = new ArrayList<>();
    for (JsonNode each : described.get("parameters")) {
      DataType type = DataType.fromJson(each.get("type").asText());
      var parameter = ProcedureParameter.in(each.get("name").asText(), type);
      parameter.comment(each.get("about").asText());
      if (!each.get("default").isNull()) {
        parameter.defaultValue(each.get("default").asText());
      }
      out.add(parameter.build());
    }
    return out.toArray(new ProcedureParameter[0]);
  }

  @Override public Iterator<Scan> call(InternalRow input) {
    Map<String, Object> arguments = new LinkedHashMap<>();
    ProcedureParameter[] parameters = parameters();
    for (int i = 0; i < parameters.length; i++) {
      DataType type = parameters[i].dataType();
      arguments.put(parameters[i].name(), SqlValues.plain(input.get(i, type), type));
    }
    List<String> namespace = List.of(called.namespace());
    Map<String, Object> asked =
        Map.of("namespace", namespace, "name", name(), "arguments", arguments);
    JsonNode answer = bridge.ask("call_procedure", asked);
    bridge.remember(answer.get("session"));
    StructType columns = (StructType) DataType.fromJson(described.get("result").asText());
    List<Object[]> rows = new ArrayList<>();
    answer.get("rows").forEach(row -> rows.add(SqlValues.row(row, columns)));
    return List.<Scan>of(new OmnigraphAnswer(columns, rows, "CALL " + name())).iterator();
  }
}
