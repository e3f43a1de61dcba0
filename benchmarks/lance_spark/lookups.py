"""The look-ups of ``make bench``: lance-spark with its index and without, and Parquet beside it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.baselines import ITS_PARQUET, LANCE_SPARK, LANCE_SPARK_SCANNING
from benchmarks.lance_spark.session import Session
from benchmarks.lookups import NAMES as NAMES
from benchmarks.lookups import WARM_UPS, neighbours, rows_by_id, triplets, two_hops
from benchmarks.measure import Work

_INDEXED = (ITS_PARQUET, LANCE_SPARK, LANCE_SPARK_SCANNING)


def works(session: Session) -> Iterator[Work]:
    """Yield every look-up; each repeat looks for other ids."""
    for name, count in (("one id", 1), ("1,000 ids", 1_000)):
        ways = {who: partial(rows_by_id, session, who, count) for who in _INDEXED}
        yield Work(name, ways, repeats=5, warm_ups=WARM_UPS)
    for name, find in (("edges of 100 nodes", neighbours), ("two hops from 100 nodes", two_hops)):
        ways = {who: partial(find, session, who) for who in _INDEXED}
        yield Work(name, ways, repeats=5, warm_ups=WARM_UPS)
    together = {who: partial(triplets, session, who) for who in (ITS_PARQUET, LANCE_SPARK)}
    yield Work("triplets join", together)
