"""Rows that compaction moved to other files: found by row id and stamp, without reading a value.

Where one version is in the past of the other, a row keeps its id whatever file it lies in, and is
stamped with the version that wrote it last. Two rows of one id and one stamp are the same row with
the same values. Equal stamps are asked for, not old ones: a version that was restored brings back
older stamps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from omnigraph_spark.comparing.candidates import Candidates
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.taking import LIVE_ROWS, live_rows
from omnigraph_spark.writing.workspace import Workspace


@dataclass(frozen=True)
class Half:
    """What is left to read of one side."""

    source: ScanSource
    candidates: Candidates
    #: Relations of `LIVE_ROWS`: single rows to read besides the whole fragments.
    places: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.candidates.whole or self.places)


def leave_out_moved(
    space: Workspace, name: str, before: Half, after: Half, shared_version: int
) -> tuple[Half, Half]:
    """Return the sides without rows that lie in other files and are the same.

    Fragments that got, or lost, none of them are still read whole.
    """
    old, new, moved = f"{name}_before_live", f"{name}_after_live", f"{name}_moved"
    for relation, half in ((old, before), (new, after)):
        read = partial(live_rows, half.source)
        space.add_parts(relation, half.candidates.whole, read, LIVE_ROWS)
    space.define(
        moved,
        f"SELECT /*+ MERGE(o, n) */ o.row_id, o.fragment AS old_fragment, "
        f"n.fragment AS new_fragment FROM {old} o JOIN {new} n "
        f"ON o.row_id = n.row_id AND o.stamp = n.stamp WHERE o.stamp <= {int(shared_version)}",
    )
    left = (
        _left(space, f"{name}_before_left", before, old, moved, "old_fragment"),
        _left(space, f"{name}_after_left", after, new, moved, "new_fragment"),
    )
    for relation in (old, new, moved):
        space.drop(relation)
    return left


def _left(space: Workspace, name: str, half: Half, live: str, moved: str, column: str) -> Half:
    """Take fragments with moved rows apart; their other rows become a relation of places."""
    found = sorted(int(row[0]) for row in space.rows(f"SELECT DISTINCT {column} FROM {moved}"))
    if not found:
        return half
    apart = ", ".join(map(str, found))
    # Row ids are unique within a version, so the id alone says which row was moved.
    space.define(
        name,
        f"SELECT l.* FROM {live} l WHERE l.fragment IN ({apart}) "
        f"AND NOT EXISTS (SELECT 1 FROM {moved} m WHERE m.row_id = l.row_id)",
    )
    whole = tuple(id_ for id_ in half.candidates.whole if id_ not in set(found))
    rest = replace(half, candidates=replace(half.candidates, whole=whole))
    [(rows,)] = space.rows(f"SELECT count(*) FROM {name}")
    if rows:
        return replace(rest, places=(*rest.places, name))
    space.drop(name)
    return rest
