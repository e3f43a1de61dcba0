"""Fragments into tasks: small ones together, large ones apart. Pure arithmetic.

Bytes are those of the columns that are read, estimated from the files' sizes: twelve columns of
which two are read need fewer tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from omnigraph_spark.storage.parts import Fragment

#: Twice Spark's own target for file scans: a task of ours, in which a Python process reads ahead of
#: the JVM, has a beginning and an end of some 35 ms that leave a core half idle.
SPLIT_BYTES = 256 << 20
#: A scan of few bytes is spread over the cores, as Spark spreads files; where their number is not
#: known, over as many tasks. No task is cut below Spark's own cost of opening one.
SPREAD_OVER = 8
_LEAST_BYTES = 4 << 20
# Spark's driver keeps every task until the stage ends, about 2 KiB each here and more in the JVM.
# Unless a size was wished, tasks of a huge type read more each: still many for every core.
_MOST_TASKS = 20_000


@dataclass(frozen=True)
class Piece:
    """Fragments that one task reads, or a range of the live rows of a single one."""

    fragment_ids: tuple[int, ...]
    row_range: tuple[int, int] | None = None


def pack_fragments(
    fragments: Sequence[Fragment],
    share: float,
    split_bytes: int | None,
    may_split: bool,
    spread_over: int = SPREAD_OVER,
) -> list[Piece]:
    """Group fragments, in order, into pieces near the target size; never returns an empty list.

    `share` is the part of the files' bytes that is read; a `split_bytes` of None is no wish. With a
    filter fragments are not split (`may_split=False`): an offset would count rows that passed it.
    """
    sizes = {fragment.id: max(1, round(fragment.size_bytes * share)) for fragment in fragments}
    whole = sum(sizes.values())
    wished = max(SPLIT_BYTES, -(-whole // _MOST_TASKS)) if split_bytes is None else split_bytes
    # A wish is a bound. Without one a little more is better than a task that no core is free for.
    most = wished + wished // 8 if split_bytes is None else wished
    # As many for every core, so that none works alone in the end.
    rounds = max(1, -(-whole // (wished * spread_over)))
    target = min(wished, max(_LEAST_BYTES, -(-whole // (rounds * spread_over))))
    pieces: list[Piece] = []
    waiting: list[int] = []
    waiting_bytes = share_of_waiting = before = 0

    def flush() -> None:
        nonlocal waiting_bytes
        if waiting:
            pieces.append(Piece(tuple(waiting)))
            waiting.clear()
            waiting_bytes = 0

    for fragment in fragments:
        if not fragment.rows:
            continue
        size = sizes[fragment.id]
        place, before = before + 7 * size // 16, before + size
        # To the nearest: half a fragment more would leave a core without work.
        parts = max(-(-size // wished), round(size / target)) if may_split else 1
        if parts > 1:
            flush()
            pieces.extend(_split(fragment, parts))
            continue
        # A fragment belongs to the equal share of all bytes that its middle lies in; where that is
        # about a border, to the first of both: cores are even when the larger task begins.
        # Neighbours that are one share or less together are never two tasks.
        together = waiting_bytes + size
        if together > most or (together > target and place // target > share_of_waiting):
            flush()
            share_of_waiting = max(share_of_waiting + 1, place // target)
        waiting.append(fragment.id)
        waiting_bytes += size
    flush()
    # Spark wants at least one task, also of a type without rows.
    return pieces or [Piece(())]


def _split(fragment: Fragment, parts: int) -> list[Piece]:
    parts = min(parts, fragment.rows)
    borders = [fragment.rows * part // parts for part in range(parts + 1)]
    return [Piece((fragment.id,), (start, end - start)) for start, end in pairwise(borders)]
