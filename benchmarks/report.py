"""What was measured, as a table for the terminal, and kept as JSON, Markdown and a chart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.baselines import ITS_PARQUET, apart, baseline
from benchmarks.chart import chart
from benchmarks.measure import Sample, Timing
from benchmarks.processes import Peaks
from benchmarks.targets import TARGETS, Added, Beside, Target


@dataclass(frozen=True)
class Results:
    """Everything that one size was measured with; works by name, timings by contestant."""

    rows: int
    machine: str
    versions: Mapping[str, str]
    works: Mapping[str, Mapping[str, Timing]] = field(default_factory=dict)
    #: Figures that are no times: name -> number.
    figures: Mapping[str, float] = field(default_factory=dict)

    def with_work(self, name: str, timings: Mapping[str, Timing]) -> Results:
        """Return the results with one more work, or with a work measured anew.

        What was measured of it in the other session stays, with the baseline it had there.
        """
        here = {apart(who) for who in timings}
        known = self.works.get(name, {})
        kept = {who: timing for who, timing in known.items() if apart(who) not in here}
        together = sorted({**kept, **timings}.items(), key=lambda item: apart(item[0]))
        return replace(self, works={**self.works, name: dict(together)})

    def with_versions(self, versions: Mapping[str, str]) -> Results:
        """Return the results with the versions of what is measured next."""
        return replace(self, versions={**self.versions, **versions})

    def save(self, folder: Path) -> None:
        """Write all three forms."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / f"{size_name(self.rows)}"
        stem.with_suffix(".json").write_text(json.dumps(self._plain(), indent=1) + "\n")
        stem.with_suffix(".md").write_text("\n".join(markdown(self)) + "\n")
        stem.with_suffix(".svg").write_text(chart(self.works, title(self)))

    @classmethod
    def load(cls, folder: Path, rows: int) -> Results | None:
        """Read what `save` wrote, or None."""
        path = folder / f"{size_name(rows)}.json"
        if not path.exists():
            return None
        plain = json.loads(path.read_text())
        works = {
            name: {who: _timing(timing) for who, timing in timings.items()}
            for name, timings in plain["works"].items()
        }
        return cls(**{**plain, "works": works})

    def _plain(self) -> dict[str, Any]:
        works = {
            name: {
                who: {
                    "wall_s": [round(sample.wall_s, 4) for sample in timing.samples],
                    "cpu_s": [round(sample.cpu_s, 2) for sample in timing.samples],
                    "peak_mib": None if timing.peaks is None else _rounded(timing.peaks),
                }
                for who, timing in timings.items()
            }
            for name, timings in self.works.items()
        }
        return {
            "rows": self.rows,
            "machine": self.machine,
            "versions": dict(self.versions),
            "works": works,
            "figures": dict(self.figures),
        }


def size_name(rows: int) -> str:
    """Name a number of rows.

    >>> size_name(10_000_000), size_name(500_000), size_name(1234)
    ('10M', '500k', '1234')
    """
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if rows >= unit and rows % unit == 0:
            return f"{rows // unit}{letter}"
    return str(rows)


def title(results: Results) -> str:
    """Say what was measured, in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    return f"{size_name(results.rows)} rows; {results.machine}; {versions}"


def table(work: str, timings: Mapping[str, Timing]) -> Iterator[str]:
    """Yield lines about one work: times, spread, and everybody's ratio to the baseline."""
    bases = dict.fromkeys(baseline(who, timings) for who in timings)
    yield " ".join([work, *(f"(÷ {base})" for base in bases if base)])
    width = max(10, *(len(who) + 1 for who in timings))
    for who, timing in timings.items():
        wall, cpu, base = timing.wall_s, timing.cpu_s, baseline(who, timings)
        line = f"  {who:<{width}}{wall:>9.3f} s ±{timing.spread:>4.0%}{cpu:>9.2f} s CPU"
        if base is None:
            line += f"{'-':>8}{'-':>8}"
        else:
            theirs = timings[base]
            line += f"{wall / theirs.wall_s:>8.2f}{cpu / theirs.cpu_s if theirs.cpu_s else 0:>8.2f}"
        if timing.peaks is not None:
            line += f"   worker {timing.peaks.worker:>5.0f} MiB"
        yield line


def judged(results: Results) -> Iterator[tuple[Target, float | None, str]]:
    """Yield every target, the ratio that was measured, and the verdict."""
    for target in TARGETS:
        ratio = target.ratio(results.works)
        if ratio is None:
            yield target, None, "not measured"
        else:
            yield target, ratio, "reached" if ratio <= target.bound else "not reached"


def verdicts(results: Results) -> Iterator[str]:
    """Yield a line for every target."""
    for target, ratio, verdict in judged(results):
        got = "    -" if ratio is None else f"{ratio:5.3f}"
        yield f"  {name_of(target):<58} ≤ {target.bound:<5} {got}  {verdict}"


def name_of(target: Target) -> str:
    """Say what a target compares."""
    if isinstance(target, Added):
        return f"{target.work}: seconds that each adds to {target.other}"
    if isinstance(target, Beside):
        return f"{target.work} ÷ parquet, beside what it is for {target.against}"
    unit = {"wall_s": "", "cpu_s": " (CPU)", "p95_s": " (p95)"}[target.of]
    who = "" if target.ours == "omnigraph" else f" [{target.ours}]"
    other = f" {target.other}" if target.other else ""
    return f"{target.work}{unit}{who} ÷ {target.against}{other}"


def markdown(results: Results) -> Iterator[str]:
    """Yield the page that people read."""
    yield f"# {size_name(results.rows)} rows"
    yield ""
    yield f"{title(results)}. Median wall seconds, CPU seconds of all processes in brackets,"
    yield "and the ratio to the baseline, which is bold. Written by `make bench`."
    yield ""
    named = dict.fromkeys(who for timings in results.works.values() for who in timings)
    everybody = sorted(named, key=apart)
    if any(map(apart, everybody)):
        yield "lance-spark runs on Spark 3.5, in a session of its own: its ratios are to that"
        yield f"session's Parquet, `{ITS_PARQUET}`; where that has no way, only seconds are given."
        yield ""
    yield f"| work | {' | '.join(everybody)} |"
    yield f"|---|{'---|' * len(everybody)}"
    for work, timings in results.works.items():
        cells = [_cell(timings, who) for who in everybody]
        yield f"| {work} | {' | '.join(cells)} |"
    yield ""
    yield "| target | bound | measured | |"
    yield "|---|---|---|---|"
    for target, ratio, verdict in judged(results):
        got = "" if ratio is None else f"{ratio:.3f}"
        yield f"| {name_of(target)} | ≤ {target.bound} | {got} | {verdict} |"
    if results.figures:
        yield ""
        yield "| figure | |"
        yield "|---|---|"
        for name, number in results.figures.items():
            yield f"| {name} | {number:,.6g} |"


def _cell(timings: Mapping[str, Timing], who: str) -> str:
    if who not in timings:
        return ""
    timing, base = timings[who], baseline(who, timings)
    text = f"{timing.wall_s:.3g} ({timing.cpu_s:.3g})"
    if who == base:
        return f"**{text}**"
    return text if base is None else f"{text} = {timing.wall_s / timings[base].wall_s:.2f}"


def _rounded(peaks: Peaks) -> dict[str, int]:
    return {name: round(number) for name, number in asdict(peaks).items()}


def _timing(plain: Mapping[str, Any]) -> Timing:
    samples = tuple(map(Sample, plain["wall_s"], plain["cpu_s"]))
    return Timing(samples, None if plain["peak_mib"] is None else Peaks(**plain["peak_mib"]))
