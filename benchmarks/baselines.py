"""Who is compared with whom: ratios are taken within one session, never across two."""

from __future__ import annotations

from collections.abc import Collection

#: Spark's own Parquet; where nobody reads or writes that, the next of these that took part.
_USUAL = ("parquet", "delta", "engine")
#: lance-spark is made for Spark 3.5: it runs in a session of its own, and so does its baseline.
LANCE_SPARK, LANCE_SPARK_SCANNING = "lance-spark", "lance-spark, no index"
ITS_PARQUET = "parquet (3.5)"
_APART = (LANCE_SPARK, LANCE_SPARK_SCANNING, ITS_PARQUET)


def apart(who: str) -> bool:
    """Say whether a contestant ran in the other session, that of Spark 3.5."""
    return who in _APART


def baseline(who: str, contestants: Collection[str]) -> str | None:
    """Return whom one is compared with, None when nobody in its session is a baseline.

    >>> baseline("omnigraph", ["delta", "omnigraph", "lance-spark", "parquet (3.5)"])
    'delta'
    >>> baseline("lance-spark", ["delta", "omnigraph", "lance-spark", "parquet (3.5)"])
    'parquet (3.5)'
    >>> baseline("lance-spark", ["delta", "omnigraph", "lance-spark"])
    """
    if apart(who):
        return ITS_PARQUET if ITS_PARQUET in contestants else None
    together = [each for each in contestants if not apart(each)]
    return next((each for each in _USUAL if each in together), together[0])
