"""The root of all errors and the phrases they share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import ClassVar


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word a mistyped one most likely meant, or None when nothing is close."""
    by_folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def known_names(names: tuple[str, ...], shown: int = 12) -> str:
    """Name what would have worked; long lists are cut so that the message stays readable."""
    if not names:
        return "none"
    head = ", ".join(names[:shown])
    return head if len(names) <= shown else f"{head} and {len(names) - shown} more"


def hint(word: str, known: tuple[str, ...]) -> str:
    """End a message about an unknown word: the likely one, or everything that is known."""
    close = nearest(word, known)
    return f"; did you mean {close!r}?" if close else f"; known are {known_names(known)}"


@dataclass(eq=False)
class OmnigraphError(Exception):
    """Something went wrong inside omnigraph-spark; base of all errors below."""

    code: ClassVar[str] = "OMNIGRAPH_INTERNAL"
    remedy: ClassVar[str] = "Report it with the text of the error."

    def __post_init__(self) -> None:
        # `args` is what pickle hands back to the constructor.
        self.args = tuple(getattr(self, field.name) for field in fields(self))

    def describe(self) -> str:
        """Say what happened, then what the caller can do about it."""
        return (self.__doc__ or type(self).__name__).strip()

    def __str__(self) -> str:
        return f"[{self.code}] {self.describe()}"
