"""A Delta table, through Spark's SQL alone: what it holds, its marks, how rows are brought in.

Nothing here needs the Python package of Delta: classic sessions and Connect work alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.exports import Mark
from omnigraph_spark.session.lakehouse.delta_jar import delta_jar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A note that Delta puts into the commit that a statement makes.
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
#: Commits that change no row.
_SILENT = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES")
#: How Spark without Delta understands its statements: as a table called DETAIL, or not at all.
_NO_DELTA = ("TABLE_OR_VIEW_NOT_FOUND", "DATA_SOURCE_NOT_FOUND", "PARSE_SYNTAX_ERROR")
_HOW = (
    f"pip install 'omnigraph-spark[delta]', add {delta_jar()} with "
    "spark.jars.packages, and set spark.sql.extensions and spark.sql.catalog.spark_catalog as "
    "Delta's guide says"
)


@dataclass(frozen=True)
class DeltaTable:
    """A Delta table at a path, whether it is there yet or not."""

    spark: SparkSession
    path: str

    @property
    def _name(self) -> str:
        return "delta.`" + self.path.replace("`", "``") + "`"

    def table_id(self) -> str | None:
        """Return what tells this table from any other; None when there is none."""
        try:
            row = self.spark.sql(f"DESCRIBE DETAIL {self._name}").select("format", "id").first()
        except AnalysisException as error:
            condition = error.getCondition() or ""
            if condition.split(".")[0] in _NO_DELTA:
                raise UnsupportedError("Delta tables in a session without Delta", _HOW) from error
            if condition == "DELTA_MISSING_DELTA_TABLE":
                return None
            raise
        return None if row is None or row["format"] != "delta" else str(row["id"])

    def version(self) -> int:
        """Return the newest version."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT 1").first()
        return int(history["version"]) if history is not None else 0

    def mark(self) -> tuple[Mark | None, bool]:
        """Return the newest mark, and whether the rows are still those it stands for."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self._name}")
        marked = f.col("userMetadata").contains('"omnigraph"')
        loud = ~f.col("operation").isin(*_SILENT)
        newest = history.where(marked | loud).orderBy(f.col("version").desc()).limit(1).first()
        mark = None if newest is None else Mark.from_json(newest["userMetadata"])
        if mark is not None:
            return mark, True
        older = history.where(marked).orderBy(f.col("version").desc()).limit(1).first()
        return (None if older is None else Mark.from_json(older["userMetadata"])), False

    def replace(self, rows: DataFrame, mark: Mark) -> None:
        """Let the table hold exactly these rows, with their columns."""
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.option("userMetadata", mark.to_json()).save(self.path)

    def apply(self, changes: DataFrame, columns: Sequence[str], mark: Mark) -> None:
        """Bring net changes in by id, together with the mark, in one commit of the table."""
        quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
        updates = ", ".join(f"t.{name} = s.{name}" for name in quoted)
        values = ", ".join(f"s.{name}" for name in quoted)
        with self._noted(mark), _view(changes) as view:
            self.spark.sql(
                f"MERGE INTO {self._name} t USING {view} s ON t.id = s.id "
                "WHEN MATCHED AND s._change_type = 'delete' THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET {updates} "
                "WHEN NOT MATCHED AND s._change_type <> 'delete' "
                f"THEN INSERT ({', '.join(quoted)}) VALUES ({values})"
            ).collect()

    def read(self, version: int) -> DataFrame:
        """Return the rows of a version."""
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.path)

    def feed(self, first: int, last: int) -> DataFrame:
        """Return the change data feed of versions, both included."""
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", first).option("endingVersion", last)
        return reader.load(self.path)

    @contextmanager
    def _noted(self, mark: Mark) -> Iterator[None]:
        before = self.spark.conf.get(_NOTE, None)
        self.spark.conf.set(_NOTE, mark.to_json())
        try:
            yield
        finally:
            if before is None:
                self.spark.conf.unset(_NOTE)
            else:
                self.spark.conf.set(_NOTE, before)


@contextmanager
def _view(frame: DataFrame) -> Iterator[str]:
    name = f"omnigraph_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
