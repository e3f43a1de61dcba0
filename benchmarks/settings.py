"""Settings that the sessions of all contestants share; nothing here needs one line of Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def shared(memory: str) -> dict[str, str]:
    """Return the settings of every session; `memory` is that of its JVM."""
    return {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": "-Divy.message.logger.level=0",
    }


def find_workers() -> None:
    """Let the JVM start this interpreter for Python workers, and let those find the benchmarks."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    here = str(Path(__file__).resolve().parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
