"""A bar chart of ratios as SVG: one row for each work, a bar for each contestant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from benchmarks.baselines import ITS_PARQUET, LANCE_SPARK, LANCE_SPARK_SCANNING, baseline
from benchmarks.measure import Timing

_COLOURS = {
    "omnigraph": "#0072b2",
    "pip": "#56b4e9",
    "pylance": "#009e73",
    "simplest": "#cccccc",
    "simplest, named": "#999999",
    "parquet": "#e69f00",
    "delta": "#d55e00",
    "engine": "#cc79a7",
    LANCE_SPARK: "#7d5fb2",
    LANCE_SPARK_SCANNING: "#b9a6d9",
    ITS_PARQUET: "#f0c97a",
}
_LEFT, _WIDTH, _BAR, _GAP, _HEAD = 190, 560, 13, 12, 76
#: Bars that are longer end here, with their number beside them.
_LONGEST = 2.0


def chart(works: Mapping[str, Mapping[str, Timing]], title: str) -> str:
    """Draw every work's wall times, each divided by the baseline's, which is the line at 1."""
    body: list[str] = []
    y = _HEAD
    for work, timings in works.items():
        middle = y + _BAR * len(timings) / 2 + 4
        body.append(_text(_LEFT - 10, middle, work, anchor="end"))
        for who, timing in timings.items():
            base = baseline(who, timings)
            body += _bar(y, who, base and timing.wall_s / timings[base].wall_s, timing.wall_s)
            y += _BAR
        y += _GAP
    one = _LEFT + _WIDTH / _LONGEST
    body.append(f'<line x1="{one}" x2="{one}" y1="{_HEAD - 8}" y2="{y}" stroke="#333"/>')
    return "\n".join(_framed(y + 10, title, body)) + "\n"


def _framed(height: float, title: str, body: list[str]) -> Iterator[str]:
    width = _LEFT + _WIDTH + 110
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f'<rect width="{width}" height="{height:.0f}" fill="white"/>'
    yield _text(10, 20, "Wall time beside the baseline (line at 1; shorter is faster)", bold=True)
    yield _text(10, 38, title)
    x = 10.0
    for who, colour in _COLOURS.items():
        yield f'<rect x="{x}" y="48" width="12" height="12" fill="{colour}"/>'
        yield _text(x + 16, 58, who)
        x += 28 + 8 * len(who)
    yield from body
    yield "</svg>"


def _bar(y: float, who: str, ratio: float | None, seconds: float) -> Iterator[str]:
    length = min(ratio or 0, _LONGEST) / _LONGEST * _WIDTH
    yield (
        f'<rect x="{_LEFT}" y="{y}" width="{max(length, 1):.1f}" height="{_BAR - 2}" '
        f'fill="{_COLOURS.get(who, "#999999")}"/>'
    )
    took = f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
    # Who has no baseline in its session has no bar either, only its time.
    label = f"({took})" if ratio is None else f"{ratio:.2f}  ({took})"
    yield _text(_LEFT + length + 5, y + _BAR - 4, label, size=10)


def _text(
    x: float, y: float, text: str, anchor: str = "start", bold: bool = False, size: int = 12
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{weight}>'
        f"{escape(text)}</text>"
    )
