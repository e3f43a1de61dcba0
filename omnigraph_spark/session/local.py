"""A quiet local SparkSession, for the demonstration and for benchmarks."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession


def local_session(name: str, cores: str = "*") -> SparkSession:
    """Start Spark in this process, without its web interface and without its chatter."""
    # The JVM starts the Python workers: they must be this interpreter, which has the package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
