package io.omnigraph.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;

/**
 * The keys of a type as Spark's constraints: shown by DESCRIBE, and the planner may rely on them.
 *
 * <p>Rules about single values are left out: Spark would check them a second time on every write.
 */
final class TableConstraints {
  private TableConstraints() {}

  static Constraint[] of(JsonNode described) {
    List<Constraint> out = new ArrayList<>();
    for (JsonNode each : described) {
      out.add(one(each.get("name").asText(), columns(each.get("columns")), each.get("to")));
    }
    return out.toArray(new Constraint[0]);
  }

  private static Constraint one(String name, NamedReference[] columns, JsonNode to) {
    if (!to.isNull()) {
      String[] nodes = {to.get(0).asText()};
      Identifier other = Identifier.of(nodes, to.get(1).asText());
      NamedReference[] ids = {Expressions.column("id")};
      return Constraint.foreignKey(name, columns, other, ids).rely(true).enforced(true).build();
    }
    return name.equals("id")
        ? Constraint.primaryKey(name, columns).rely(true).enforced(true).build()
        : Constraint.unique(name, columns).rely(true).enforced(true).build();
  }

  private static NamedReference[] columns(JsonNode names) {
    return StreamSupport.stream(names.spliterator(), false)
        .map(name -> TableInfo.column(name.asText()))
        .toArray(NamedReference[]::new);
  }
}
