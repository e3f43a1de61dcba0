"""The jars of lance-spark: Spark's own package resolution fetches them, once for an environment.

They have to come before Spark's own on the class path, which is settled when a JVM starts: so
another process finds out where they are.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

VERSION = "0.4.0"
_PACKAGE = f"org.lance:lance-spark-3.5_2.12:{VERSION}"
_RESOLVE = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.jars.packages", sys.argv[1]).getOrCreate()
print(spark.sparkContext.getConf().get("spark.jars"))
spark.stop()
"""


def class_path() -> str:
    """Return the jars, as a class path."""
    known = Path(sys.prefix) / f"lance-spark-{VERSION}.jars"
    jars = known.read_text().splitlines() if known.exists() else []
    if not jars or not all(Path(jar).exists() for jar in jars):
        print(f"fetching {_PACKAGE} and what it needs …", flush=True)
        jars = _fetched()
        known.write_text("\n".join(jars))
    return ":".join(jars)


def _fetched() -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _RESOLVE, _PACKAGE], capture_output=True, text=True, check=False
    )
    if done.returncode:
        # Only now: what Spark prints of each package it looks for is hundreds of lines.
        sys.exit(f"{done.stderr}\nSpark could not fetch {_PACKAGE}")
    return [jar.removeprefix("file://") for jar in done.stdout.split()[-1].split(",")]
