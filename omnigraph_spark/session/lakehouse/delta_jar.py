"""Which jar of Delta goes with which Spark: there is one for each line."""

from __future__ import annotations

import pyspark

#: Published for Spark 4.1 and 4.2, and what `omnigraph-spark[delta]` installs.
DELTA = "4.4.0"


def delta_jar(spark: str = pyspark.__version__) -> str:
    """Return the coordinate of the jar, for `spark.jars.packages`.

    >>> delta_jar("4.1.3"), delta_jar("4.2.0")
    ('io.delta:delta-spark_4.1_2.13:4.4.0', 'io.delta:delta-spark_4.2_2.13:4.4.0')
    """
    line = ".".join(spark.split(".")[:2])
    return f"io.delta:delta-spark_{line}_2.13:{DELTA}"
