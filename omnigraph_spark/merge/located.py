"""Where rows of the base lie in the target: known from the names of files, without reading an id.

A row that the target did not touch lies in the same file at the same place, in whichever fragment
the target has that file. Rows that it moved, by compaction or by writing them again, are not found
this way, and their ids are looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_spark.merge.rows import TypeRows
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.storage.parts import FragmentContent
from omnigraph_spark.taking import Numbers, live_places
from omnigraph_spark.writing.workspace import PLACE_NAMES, Interest, Workspace

_NUMBER: pa.DataType = pa.int64()
_PLACED = pa.schema({"id": pa.string(), **dict.fromkeys(PLACE_NAMES, _NUMBER)})


def locate(space: Workspace, rows: TypeRows, change: str, name: str) -> None:
    """Define relation `name`: id, fragment, place and row id, in the target, of rows taken.

    `change` is ``changed`` or ``removed``: what becomes of the target's rows.
    """
    base, target = rows.sides.base, rows.sides.target
    found, lost = f"{name}_found", f"{name}_lost"
    query = f"SELECT id, fragment, place, row_id FROM {rows.replaced} WHERE change = '{change}'"
    known = f"{query} AND in_target"
    if base is None:
        space.define(name, known)
        return
    moving = f"{query} AND NOT in_target ORDER BY fragment, place"
    space.add_mapped(found, moving, _Relocate(base, target), _PLACED)
    space.define(
        lost,
        f"SELECT l.id FROM ({query} AND NOT in_target) l "
        f"WHERE NOT EXISTS (SELECT 1 FROM {found} f WHERE f.id = l.id)",
    )
    parts = [known, f"SELECT id, fragment, place, row_id FROM {found}"]
    [(missing,)] = space.rows(f"SELECT count(*) FROM {lost}")
    if missing:
        interest = Interest(("id",), lost, ("id",))
        space.add_committed(f"{name}_met", target, {"id": "id"}, [interest], places=True)
        parts.append(f"SELECT id, fragment, place, row_id FROM {name}_met")
    space.define(name, " UNION ALL ".join(parts))
    for relation in (found, lost, *([f"{name}_met"] if missing else ())):
        space.drop(relation)


@dataclass(frozen=True)
class _Relocate:
    """Finds places of the base in the target; those that are not alive there are left out."""

    base: ScanSource
    target: ScanSource

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        there = {each.files: each for each in self.target.open().contents()}
        pairs = {each.id: (each, there.get(each.files)) for each in self.base.open().contents()}
        alive: tuple[int, Numbers] | None = None
        for batch in batches:
            fragments, places = (batch.column(name).to_numpy() for name in PLACE_NAMES[:2])
            kept = np.zeros(batch.num_rows, np.bool_)
            moved = np.zeros(batch.num_rows, np.int64)
            for number in np.unique(fragments).tolist():
                own, other = pairs[number]
                if other is None:
                    continue
                chosen = fragments == number
                moved[chosen] = other.id
                if _has_all_of(other, own):
                    kept |= chosen
                    continue
                if alive is None or alive[0] != other.id:
                    alive = (other.id, live_places(self.target, other.id))
                kept |= chosen & np.isin(places, alive[1])
            ids: pa.Array[Any] = batch.column("id").cast(pa.string())
            rest = [batch.column(name).cast(_NUMBER) for name in PLACE_NAMES[1:]]
            found = pa.RecordBatch.from_arrays([ids, pa.array(moved), *rest], schema=_PLACED)
            yield found.filter(pa.array(kept))


def _has_all_of(other: FragmentContent, own: FragmentContent) -> bool:
    """Tell whether every live row of a fragment is alive in the other one of the same files."""
    return other.deletions is None or other.deletions == own.deletions
