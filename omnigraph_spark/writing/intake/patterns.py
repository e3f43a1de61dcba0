r"""Regular expressions of `@check`, with the meaning they have in the engine.

The engine matches with Rust's `regex`, we match whole columns with RE2. The two look alike and
differ where it hurts: to Rust `\d`, `\w`, `\s` and `\b` are about Unicode, classes nest and
subtract, and an escaped `<` is a word boundary. So a pattern is read by Rust's rules into a tree
and written anew for RE2, with every class spelled out. What RE2 cannot say is refused when a write
is planned, before any row is read.

RE2's `\b` knows ASCII only, and there is no other way to say it. A text without other letters
means the same to both; the rest, and only under such a pattern, is matched one by one by Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.writing.intake.letters import ANY, Ranges, words
from omnigraph_spark.writing.intake.regex_tree import (
    Chars,
    Choice,
    Node,
    PatternError,
    Place,
    Repeat,
    Sequence,
)
from omnigraph_spark.writing.intake.rust_regex import parse


@dataclass(frozen=True)
class Pattern:
    """One pattern, ready for columns of text; plain values, so it travels."""

    re2: str
    #: For texts that RE2 would judge by ASCII; None when there are none.
    python: str | None

    @classmethod
    def of(cls, rust: str) -> Pattern:
        """Read a pattern of the engine; raise `PatternError` if it cannot be checked."""
        tree = parse(rust)
        bounded = any(node.kind in _BOUNDARIES for node in _places(tree))
        pattern = cls(_written(tree, _RE2), _written(tree, _python()) if bounded else None)
        try:
            pc.match_substring_regex(pa.array([""]), pattern.re2)
        except pa.ArrowInvalid as error:
            # A count above 1000, or too large when written out.
            raise PatternError(f"RE2 does not take it ({error})") from error
        return pattern

    def matches(self, texts: pa.Array[Any]) -> pa.BooleanArray:
        """Tell which texts contain a match; null stays null."""
        found = pc.match_substring_regex(texts, self.re2)
        if self.python is None:
            return found
        beyond: Any = pc.invert(pc.string_is_ascii(texts)).fill_null(False)
        if not pc.any(beyond).as_py():
            return found
        search = _compiled(self.python).search
        answers = [search(str(text)) is not None for text in texts.filter(beyond)]
        return cast(pa.BooleanArray, pc.replace_with_mask(found, beyond, pa.array(answers)))


_BOUNDARIES = frozenset({"boundary", "no_boundary"})
_RE2 = {
    "text_start": r"\A",
    "text_end": r"\z",
    "line_start": "(?m:^)",
    "line_end": "(?m:$)",
    "boundary": r"\b",
    "no_boundary": r"\B",
}


@lru_cache(maxsize=1)
def _python() -> dict[str, str]:
    word = _set(words(), negated=False)
    edge = f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
    inner = f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))"
    return {**_RE2, "text_end": r"\Z", "boundary": edge, "no_boundary": inner}


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _places(node: Node) -> Iterator[Place]:
    match node:
        case Place():
            yield node
        case Repeat():
            yield from _places(node.node)
        case Sequence() | Choice():
            for part in node.nodes:
                yield from _places(part)


def _written(node: Node, places: dict[str, str]) -> str:
    """Write a tree in what RE2 and Python have in common, but for places and wide characters."""
    match node:
        case Place():
            return places[node.kind]
        case Chars():
            text = _set(node.ranges, node.negated)
            return f"(?i:{text})" if node.fold else text
        case Repeat():
            most = "" if node.most is None else node.most
            return f"(?:{_written(node.node, places)}){{{node.least},{most}}}"
        case Sequence():
            return "".join(_written(part, places) for part in node.nodes)
        case Choice():
            return f"(?:{'|'.join(_written(part, places) for part in node.nodes)})"


def _set(ranges: Ranges, negated: bool) -> str:
    if not ranges:
        # Neither dialect has an empty class; this one holds no character either.
        return _set(ANY, not negated)
    inside = "".join(f"{_one(low)}-{_one(high)}" for low, high in ranges)
    return f"[{'^' if negated else ''}{inside}]"


def _one(code: int) -> str:
    # Letters and digits, and all beyond ASCII, have no meaning but themselves to either dialect.
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    letter = chr(code)
    return letter if letter.isalnum() or code > 0x7F else f"\\{letter}"
