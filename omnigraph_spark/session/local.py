"""A quiet local SparkSession, for the command line, the demonstration and benchmarks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from omnigraph_spark.session.configure import configure, use_this_python
from omnigraph_spark.session.lakehouse.delta_jar import delta_jar

#: What Delta needs of a session; Spark fetches the jar.
DELTA_SETTINGS = {
    "spark.jars.packages": delta_jar(),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

#: For a session that ends within a minute: code is compiled once and simply, memory is collected by
#: one thread. On two cores compiling it well costs more than it brings.
_BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: How the codes of our errors begin, wherever Spark puts them.
_OURS = "[OMNIGRAPH_"

Answer = tuple[list[str], Iterable[Row]]
"""The columns and rows of a statement."""


def local_session(
    name: str,
    cores: str = "*",
    catalogs: Mapping[str, str] | None = None,
    delta: bool = False,
    brief: bool = False,
) -> SparkSession:
    """Start Spark in this process, without its web interface and without its chatter.

    Args:
        name: What the application is called.
        cores: How many cores it uses.
        catalogs: Names of SQL catalogs and the roots of their graphs.
        delta: Whether Delta tables are used as well.
        brief: Whether it ends soon, and starting fast is worth more than computing fast.
    """
    use_this_python({"spark.master": "local"})
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1" if brief else "4")
        .config("spark.sql.session.timeZone", "UTC")
    )
    # Options of the user's own (extraJavaOptions) come after these.
    builder = builder.config("spark.driver.defaultJavaOptions", _java_options(brief))
    for key, value in DELTA_SETTINGS.items() if delta else ():
        builder = builder.config(key, value)
    if delta:
        # Delta reads its log in 50 tasks, however small it is.
        builder = builder.config("spark.databricks.delta.snapshotPartitions", "4")
    if catalogs:
        builder = configure(builder, options=None, **catalogs)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _java_options(brief: bool) -> str:
    """Have the JVM log errors alone: before a session is there, nothing else could tell it."""
    quiet = Path(str(files(__package__))) / "quiet.properties"
    logging = f"-Dlog4j2.configurationFile={quiet.as_uri()}"
    return f"{logging} {_BRIEF}" if brief else logging


def answer(spark: SparkSession, statement: str, most: int | None) -> Answer:
    """Run a statement and return its columns and its first rows, or all of them as they come."""
    frame = spark.sql(statement)
    if not frame.columns:
        return [], ()
    rows = frame.toLocalIterator() if most is None else frame.limit(most).collect()
    return frame.columns, rows


@contextmanager
def problems_told() -> Iterator[None]:
    """Let what Spark finds wrong be a StatementError of a few lines."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise StatementError(told(str(error))) from error


class StatementError(Exception):
    """What is wrong with a statement, in a few lines."""


def told(text: str) -> str:
    """Return what matters of a text of Spark's: an error of ours, else its first lines.

    >>> told("Job aborted: ConflictError: [OMNIGRAPH_CONFLICT] too late")
    '[OMNIGRAPH_CONFLICT] too late'
    """
    lines = text.splitlines()
    ours = [line[line.index(_OURS) :] for line in lines if _OURS in line]
    # The last is the outermost. What follows the first lines is the plan, or Java's stack.
    return ours[-1] if ours else "\n".join(lines[:6])
