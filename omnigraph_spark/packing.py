"""Fragments into tasks: small ones together, large ones apart. Pure arithmetic.

Bytes are those of the columns that are read, estimated from the files' sizes: twelve columns of
which two are read need fewer tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from omnigraph_spark.storage.datasets import Fragment

#: Spark's own target for file scans.
SPLIT_BYTES = 128 << 20
# A scan below eight targets is spread over about eight tasks, as Spark spreads files over its
# cores, but no task is cut below Spark's own cost of opening one.
_SPREAD_OVER = 8
_LEAST_BYTES = 4 << 20


@dataclass(frozen=True)
class Piece:
    """Fragments that one task reads, or a range of the live rows of a single one."""

    fragment_ids: tuple[int, ...]
    row_range: tuple[int, int] | None = None


def pack_fragments(
    fragments: Sequence[Fragment], share: float, split_bytes: int, may_split: bool
) -> list[Piece]:
    """Group fragments, in order, into pieces near the target size; never returns an empty list.

    `share` is the part of the files' bytes that is read. With a filter fragments are not split
    (`may_split=False`): an offset would count rows that passed it.
    """
    sizes = {fragment.id: max(1, round(fragment.size_bytes * share)) for fragment in fragments}
    target = min(split_bytes, max(_LEAST_BYTES, -(-sum(sizes.values()) // _SPREAD_OVER)))
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
        if size > target and may_split:
            flush()
            pieces.extend(_split(fragment, -(-size // target)))
            continue
        if waiting_bytes + size > target:
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
