"""Fragments into tasks: small ones together, large ones apart. Pure arithmetic.

Bytes are those of the columns that are read, estimated from the files' sizes: twelve columns of
which two are read need fewer tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from omnigraph_spark.storage.parts import Fragment

#: Spark's own target for file scans.
SPLIT_BYTES = 128 << 20
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
    target = min(wished, max(_LEAST_BYTES, -(-whole // spread_over)))
    pieces: list[Piece] = []
    waiting: list[int] = []
    waiting_bytes = 0

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
        # To the nearest as well: half a fragment more would leave a core without work.
        parts = max(-(-size // wished), round(size / target)) if may_split else 1
        if parts > 1:
            flush()
            pieces.extend(_split(fragment, parts))
            continue
        # To the nearest: fragments of about one size then make as many tasks as there are cores.
        if waiting_bytes + size > min(wished, target + size // 2):
            flush()
        waiting.append(fragment.id)
        waiting_bytes += size
    flush()
    # Spark wants at least one task, also of a type without rows.
    return pieces or [Piece(())]


def _split(fragment: Fragment, parts: int) -> list[Piece]:
    parts = min(parts, fragment.rows)
    borders = [fragment.rows * part // parts for part in range(parts + 1)]
    return [Piece((fragment.id,), (start, end - start)) for start, end in pairwise(borders)]
