"""Sets of characters as ranges of code points: arithmetic, and the classes Rust's `regex` names.

The tables of Unicode are RE2's own, asked once for each property a pattern names: Python's do not
know scripts, and one source cannot disagree with itself.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

#: Sorted, disjoint, not adjacent; both ends belong to it.
Ranges = tuple[tuple[int, int], ...]

_LAST = 0x10FFFF
#: Not characters, though they have numbers.
_SURROGATES = (0xD800, 0xDFFF)
ANY: Ranges = ((0, 0xD7FF), (0xE000, _LAST))

_SPACES: Ranges = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0x85, 0x85),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
)

_DIGIT, _LOWER, _UPPER = (0x30, 0x39), (0x61, 0x7A), (0x41, 0x5A)
#: The classes in double brackets are about ASCII, in Rust as in RE2.
POSIX: dict[str, Ranges] = {
    "alnum": (_DIGIT, _UPPER, _LOWER),
    "alpha": (_UPPER, _LOWER),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": (_DIGIT,),
    "graph": ((0x21, 0x7E),),
    "lower": (_LOWER,),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": (_UPPER,),
    "word": (_DIGIT, _UPPER, (0x5F, 0x5F), _LOWER),
    "xdigit": (_DIGIT, (0x41, 0x46), (0x61, 0x66)),
}

#: Letters by another name: circled and squared ones (Alphabetic, though symbols) and the joiners.
_MORE_WORDS: Ranges = (
    (0x200C, 0x200D),
    (0x24B6, 0x24E9),
    (0x1F130, 0x1F149),
    (0x1F150, 0x1F169),
    (0x1F170, 0x1F189),
)


def union(*sets: Ranges) -> Ranges:
    """Return the characters in any of the sets."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pair for ranges in sets for pair in ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """Return all other characters.

    >>> complement(((0, 9), (11, 0x10FFFF)))
    ((10, 10),)
    """
    edges = ((-1, -1), *union(ranges, (_SURROGATES,)), (_LAST + 1, _LAST + 1))
    gaps = ((left[1] + 1, right[0] - 1) for left, right in pairwise(edges))
    return tuple((low, high) for low, high in gaps if low <= high)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """Return the characters in both sets."""
    return complement(union(complement(left), complement(right)))


def difference(left: Ranges, right: Ranges) -> Ranges:
    """Return the characters of the first set that are not in the second."""
    return intersection(left, complement(right))


@lru_cache(maxsize=1)
def words() -> Ranges:
    r"""Return what `\w` means to Rust."""
    return union(_asked(r"[\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}]"), _MORE_WORDS)


def spaces() -> Ranges:
    r"""Return what `\s` means to Rust: the property White_Space."""
    return _SPACES


@lru_cache(maxsize=1)
def digits() -> Ranges:
    r"""Return what `\d` means to Rust."""
    return _asked(r"\p{Nd}")


@lru_cache(maxsize=64)
def property_ranges(name: str) -> Ranges | None:
    """Return a general category (`Lu`) or script (`Greek`), None for what RE2 does not know."""
    if name == "C":
        # To RE2 it leaves out what is not assigned, to Rust it does not.
        return complement(_asked(r"[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}]"))
    if not re.fullmatch("[A-Za-z_]+", name):
        return None
    try:
        return _asked(rf"\p{{{name}}}")
    except pa.ArrowInvalid:
        return None


#: What is asked one by one: beyond, whole blocks are unassigned or for private use.
_ASSIGNED = ((0, 0xD7FF), (0xE000, 0x33FFF), (0xE0000, 0xE01FF))
_BLOCKS = ((0x34000, 0xDFFFF), (0xE0200, 0xEFFFF), (0xF0000, _LAST))


@lru_cache(maxsize=1)
def _samples() -> tuple[npt.NDArray[np.uint32], pa.StringArray]:
    """Return every character that is asked, as number and text; last, one for each block."""
    asked = [np.arange(low, high + 1, dtype="<u4") for low, high in _ASSIGNED]
    codes = np.concatenate([*asked, np.array([low for low, _ in _BLOCKS], dtype="<u4")])
    return codes, pa.array(list(codes.tobytes().decode("utf-32-le")))


def _asked(one_letter: str) -> Ranges:
    """Match every character there is: a twentieth of a second, once for a property."""
    codes, texts = _samples()
    matched = pc.match_substring_regex(texts, one_letter).to_numpy(zero_copy_only=False)
    blocks = [
        block for block, found in zip(_BLOCKS, matched[-len(_BLOCKS) :], strict=True) if found
    ]
    found = codes[: -len(_BLOCKS)][matched[: -len(_BLOCKS)]].astype(np.int64)
    runs = np.split(found, np.flatnonzero(np.diff(found) != 1) + 1) if len(found) else []
    return union(tuple((int(run[0]), int(run[-1])) for run in runs), tuple(blocks))
