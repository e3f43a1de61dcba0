"""A session that does a little of what tests do: its JVM keeps the classes it loaded for others.

`make test` runs it once, with `-XX:ArchiveClassesAtExit=…` in `SPARK_SUBMIT_OPTS`.
"""

from __future__ import annotations

from tests.conftest import small_session


def main() -> None:
    """Plan, compile and run a query, and wait for the JVM, which writes when it ends."""
    spark = small_session().getOrCreate()
    java = spark.sparkContext._gateway.proc
    spark.range(9).selectExpr("id", "id % 2 AS half").createOrReplaceTempView("numbers")
    spark.sql("SELECT half, count(*) FROM numbers GROUP BY half ORDER BY half").collect()
    spark.stop()
    java.stdin.close()
    java.wait(120)


if __name__ == "__main__":
    main()
