package org.apache.spark.sql.connector.catalog;

import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark 4.2's interface of that name, as far as the jar implements it. */
public interface Changelog {
  String name();

  Column[] columns();

  boolean containsCarryoverRows();

  boolean containsIntermediateChanges();

  boolean representsUpdateAsDeleteAndInsert();

  ScanBuilder newScanBuilder(CaseInsensitiveStringMap options);

  NamedReference[] rowId();

  NamedReference rowVersion();
}
