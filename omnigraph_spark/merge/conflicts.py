"""Conflicts as people see them: what is in the way, with the rows of all three sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.errors import Conflict, ConflictKind
from omnigraph_spark.filters import in_texts
from omnigraph_spark.merge.heads import Sides
from omnigraph_spark.merge.rows import TypeRows
from omnigraph_spark.scan import ScanRequest, plan_scan, read_all
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.taking import PlacedRows
from omnigraph_spark.writing.violations import Violation
from omnigraph_spark.writing.workspace import Workspace

#: Conflicts that are listed, with their rows; more are counted. Enough to see what is wrong, and
#: no more than fits a page of a notebook or the memory of a small process.
LISTED = 1_000

_MESSAGES = {
    ConflictKind.DIVERGENT_INSERT: "both branches inserted it, with different values",
    ConflictKind.DIVERGENT_UPDATE: "both branches changed it, to different values",
    ConflictKind.DELETE_VS_UPDATE: "one branch deleted it, the other changed it",
}
#: The rules that a merged graph may break, by the word of the check.
_KINDS = {
    "endpoint": ConflictKind.ORPHAN_EDGE,
    "unique": ConflictKind.UNIQUE_VIOLATION,
    "key": ConflictKind.UNIQUE_VIOLATION,
    "cardinality": ConflictKind.CARDINALITY_VIOLATION,
}


def row_conflicts(space: Workspace, rows: TypeRows, limit: int) -> list[Conflict]:
    """Return the first conflicts about rows of one type, in the order of their ids."""
    columns = ", ".join(f"{side}_fragment, {side}_place" for side in ("base", "ours", "theirs"))
    query = f"SELECT id, kind, {columns} FROM {rows.undecided} ORDER BY id LIMIT {limit}"
    found = space.rows(query)
    sides = (rows.sides.base, rows.sides.target, rows.sides.source)
    images = _Images(
        rows_at(side, {str(row[0]): (row[at], row[at + 1]) for row in found})
        for side, at in zip(sides, (2, 4, 6), strict=True)
    )
    kinds = ((str(row[0]), ConflictKind(row[1])) for row in found)
    return [images.conflict(rows.plan.key, id_, kind, _MESSAGES[kind]) for id_, kind in kinds]


def rule_conflicts(violations: Iterable[Violation], sides: Mapping[str, Sides]) -> list[Conflict]:
    """Return the rules that the merged graph would break, one conflict for each row shown."""
    conflicts: list[Conflict] = []
    for found in violations:
        kind = _KINDS.get(found.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)
        message = f"{found.rule} on {found.column}: {found.message}"
        # The ids of a cardinality are those of nodes, not of edges.
        of_rows = kind is not ConflictKind.CARDINALITY_VIOLATION and found.type_key in sides
        own = sides[found.type_key] if of_rows else None
        three = (None,) * 3 if own is None else (own.base, own.target, own.source)
        images = _Images(_rows_of(side, found.ids) for side in three)
        conflicts += [images.conflict(found.type_key, id_, kind, message) for id_ in found.ids]
    return sorted(conflicts, key=lambda conflict: (conflict.type_key, conflict.id, conflict.kind))


class _Images:
    """Rows of the three sides (base, ours, theirs), by id."""

    def __init__(self, sides: Iterable[Mapping[str, dict[str, Any]]]) -> None:
        self._rows = tuple(sides)

    def conflict(self, key: str, id_: str, kind: ConflictKind, message: str) -> Conflict:
        base, ours, theirs = (rows.get(id_) for rows in self._rows)
        return Conflict(key, id_, kind, message, base, ours, theirs)


def rows_at(
    source: ScanSource | None, places: Mapping[str, tuple[int | None, int | None]]
) -> dict[str, dict[str, Any]]:
    """Read the rows that lie at these places (fragment, place) by id, as users see them."""
    there = {id_: place for id_, place in places.items() if place[0] is not None}
    if source is None or not there:
        return {}
    columns = zip(("fragment", "place"), zip(*there.values(), strict=True), strict=True)
    wanted = pa.RecordBatch.from_pydict({name: pa.array(of, pa.int64()) for name, of in columns})
    read = PlacedRows(source, tuple(source.columns())).read([wanted])
    return dict(zip(there, (row for _, rows in read for row in rows.to_pylist()), strict=True))


def _rows_of(source: ScanSource | None, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read the rows of a few ids, which may lie anywhere, as users see them."""
    if source is None or not ids:
        return {}
    # A filter cannot hold a null character, which an id can: such rows are found by reading all.
    where = None if any("\0" in id_ for id_ in ids) else in_texts("id", ids)
    batches = read_all(plan_scan(source, ScanRequest(where=where)))
    return {row["id"]: row for batch in batches for row in _of_ids(batch, ids)}


def _of_ids(batch: pa.RecordBatch, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    yield from batch.filter(pc.is_in(batch.column("id"), pa.array(ids, pa.string()))).to_pylist()
