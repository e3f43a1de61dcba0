"""The scans of ``make bench``, read by lance-spark."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.baselines import ITS_PARQUET, LANCE_SPARK
from benchmarks.lance_spark.session import Session
from benchmarks.measure import Work
from benchmarks.scans import NAMES as NAMES
from benchmarks.scans import scan, with_spark


def works(session: Session) -> Iterator[Work]:
    """Yield every scan."""
    for name in NAMES:
        yield scan(name, with_spark(session, name, (ITS_PARQUET, LANCE_SPARK)))
