"""From text to JSON values: one a line where possible, across lines where not.

The engine takes JSON values separated by any whitespace or none. Nearly every file has one object a
line, so a few hundred lines at a time are parsed as they are. Where that fails, lines are put
together until they hold whole values; the work stays linear because what is parsed again at least
doubles.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import orjson

Line = str | bytes

# Enough lines at a time to make the cost of a portion small, unless the lines are long.
_PORTION_LINES = 512
_PORTION_BYTES = 1 << 20
#: What JSON allows between values; Python's own idea of whitespace is wider.
_BLANK = " \t\r\n"
_DECODER = json.JSONDecoder()
_BYTE_ORDER_MARK = "\ufeff"


class Portion(NamedTuple):
    """Some JSON values, the lines they begin on, and the size of their text."""

    lines: Sequence[int]
    values: list[Any]
    size: int


class MalformedError(Exception):
    """Text that is not JSON; what follows it cannot be told apart."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason


class Lines:
    """Lines of a text, taken in portions; those not needed yet can be given back."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._rest = iter(lines)
        self._back: deque[Line] = deque()
        #: How many lines were taken: the number of the last one.
        self.taken = 0

    def take(self, count: int) -> list[Line]:
        """Take so many lines, or what is left."""
        if self._back:
            some = [self._back.popleft() for _ in range(min(count, len(self._back)))]
        else:
            some = list(islice(self._rest, count))
        self.taken += len(some)
        return some

    def give_back(self, lines: Sequence[Line]) -> None:
        """Give back lines that were taken last."""
        self._back.extendleft(reversed(lines))
        self.taken -= len(lines)


def values_in(lines: Lines) -> Iterator[Portion]:
    """Yield the JSON values of a text given line by line; line ends may be there or not.

    >>> lines = Lines(['{"a": 1}', "", '{"b":', '2} {"c": 3}'])
    >>> [value for portion in values_in(lines) for value in portion.values]
    [{'a': 1}, {'b': 2}, {'c': 3}]
    """
    count = 1
    while some := lines.take(count):
        size = sum(map(len, some))
        count = max(1, min(count * 2, _PORTION_LINES, _PORTION_BYTES * len(some) // (size or 1)))
        first = lines.taken - len(some) + 1
        try:
            values = list(map(orjson.loads, some))
        except orjson.JSONDecodeError:
            yield from _one_by_one(first, some, lines)
        else:
            yield Portion(range(first, lines.taken + 1), values, size)


def _one_by_one(first: int, some: list[Line], lines: Lines) -> Iterator[Portion]:
    """Yield the values of lines of which one at least is not a value."""
    for place, line in enumerate(some):
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            text = _decoded(first + place, line)
            if text.strip(_BLANK):
                lines.give_back(some[place + 1 :])
                yield from _across_lines(first + place, text, lines)
                return
        else:
            yield Portion((first + place,), [value], len(line))


def _across_lines(number: int, text: str, lines: Lines) -> Iterator[Portion]:
    """Yield the values from this text on, until one ends where a line ends."""
    at = 0
    while True:
        while at < len(text) and text[at] in _BLANK:
            number += text[at] == "\n"
            at += 1
        if at == len(text):
            return
        try:
            _, end = _DECODER.raw_decode(text, at)
            # Only the end is taken from there: this parser lets NaN and lone surrogates pass.
            value = orjson.loads(text[at:end])
        except RecursionError as error:
            raise MalformedError(number, "values are nested too deeply") from error
        except orjson.JSONDecodeError as error:
            raise MalformedError(number, f"not valid JSON: {error.msg}") from error
        except json.JSONDecodeError as error:
            # No token of JSON crosses a line end: only an error at the very end asks for more.
            if error.pos < len(text.rstrip(_BLANK)):
                found = number + text.count("\n", at, error.pos)
                place = f"line {found}, column {error.colno}"
                raise MalformedError(number, f"not valid JSON: {error.msg} at {place}") from error
            text, at = text[at:] + _more(lines, len(text) - at, number), 0
            continue
        yield Portion((number,), [value], end - at)
        number += text.count("\n", at, end)
        at = end


def _more(lines: Lines, wanted: int, began: int) -> str:
    """Return the next lines, at least as much text as wanted if there is so much."""
    pieces: list[str] = []
    found = 0
    while found < wanted and (some := lines.take(1)):
        pieces.append(_decoded(lines.taken, some[0]))
        found += len(pieces[-1])
    if not pieces:
        raise MalformedError(began, "not valid JSON: the record that begins here does not end")
    return "".join(pieces)


def _decoded(number: int, line: Line) -> str:
    try:
        text = line if isinstance(line, str) else line.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(number, "the text is not UTF-8") from error
    if number == 1 and text.startswith(_BYTE_ORDER_MARK):
        raise MalformedError(number, "it begins with a byte order mark; save it without one")
    return text if text.endswith("\n") else f"{text}\n"
