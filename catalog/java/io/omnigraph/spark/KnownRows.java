package io.omnigraph.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Makes rows that are known while planning a part of the plan, where a query reads nothing else.
 *
 * <p>Spark then computes what is above them at once: a count or a row by its id takes no job. For
 * an answer as a scan it would start one, only to rename its column. Joins keep their scans, by
 * which Spark finds out which rows of the other side are needed; so do subqueries, which become
 * joins after they were optimized, and statements that write.
 */
final class KnownRows extends Rule<LogicalPlan> {
  private static final KnownRows RULE = new KnownRows();

  private KnownRows() {}

  /** Has this session's planner do so; it is told once. */
  static void know() {
    var session = (org.apache.spark.sql.classic.SparkSession) SparkSession.active();
    var methods = session.experimental();
    synchronized (methods) {
      Seq<Rule<LogicalPlan>> rules = methods.extraOptimizations();
      if (!rules.contains(RULE)) {
        List<Rule<LogicalPlan>> more = new ArrayList<>(CollectionConverters.asJava(rules));
        more.add(RULE);
        methods.extraOptimizations_$eq(seq(more));
      }
    }
  }

  @Override public LogicalPlan apply(LogicalPlan plan) {
    Seq<LogicalPlan> leaves = plan.collectLeaves();
    boolean known =
        !(plan instanceof Command || plan instanceof Subquery)
            && leaves.size() == 1
            && leaves.head() instanceof DataSourceV2ScanRelation relation
            && relation.scan() instanceof OmnigraphAnswer
            && plan.subqueriesAll().isEmpty();
    return known ? computed(withRows(plan)) : plan;
  }

  /** Spark's own rule takes one step above the rows at a time. */
  private static LogicalPlan computed(LogicalPlan plan) {
    LogicalPlan next = ConvertToLocalRelation.apply(plan);
    return next.fastEquals(plan) ? plan : computed(next);
  }

  private static LogicalPlan withRows(LogicalPlan plan) {
    if (!(plan instanceof DataSourceV2ScanRelation relation)) {
      return plan.mapChildren(KnownRows::withRows);
    }
    List<Attribute> columns = new ArrayList<>(CollectionConverters.asJava(relation.output()));
    List<InternalRow> rows = List.of(((OmnigraphAnswer) relation.scan()).rows());
    return new LocalRelation(seq(columns), seq(rows), false, Option.empty());
  }

  private static <T> Seq<T> seq(List<T> list) { return CollectionConverters.asScala(list).toSeq(); }
}
