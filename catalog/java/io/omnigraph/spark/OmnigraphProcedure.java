package io.omnigraph.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** {@code CALL og.system.…}: a procedure as Python described it; Python runs it, once. */
record OmnigraphProcedure(Bridge bridge, Identifier called, JsonNode described)
    implements UnboundProcedure, BoundProcedure {

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
      if (!each.get("default").isNull()) { parameter.defaultValue(each.get("default").asText()); }
      out.add(parameter.build());
    }
    return out.toArray(new ProcedureParameter[0]);
  }

  @Override public Iterator<Scan> call(InternalRow input) {
    Map<String, Object> arguments = new LinkedHashMap<>();
    ProcedureParameter[] parameters = parameters();
    for (int i = 0; i < parameters.length; i++) {
      DataType type = parameters[i].dataType();
      arguments.put(parameters[i].name(), plain(input.get(i, type), type));
    }
    List<String> namespace = List.of(called.namespace());
    Map<String, Object> asked =
        Map.of("namespace", namespace, "name", name(), "arguments", arguments);
    JsonNode answer = bridge.ask("call_procedure", asked);
    bridge.remember(answer.get("session"));
    StructType columns = (StructType) DataType.fromJson(described.get("result").asText());
    Scan rows = OmnigraphAnswer.of(columns, answer.get("rows"), "CALL " + name());
    return List.of(rows).iterator();
  }

  /** An argument as JSON can hold it; times are microseconds. */
  private static Object plain(Object value, DataType type) {
    if (value instanceof ArrayData list && type instanceof ArrayType of) {
      return Arrays.stream(list.toObjectArray(of.elementType()))
          .map(each -> plain(each, of.elementType()))
          .toList();
    }
    return value instanceof UTF8String text ? text.toString() : value;
  }
}
