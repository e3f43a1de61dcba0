"""Time and fresh ids: what tests replace."""

from __future__ import annotations

import hashlib
import time

from ulid import ULID

_RANDOM_BYTES = 10


def now_us() -> int:
    """Return the time in microseconds since the epoch."""
    return time.time_ns() // 1_000


def new_ulid() -> str:
    """Return a fresh ULID: 48 bits of time, 80 random bits."""
    return str(ULID())


def derived_ulid(app_id: str, version: str) -> str:
    """Return a ULID of now whose random half is drawn from a pair that names one piece of work.

    The same pair gives the same last 16 characters, so a repeated write finds its first commit.
    """
    # A length before each part: ("a", "bc") and ("ab", "c") are different pairs.
    text = f"{len(app_id)}:{app_id}{len(version)}:{version}"
    drawn = hashlib.sha256(text.encode()).digest()[:_RANDOM_BYTES]
    milliseconds = (now_us() // 1_000).to_bytes(6, "big")
    return str(ULID.from_bytes(milliseconds + drawn))


def random_half(ulid: str) -> str:
    """Return the part of a ULID that does not come from the clock."""
    return ulid[10:]


def ulid_again(ulid: str) -> str:
    """Return a ULID of now that names the same piece of work: the random half is the same."""
    milliseconds = (now_us() // 1_000).to_bytes(6, "big")
    return str(ULID.from_bytes(milliseconds + ULID.from_str(ulid).bytes[-_RANDOM_BYTES:]))
