"""What all works share: one session with every contestant's settings, the data, room for copies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

import omnigraph_spark as og
from benchmarks.data import Data
from benchmarks.settings import find_workers, shared
from omnigraph_spark.session.lakehouse.delta_jar import delta_jar

#: Ours with the jar is `omnigraph`, without it `pip`; `pylance` reads without Spark: the limit.
CONTESTANTS = (
    "omnigraph",
    "pip",
    "parquet",
    "delta",
    "simplest",
    "simplest, named",
    "pylance",
    "engine",
)


@dataclass(frozen=True)
class Stage:
    """A session, the rows, and a folder for what is written."""

    spark: SparkSession
    data: Data
    scratch: Path
    contestants: Collection[str]

    def read(self, contestant: str, name: str, columns: str | None = None) -> DataFrame:
        """Read a type as a contestant does; without a jar columns must be named beforehand."""
        if contestant == "parquet":
            return self.spark.read.parquet(self.data.parquet(name))
        if contestant == "delta":
            return self.spark.read.format("delta").load(self.data.delta(name))
        if contestant.startswith("simplest"):
            reader = self.spark.read.format("simplest")
            if contestant.endswith("named"):
                reader = reader.option("columns", columns)
            return reader.load(self.lance_path(name))
        source = "omnigraph_pip" if contestant == "pip" else "omnigraph"
        reader = self.spark.read.format(source).option("type", name)
        if contestant == "pip" and columns is not None:
            reader = reader.option("columns", columns)
        return reader.load(str(self.data.graph))

    def lance_path(self, name: str) -> str:
        """Return the address of a type's dataset."""
        entries = og.open(self.data.graph, mode="r").entries
        key = f"edge:{name}" if name == "Knows" else f"node:{name}"
        return str(self.data.graph / entries[key].path)

    def copy_of_graph(self, name: str) -> Path:
        """Return a copy that may be written to; files are shared, since nobody changes one."""
        return self.copy_of(self.data.graph, name)

    def copy_of_delta(self, table: str, name: str) -> Path:
        """Return a copy of a Delta table that may be written to."""
        return self.copy_of(Path(self.data.delta(table)), name)

    def fresh(self, name: str) -> Path:
        """Return a path with nothing there."""
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def know(self, catalog: str, root: Path) -> None:
        """Have the session know a graph by name, as `og` is known."""
        og.attach(self.spark, **{catalog: str(root)})

    def copy_of(self, source: Path, name: str) -> Path:
        """Return a copy of a folder whose files are shared: nobody changes one in place."""
        target = self.fresh(name)
        shutil.copytree(source, target, copy_function=os.link)
        return target


@contextmanager
def open_stage(
    folder: Path, rows: int, contestants: Iterable[str], cores: str = "*", memory: str = "4g"
) -> Iterator[Stage]:
    """Start the session, make what data is missing, and clean up in the end."""
    data, wanted = Data(folder / f"{rows}", rows), frozenset(contestants)
    data.folder.mkdir(parents=True, exist_ok=True)
    spark = _session(data, "delta" in wanted, cores, memory)
    try:
        data.prepare(spark, wanted)
        with TemporaryDirectory(prefix="scratch-", dir=data.folder) as scratch:
            yield Stage(spark, data, Path(scratch), wanted)
    finally:
        spark.stop()


def _session(data: Data, delta: bool, cores: str, memory: str) -> SparkSession:
    find_workers()
    settings = shared(memory)
    if delta:
        settings |= {
            "spark.jars.packages": delta_jar(),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # As shipped, Delta reads its log in 50 tasks: unfair on two cores.
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
        }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("benchmarks")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = og.configure(builder, og=str(data.graph)).getOrCreate()
    from benchmarks.sources import PipSource, SimplestSource

    spark.dataSource.register(PipSource)
    spark.dataSource.register(SimplestSource)
    return spark
