"""A session of Spark 3.5 with lance-spark first on its class path, and its copies of the rows.

lance-spark writes its own tables, in the storage version of ours and with vectors of fixed size. It
reads ours too, but takes instants for days, so it would do less. Where an index helps there is the
same table without one: files are shared.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

from benchmarks.baselines import ITS_PARQUET, LANCE_SPARK, LANCE_SPARK_SCANNING
from benchmarks.data import COLUMNS, Data
from benchmarks.lance_spark.jars import class_path
from benchmarks.settings import find_workers, shared

#: Name of a catalog -> folder of its tables below the rows. The scratch folder is another one.
_FOLDERS = {"indexed": "lance-spark", "plain": "lance-spark-plain"}
_CATALOGS = {LANCE_SPARK: "indexed", LANCE_SPARK_SCANNING: "plain"}
_INDEXED = (("Row", "id"), ("Knows", "src"), ("Knows", "dst"))
_VECTORS = {"Row": {"vector": 8}, "Document": {"embedding": 128}}


@dataclass(frozen=True)
class Session:
    """A session, the rows, and a folder for what is written."""

    spark: SparkSession
    data: Data
    scratch: Path

    def read(self, contestant: str, name: str, columns: str | None = None) -> DataFrame:
        """Read a type as a contestant does; nobody here needs to be told the columns."""
        if contestant == ITS_PARQUET:
            return self.spark.read.parquet(self.data.parquet(name))
        return self.spark.table(f"{_CATALOGS[contestant]}.default.{name}")

    def fresh(self, name: str) -> Path:
        """Return a path with nothing there."""
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def catalog(self, name: str) -> str:
        """Return a new catalog of that name, with nothing in it."""
        self._know(name, self.fresh(name))
        return name

    def copy(self, name: str) -> str:
        """Return a catalog of copies that may be written to; nobody changes a file in place."""
        _linked(self.data.folder / _FOLDERS["indexed"], self.fresh(name))
        self._know(name, self.scratch / name)
        return name

    def prepare(self) -> None:
        """Make what is not there yet."""
        self.data.prepare_parquet(self.spark)
        plain, indexed = (self.data.folder / _FOLDERS[catalog] for catalog in ("plain", "indexed"))
        self._know("plain", plain)
        self._know("indexed", indexed)
        for name in COLUMNS:
            self.data.once(f"lance-spark/{name}", partial(self._write, name))
        self.data.once("lance-spark/copy", partial(_linked, plain, indexed))
        for name, column in _INDEXED:
            part = f"lance-spark/index of {name}.{column}"
            self.data.once(part, partial(self._build_index, name, column))

    def _write(self, name: str) -> None:
        rows = self.spark.read.parquet(self.data.parquet(name))
        new_table(rows, f"plain.default.{name}", name).createOrReplace()

    def _build_index(self, name: str, column: str) -> None:
        table = f"indexed.default.{name}"
        self.spark.sql(f"ALTER TABLE {table} CREATE INDEX by_{column} USING btree ({column})")

    def _know(self, catalog: str, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        key = f"spark.sql.catalog.{catalog}"
        self.spark.conf.set(key, "org.lance.spark.LanceNamespaceSparkCatalog")
        self.spark.conf.set(f"{key}.impl", "dir")
        self.spark.conf.set(f"{key}.root", str(root))
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.default")


def new_table(rows: DataFrame, table: str, type_name: str) -> DataFrameWriterV2:
    """Return the writer of a new table: the newest files it writes, vectors of fixed size."""
    writer = rows.writeTo(table).using("lance").tableProperty("file_format_version", "2.2")
    for column, size in _VECTORS.get(type_name, {}).items():
        writer = writer.tableProperty(f"{column}.arrow.fixed-size-list.size", str(size))
    return writer


@contextmanager
def open_session(folder: Path, rows: int, cores: str, memory: str) -> Iterator[Session]:
    """Start the session, make what data is missing, and clean up in the end."""
    data = Data(folder / f"{rows}", rows)
    data.folder.mkdir(parents=True, exist_ok=True)
    find_workers()
    settings = shared(memory) | {
        "spark.driver.extraClassPath": class_path(),
        "spark.sql.extensions": "org.lance.spark.extensions.LanceSparkSessionExtensions",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("benchmarks")
    spark = builder.config(map=settings).getOrCreate()
    try:
        with TemporaryDirectory(prefix="scratch-", dir=data.folder) as scratch:
            session = Session(spark, data, Path(scratch))
            session.prepare()
            yield session
    finally:
        spark.stop()


def _linked(source: Path, target: Path) -> None:
    """Copy a folder whose files are shared: nobody changes one in place."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)
