"""What is wrong with the records of an input: where, what was found, what would have worked."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from omnigraph_spark.errors import InvalidRecordsError
from omnigraph_spark.jsonl.conversions import shown

#: Enough to see the pattern of a mistake.
SHOWN_PROBLEMS = 10


class Problems:
    """Collects problems by line; lines are counted on from one text of the input to the next."""

    def __init__(self, numbered: bool = True) -> None:
        #: Without numbers (lines that a cluster hands out in any order) records are quoted.
        self._numbered = numbered
        self._starts: list[int] = []
        self._names: list[str | None] = []
        self._found: list[tuple[int, str]] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def enough(self) -> bool:
        """Whether so many were found that reading on would show no more of them."""
        return self._count >= SHOWN_PROBLEMS

    def begin(self, start: int, name: str | None) -> None:
        """Say that a text begins after line `start`."""
        self._starts.append(start)
        self._names.append(name)

    def add(self, line: int, record: Any, what: str) -> None:
        """Note a problem of the record that begins on a line; None is a record without a value."""
        self._count += 1
        if len(self._found) < SHOWN_PROBLEMS:
            self._found.append((line, f"{self._place(line, record)}: {what}"))

    def refuse(self) -> None:
        """Raise all problems as one error, if there are any."""
        if self._found:
            texts = tuple(text for _, text in sorted(self._found, key=lambda found: found[0]))
            raise InvalidRecordsError(texts, self._count - len(texts))

    def _place(self, line: int, record: Any) -> str:
        if not self._numbered:
            return "a record" if record is None else f"record {shown(record)}"
        text = bisect_right(self._starts, line - 1) - 1
        name = self._names[text]
        return f"line {line - self._starts[text]}" + (f" of {name}" if name else "")
