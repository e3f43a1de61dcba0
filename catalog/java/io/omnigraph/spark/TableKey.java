package io.omnigraph.spark;

import java.util.List;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;

/**
 * A key of a type as Spark's constraint: shown by DESCRIBE, and the planner may rely on it.
 *
 * <p>Rules about single values are left out: Spark would check them a second time on every write.
 *
 * @param to for an end of edges the namespace and the type of its nodes, else null
 */
record TableKey(String name, List<String> columns, List<String> to) {
  Constraint constraint() {
    var own = columns.stream().map(TableInfo::column).toArray(NamedReference[]::new);
    if (to != null) {
      Identifier nodes = Identifier.of(new String[] {to.get(0)}, to.get(1));
      NamedReference[] ids = {Expressions.column("id")};
      return Constraint.foreignKey(name, own, nodes, ids).rely(true).enforced(true).build();
    }
    return name.equals("id")
        ? Constraint.primaryKey(name, own).rely(true).enforced(true).build()
        : Constraint.unique(name, own).rely(true).enforced(true).build();
  }
}
