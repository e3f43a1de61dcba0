"""Where one SQL statement ends: at a semicolon that is in no quotes and in no comment.

Owns the scanning of text as Spark's lexer reads it; what a statement means is Spark's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: What is looked for outside of quotes and comments. `/*+` begins a hint, which is no comment; an
#: `r` before a quote, unless it ends a name, makes backslashes plain.
_OPENERS = re.compile(r";|--|/\*(?!\+)|(?<!\w)[rR]['\"]|['\"`]")
#: How what was opened ends, and what must be looked at in it. A doubled quote ends one text and
#: begins the next, which comes to the same.
_CLOSERS = {
    "'": re.compile(r"\\.|'", re.DOTALL),
    '"': re.compile(r'\\.|"', re.DOTALL),
    "r'": re.compile("'"),
    'r"': re.compile('"'),
    "`": re.compile("`"),
    "--": re.compile(r"\\\n|[\r\n]"),
    "/*": re.compile(r"/\*|\*/"),
}
_COMMENTS = ("--", "/*")


class UnclosedError(ValueError):
    """The text ends within quotes or a comment."""


@dataclass
class Statements:
    """Cuts text that comes line by line into statements."""

    #: What belongs to the next statement, and whether it has more than comments and space.
    _held: str = ""
    _means: bool = False
    #: The quote or comment that is open, on which line it began, and in how many comments.
    _open: str = ""
    _opened_at: int = 0
    _depth: int = 0
    _line: int = 1

    @property
    def begun(self) -> bool:
        """Whether a statement, or a comment, has begun that has not ended."""
        return self._means or self._open not in ("", "--")

    def take(self, text: str) -> Iterator[str]:
        """Take one or more lines, and yield the statements that end in them."""
        at = 0
        while at < len(text):
            end, cuts = self._close(text, at) if self._open else self._pass(text, at)
            self._held += text[at : end - cuts]
            self._line += text.count("\n", at, end)
            at = end
            if cuts:
                yield from self._cut()

    def end(self) -> Iterator[str]:
        """Yield the last statement, which needs no semicolon."""
        if self._open not in ("", "--"):
            what = "comment" if self._open == "/*" else "quote"
            raise UnclosedError(f"the {what} {self._open} in line {self._opened_at} has no end")
        yield from self._cut()

    def _cut(self) -> list[str]:
        found = [self._held.strip()] if self._means else []
        self._held, self._means = "", False
        return found

    def _pass(self, text: str, at: int) -> tuple[int, bool]:
        """Go behind what is opened next, or a semicolon, or to the end; whether a statement ends.

        `at` is outside of quotes and comments.
        """
        found = _OPENERS.search(text, at)
        between = text[at : found.start() if found else None]
        self._means |= bool(between.strip())
        if found is None:
            return len(text), False
        if found.group() == ";":
            return found.end(), True
        self._open, self._depth = found.group().lower(), 1
        self._opened_at = self._line + between.count("\n")
        self._means |= self._open not in _COMMENTS
        return found.end(), False

    def _close(self, text: str, at: int) -> tuple[int, bool]:
        """Go behind the end of what is open, or to the end of the text."""
        for found in _CLOSERS[self._open].finditer(text, at):
            if found.group().startswith("\\"):
                continue
            self._depth += 1 if found.group() == "/*" else -1
            if not self._depth:
                self._open = ""
                return found.end(), False
        return len(text), False


def statements(lines: Iterable[str]) -> Iterator[str]:
    r"""Cut lines into statements; comments stay, those that nothing follows are left out.

    >>> list(statements(["select ';' -- one; not two\n", "as x; select 2; -- done"]))
    ["select ';' -- one; not two\nas x", 'select 2']
    """
    scanner = Statements()
    for line in lines:
        yield from scanner.take(line)
    yield from scanner.end()
