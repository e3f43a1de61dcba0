package io.omnigraph.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collection;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table as part of the plan under construction: with the pin of the plan, and its options.
 *
 * @param table the table
 * @param info what Python said of it at the snapshot it was loaded at
 * @param pin the version the whole plan reads
 * @param given the options of catalog and frame
 */
record PlannedTable(
    OmnigraphTable table, TableInfo info, PlanPins.Pin pin, Map<String, String> given) {

  PlannedTable(
      OmnigraphTable table, TableInfo info, Map<String, String> given, boolean read) {
    this(table, info, PlanPins.join(info, read), given);
  }

  /** A table as what the plan writes to: on top of what it reads, whether or not of this table. */
  static PlannedTable written(OmnigraphTable table, CaseInsensitiveStringMap options) {
    Map<String, String> given = table.bridge.options();
    given.putAll(options.asCaseSensitiveMap());
    return new PlannedTable(table, table.info(), given, false);
  }

  /** Refuses columns that are not the table's own any more under the options of this read. */
  void check(String[] columns) {
    for (String column : columns) {
      var own = table.schema().getFieldIndex(column);
      if (own.isDefined() && !info.has(table.schema().apply(column))) {
        String advice =
            "give options about columns to a catalog or to format(\"omnigraph\"),"
                + " and versions with VERSION AS OF";
        String what = "leaving out or changing column '" + column + "' by options of one read";
        throw OmnigraphException.unsupported(what, advice);
      }
    }
  }

  /** The options by which Python finds this table at the version of the plan, which it fixes. */
  Map<String, String> options() {
    Map<String, String> out = onBranch();
    if (!info.areChanges()) { out.put("version", Long.toString(pin.version())); }
    return out;
  }

  /** The options by which Python writes to this table, unless types that were read have moved. */
  Map<String, String> writing(Collection<String> reads) {
    Map<String, String> out = onBranch();
    out.put("__pin", Long.toString(pin.version()));
    out.put("__reads", Bridge.json(reads));
    return out;
  }

  private Map<String, String> onBranch() {
    Map<String, String> out = Bridge.anyCase(given);
    OmnigraphTable.forgetSource(out);
    out.putAll(info.source());
    out.put("branch", info.branch());
    return out;
  }

  /** Asks Python about this table at the version of the plan. */
  JsonNode ask(String question, Map<String, ?> arguments) {
    return new Bridge(options()).ask(question, arguments);
  }
}
