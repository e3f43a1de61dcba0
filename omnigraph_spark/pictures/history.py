"""The history of a graph as a picture: newest commit on top, a lane for each branch."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from omnigraph_spark.branches import Branch
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.names import MAIN
from omnigraph_spark.pictures.svg import (
    COLORS,
    Picture,
    path,
    rect,
    shortened,
    text,
    wide,
)

_ROW = 34
_LANE = 22
_DOT = 5.5
#: Letters of a name before it is cut.
_LONGEST = 28
_FADED = 'stroke-dasharray="2 4" opacity="0.6"'


class Place(NamedTuple):
    """Where a commit is drawn."""

    x: float
    y: float
    lane: int
    color: str


def draw_history(commits: Iterable[Commit], branches: Sequence[Branch], limit: int) -> Picture:
    """Draw the newest commits of all branches, and where branches stand."""
    ordered = newest_first(commits)
    shown = ordered[:limit]
    lanes = lanes_of(shown)
    # The first color is that of main alone.
    colors = {name: COLORS[1 + n % (len(COLORS) - 1)] for n, name in enumerate(lanes, start=-1)}
    colors[MAIN] = COLORS[0]
    places = {
        commit.id: Place(
            12 + lanes[commit.branch] * _LANE,
            (row + 0.5) * _ROW,
            lanes[commit.branch],
            colors[commit.branch],
        )
        for row, commit in enumerate(shown)
    }
    words = _Words(shown, (max(lanes.values(), default=0) + 1) * _LANE + 14)
    labels = _labels(branches)
    ends = [words.right + _labels_width(names) for names in labels.values()]
    width = max([words.right, *ends])
    body = [
        rect(-6, row * _ROW, width + 12, _ROW, style="og-zebra") for row in range(1, len(shown), 2)
    ]
    bottom = len(shown) * _ROW
    body += [line for commit in shown for line in _lines(commit, places, bottom)]
    for commit in shown:
        at = places[commit.id]
        drawn = _dot(commit, at) + words.draw(commit, at.y + 4)
        drawn += _draw_labels(labels.get(commit.id, []), words.right, at.y, colors)
        body.append(f"<g><title>{commit.id}</title>{drawn}</g>")
    more = len(ordered) - len(shown)
    if more:
        left, note = words.left, f"… and {more:,} older"
        body.append(text(left, bottom + 18, note, style="og-dim og-sans", size=11))
    title = f"{len(shown)} of {len(ordered)} commits, {len(branches)} branches"
    return Picture(title, width, bottom + (24 if more else 0), "".join(body))


def newest_first(commits: Iterable[Commit]) -> list[Commit]:
    """Order commits by time, but never a parent above its child, whatever clocks said."""
    by_id = {commit.id: commit for commit in commits}
    children = dict.fromkeys(by_id, 0)
    for commit in by_id.values():
        for parent in _parents(commit):
            if parent in children:
                children[parent] += 1
    ready = [_latest(by_id[name]) for name, count in children.items() if not count]
    heapq.heapify(ready)
    ordered = []
    while ready:
        commit = by_id[heapq.heappop(ready)[-1]]
        ordered.append(commit)
        for parent in _parents(commit):
            if parent in children:
                children[parent] -= 1
                if not children[parent]:
                    heapq.heappush(ready, _latest(by_id[parent]))
    return ordered


def lanes_of(commits: Sequence[Commit]) -> dict[str, int]:
    """Give every branch that has a commit here a lane, main the first; free ones are used again."""
    rows = {commit.id: row for row, commit in enumerate(commits)}
    spans: dict[str, tuple[int, int]] = {}
    for row, commit in enumerate(commits):
        merged = rows.get(commit.merged_parent_id or "")
        # A line begins at the merge that ends it, and goes down to where the branch was made.
        ends = rows.get(commit.parent_id or "", row if commit.parent_id is None else len(commits))
        first, last = spans.get(commit.branch, (row, row))
        spans[commit.branch] = (min(first, row), max(last, ends))
        if merged is not None and commits[merged].branch != commit.branch:
            first, last = spans.get(commits[merged].branch, (row, merged))
            spans[commits[merged].branch] = (min(first, row), max(last, merged))
    lanes = {MAIN: 0}
    taken: list[list[tuple[int, int]]] = [[(0, len(commits))]]
    for name, (first, last) in sorted(spans.items(), key=lambda item: item[1][1] - item[1][0]):
        if name == MAIN:
            continue
        free = (
            lane
            for lane, used in enumerate(taken)
            if all(last < begun or first > ended for begun, ended in used)
        )
        lane = next(free, len(taken))
        if lane == len(taken):
            taken.append([])
        taken[lane].append((first, last))
        lanes[name] = lane
    return lanes


def _latest(commit: Commit) -> tuple[int, int, str]:
    return (-commit.created_at_us, -commit.manifest_version, commit.id)


def _parents(commit: Commit) -> list[str]:
    return [parent for parent in (commit.parent_id, commit.merged_parent_id) if parent]


def _labels(branches: Sequence[Branch]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for branch in branches:
        found.setdefault(branch.head.id, []).append(branch.name)
    return found


def _lines(commit: Commit, places: Mapping[str, Place], bottom: float) -> list[str]:
    """Draw the lines from a commit down to its parents, which may lie below the picture."""
    at = places[commit.id]
    drawn = []
    if commit.parent_id:
        to = places.get(commit.parent_id)
        if to is None:
            drawn.append(path(f"M{at.x:g} {at.y:g}V{bottom:g}", color=at.color, more=_FADED))
        elif to.lane == at.lane:
            drawn.append(path(f"M{at.x:g} {at.y:g}V{to.y:g}", color=at.color))
        else:
            # A branch begins: down its own lane, then over to where it came from.
            bend = max(at.y, to.y - _ROW)
            over = f"C{at.x:g} {to.y:g} {at.x:g} {to.y:g} {to.x:g} {to.y:g}"
            drawn.append(path(f"M{at.x:g} {at.y:g}V{bend:g}{over}", color=at.color))
    merged = places.get(commit.merged_parent_id or "")
    if merged is not None:
        # A merge: over to the lane of the merged branch at once, then down.
        bend = min(merged.y, at.y + _ROW)
        over = f"C{merged.x:g} {at.y:g} {merged.x:g} {at.y:g} {merged.x:g} {bend:g}"
        drawn.append(path(f"M{at.x:g} {at.y:g}{over}V{merged.y:g}", color=merged.color))
    return drawn


def _dot(commit: Commit, at: Place) -> str:
    """Draw a commit; a merge is a ring."""
    ring = f'class="og-hole" stroke="{at.color}" stroke-width="2.5"'
    paint = ring if commit.merged_parent_id else f'fill="{at.color}"'
    return f'<circle cx="{at.x:g}" cy="{at.y:g}" r="{_DOT:g}" {paint}/>'


class _Words:
    """The words beside commits, in columns: manifest version, id, what and who, when."""

    def __init__(self, commits: Sequence[Commit], left: float) -> None:
        self.left = left
        versions = max((len(str(commit.manifest_version)) for commit in commits), default=1)
        self._id = left + 7.6 * versions + 14
        self._who = self._id + 96
        widest = max((wide(_who(commit)) for commit in commits), default=0)
        self._when = self._who + widest + (14 if widest else 0)
        self.right = self._when + 138

    def draw(self, commit: Commit, y: float) -> str:
        """Write the words of one commit."""
        version, when = str(commit.manifest_version), f"{commit.created_at:%Y-%m-%d %H:%M:%S}"
        end = self._id - 14
        return (
            text(end, y, version, style="og-text og-mono", bold=True, anchor="end")
            + text(self._id, y, commit.id[-10:], style="og-dim og-mono", size=11.5)
            + text(self._who, y, _who(commit))
            + text(self._when, y, when, style="og-dim og-sans", size=11.5)
        )


def _who(commit: Commit) -> str:
    words = ("merge" if commit.merged_parent_id else "", shortened(commit.actor or "", _LONGEST))
    return " · ".join(word for word in words if word)


def _label_width(name: str) -> float:
    return wide(shortened(name, _LONGEST), 11.5, bold=True) + 16


def _labels_width(names: Sequence[str]) -> float:
    return sum(_label_width(name) + 8 for name in names)


def _draw_labels(names: Sequence[str], x: float, y: float, colors: Mapping[str, str]) -> str:
    """Draw the names of branches that stand at a commit."""
    drawn = []
    for name in names:
        width, color = _label_width(name), colors.get(name)
        # A branch without a commit of its own has no color yet: its label is an outline.
        fill = "none" if color is None else color
        dash = ' stroke-dasharray="3 2"' if color is None else ""
        more = f'fill="{fill}" stroke="{color or "#8d96a6"}"{dash}'
        drawn.append(rect(x, y - 10, width, 20, style="og-label", more=more))
        paint = None if color is None else "#ffffff"
        style = "og-text og-sans" if color is None else "og-sans"
        words, at = shortened(name, _LONGEST), x + width / 2
        drawn.append(
            text(at, y + 4, words, style=style, size=11.5, bold=True, anchor="middle", fill=paint)
        )
        x += width + 8
    return "".join(drawn)
