"""``make bench-lance-spark``: lance-spark beside Spark 3.5's Parquet, on ``make bench``'s rows.

The results are kept with those of ``make bench``, each with the baseline of its own session.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from benchmarks.command import chosen, options, parsed, run
from benchmarks.lance_spark import lookups, scans, writes
from benchmarks.lance_spark.jars import VERSION
from benchmarks.lance_spark.session import open_session

GROUPS: dict[str, ModuleType] = {"scans": scans, "lookups": lookups, "writes": writes}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    given = parsed(options("benchmarks.lance_spark", __doc__, GROUPS), arguments, GROUPS)
    with open_session(given.data, given.rows, given.cores, given.memory) as session:
        versions = {"lance-spark": f"{VERSION} on Spark {session.spark.version}"}
        run(chosen(GROUPS, session, given.only), given, versions)


if __name__ == "__main__":
    main()
