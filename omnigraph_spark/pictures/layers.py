"""Where boxes go that arrows connect: in columns, ordered so that few arrows cross. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_ROUNDS = 8


@dataclass
class Box:
    """A box to be placed; `x` and `y` are its upper left corner once it is."""

    name: str
    width: float
    height: float
    column: int = 0
    x: float = 0
    y: float = 0

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        """Its right side."""
        return self.x + self.width


def columns_of(names: Sequence[str], arrows: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Give every name a column so that arrows go to the right, but for one of each circle.

    >>> columns_of(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "a"), ("b", "b")])
    {'a': 0, 'b': 1, 'c': 2}
    """
    after: dict[str, list[str]] = {name: [] for name in names}
    for start, end in arrows:
        if start != end and end not in after[start]:
            after[start].append(end)
    column: dict[str, int] = {}
    open_: set[str] = set()
    order: list[str] = []

    def visit(name: str) -> None:
        open_.add(name)
        # An arrow to a name that is still open closes a circle: it is drawn backwards.
        after[name] = [end for end in after[name] if end not in open_]
        for end in after[name]:
            if end not in column:
                column[end] = 0
                visit(end)
        open_.discard(name)
        order.append(name)

    pointed = {end for start, end in arrows if start != end}
    # First what nothing points to; then what has most arrows, so that circles are cut there.
    for name in sorted(names, key=lambda name: (name in pointed, -len(after[name]))):
        if name not in column:
            column[name] = 0
            visit(name)
    for name in reversed(order):
        for end in after[name]:
            column[end] = max(column[end], column[name] + 1)
    return {name: column[name] for name in names}


def place(
    boxes: Mapping[str, Box], links: Sequence[tuple[str, str]], gap_x: float, gap_y: float
) -> tuple[float, float]:
    """Place boxes whose column is known; return the size of it all."""
    columns: list[list[Box]] = [[] for _ in range(max(b.column for b in boxes.values()) + 1)]
    for box in boxes.values():
        columns[box.column].append(box)
    near: dict[str, list[Box]] = {name: [] for name in boxes}
    for one, other in links:
        near[one].append(boxes[other])
        near[other].append(boxes[one])
    _stack(columns, gap_x, gap_y)
    for number in range(_ROUNDS):
        for column in columns if number % 2 == 0 else reversed(columns):
            wanted = {box.name: _mean(near[box.name], box) for box in column}
            column.sort(key=lambda box: wanted[box.name])
            _settle(column, wanted, gap_y)
    top = min(box.y for box in boxes.values())
    for box in boxes.values():
        box.y -= top
    return (
        max(box.right for box in boxes.values()),
        max(box.y + box.height for box in boxes.values()),
    )


def _stack(columns: Sequence[Sequence[Box]], gap_x: float, gap_y: float) -> None:
    x = 0.0
    for column in columns:
        width, y = max((box.width for box in column), default=0), 0.0
        for box in column:
            box.x, box.y = x + (width - box.width) / 2, y
            y += box.height + gap_y
        x += width + gap_x


def _mean(near: Sequence[Box], box: Box) -> float:
    return sum(other.middle for other in near) / len(near) if near else box.middle


def _settle(column: Sequence[Box], wanted: Mapping[str, float], gap: float) -> None:
    """Put boxes, which are in order, as near as possible to where they want to be."""
    for box in column:
        box.y = wanted[box.name] - box.height / 2
    for above, below in itertools.pairwise(column):
        below.y = max(below.y, above.y + above.height + gap)
    # What was pushed down pulls all of them half of the way up again.
    pushed = sum(box.middle - wanted[box.name] for box in column) / max(1, len(column))
    for box in column:
        box.y -= pushed
