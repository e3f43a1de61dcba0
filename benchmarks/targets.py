"""What is to be reached: each promise is a line of data, judged by what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.baselines import ITS_PARQUET, LANCE_SPARK
from benchmarks.measure import Timing

Measured = Mapping[str, Mapping[str, Timing]]


@dataclass(frozen=True)
class Target:
    """Our time divided by another's is to be at most `bound`."""

    work: str
    against: str
    bound: float
    #: `wall_s`, `cpu_s`, or `p95_s` of the wall times.
    of: str = "wall_s"
    ours: str = "omnigraph"
    #: The work of the other, where it is another one.
    other: str | None = None

    def ratio(self, measured: Measured) -> float | None:
        """Return what was reached; None when it was not measured."""
        ours = measured.get(self.work, {}).get(self.ours)
        theirs = measured.get(self.other or self.work, {}).get(self.against)
        if ours is None or theirs is None:
            return None
        return float(getattr(ours, self.of) / getattr(theirs, self.of))


@dataclass(frozen=True)
class Added(Target):
    """What each further piece adds to our time is to be at most `bound` seconds."""

    pieces: int = 1

    def ratio(self, measured: Measured) -> float | None:
        more = measured.get(self.work, {}).get(self.ours)
        less = measured.get(self.other or self.work, {}).get(self.against)
        if more is None or less is None:
            return None
        return (more.wall_s - less.wall_s) / self.pieces


@dataclass(frozen=True)
class Beside(Target):
    """Our ratio to Parquet is to be at most `bound` of another's, each in its own session."""

    def ratio(self, measured: Measured) -> float | None:
        ours = Target(self.work, "parquet", self.bound, self.of, self.ours).ratio(measured)
        theirs = Target(self.work, ITS_PARQUET, self.bound, self.of, self.against).ratio(measured)
        return None if ours is None or theirs is None else ours / theirs


def _both(*works: str, against: str, bound: float) -> list[Target]:
    return [Target(work, against, bound) for work in works]


_SCANS = (
    "count",
    "sum of one column",
    "filter 1%, sum",
    "group by kind",
    "max(length(text))",
    "all 12 columns",
)

TARGETS: tuple[Target, ...] = (
    Target("count", "parquet", 0.2),
    Target("sum of one column", "parquet", 0.6),
    Target("filter 1%, sum", "parquet", 0.45),
    Target("group by kind", "parquet", 0.8),
    Target("max(length(text))", "parquet", 0.6),
    Target("all 12 columns", "parquet", 0.68),
    Target("all 12 columns", "parquet", 1.0, of="cpu_s"),
    *_both(*_SCANS, against="delta", bound=0.7),
    *(Beside(work, LANCE_SPARK, 1.0) for work in (*_SCANS, "bulk write")),
    *(
        Target(work, "simplest", 0.7, ours="pip")
        for work in ("sum of one column", "group by kind", "max(length(text))", "all 12 columns")
    ),
    Target("one id", "delta", 0.02),
    Target("1,000 ids", "delta", 0.1),
    Target("edges of 100 nodes", "delta", 0.1),
    Target("two hops from 100 nodes", "delta", 0.2),
    Target("triplets join", "delta", 0.8),
    Target("bulk write", "parquet", 1.2),
    Target("bulk write", "parquet", 1.0, ours="rows"),
    Target("import of Parquet files", "parquet", 0.5),
    Target("upsert 1%", "delta", 0.1),
    Target("update 1%", "delta", 0.15),
    Target("delete 1%", "delta", 0.05),
    Added(
        "commit of 8 types",
        "no session",
        0.02,
        ours="no session",
        other="commit of 1 type",
        pieces=7,
    ),
    Target("small commit", "delta", 0.4),
    Target("small commit", "delta", 0.4, of="p95_s"),
    *(
        Target("commit after a history", f"10 commits{alone}", 1.2, ours=f"{count} commits{alone}")
        for alone in ("", ", no session")
        for count in ("1,000", "10,000")
    ),
    Target("load JSONL, overwrite", "engine", 0.33),
    Target("load JSONL, append", "engine", 0.2),
    Target("load JSONL, merge", "engine", 0.2),
    Target("SHOW TABLES", "delta", 1.0),
    Target("SELECT one row", "delta", 0.5),
    Target("SELECT COUNT(*)", "delta", 0.5),
    Target("INSERT one row", "delta", 1.0),
    Target("UPDATE one row", "delta", 0.5),
)
