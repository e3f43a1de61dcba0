"""The rows of one side that take part in a comparison: ids, encoded values and where they lie.

Whole fragments are scanned; of shared ones only the rows that the other side does not have are
taken. Every piece is a plain value that can be read in any process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_spark.blobs import is_blob
from omnigraph_spark.comparing.encoding import encode_columns, encoded_field
from omnigraph_spark.scan import (
    FRAGMENT,
    PLACE,
    ROW_ID,
    ScanRequest,
    ScanTask,
    plan_scan,
    read_task_with_places,
)
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column, Role
from omnigraph_spark.taking import PlacedRows, live_places, live_rows
from omnigraph_spark.writing.workspace import PLACE_NAMES, Workspace

_SYSTEM = (FRAGMENT, PLACE, ROW_ID)
#: The encoded fields of every compared column.
Fields = tuple["pa.Field[Any]", ...]


@dataclass(frozen=True)
class ComparedColumns:
    """The columns that decide whether a row changed, as each side has them.

    A column that one side does not have, or has with another type, is null there: adding a column
    changes no row until it holds a value.
    """

    names: tuple[str, ...]
    before: tuple[Column | None, ...]
    after: tuple[Column | None, ...]

    @classmethod
    def of(cls, before: Sequence[Column], after: Sequence[Column]) -> ComparedColumns:
        """Pair the columns of two versions by name and stored type; the id is not among them."""
        old = {_identity(column): column for column in before if column.role is not Role.ID}
        new = {_identity(column): column for column in after if column.role is not Role.ID}
        # In the order of the newer version, then what only the older one has.
        keys = [*new, *(key for key in old if key not in new)]
        return cls(
            tuple(name for name, *_ in keys),
            tuple(old.get(key) for key in keys),
            tuple(new.get(key) for key in keys),
        )

    def blobs(self) -> tuple[int, ...]:
        """Return the numbers of the blob columns that both sides have."""
        both = enumerate(zip(self.before, self.after, strict=True))
        return tuple(number for number, (old, new) in both if old and new and is_blob(old))

    def fields(self) -> Fields:
        """Return what the columns become: `v0`, `v1` and so on."""
        either = (new or old for old, new in zip(self.before, self.after, strict=True))
        known = (column for column in either if column is not None)
        return tuple(encoded_field(column, f"v{at}") for at, column in enumerate(known))


def _identity(column: Column) -> tuple[str, str, bool, int | None]:
    return (column.name, column.type.scalar, column.type.list, column.type.dimension)


@dataclass(frozen=True)
class Side:
    """One version in a comparison: how its rows are read."""

    source: ScanSource
    id: Column
    #: The columns that are compared, None for those that are not there, and what they become.
    columns: tuple[Column | None, ...]
    fields: Fields

    @classmethod
    def of(cls, source: ScanSource, columns: Sequence[Column | None], fields: Fields) -> Side:
        """Read the id and these columns; none where ids suffice."""
        [id_] = (column for column in source.columns() if column.role is Role.ID)
        return cls(source, id_, tuple(columns), fields)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows: `id`, the encoded values, and where the row lies."""
        return pa.schema(
            [
                pa.field("id", pa.string()),
                *self.fields,
                *(pa.field(name, pa.int64()) for name in PLACE_NAMES),
            ]
        )

    def tasks(self, fragment_ids: Sequence[int]) -> tuple[ScanTask, ...]:
        """Return the tasks that scan whole fragments."""
        names = tuple(column.name for column in self._stored())
        request = ScanRequest(names, fragment_ids=frozenset(fragment_ids))
        return plan_scan(self.source, request).tasks

    def scan(self, task: ScanTask) -> Iterator[pa.RecordBatch]:
        """Read one task."""
        for batch in read_task_with_places(task):
            yield self._encoded(batch, [batch.column(name) for name in _SYSTEM])

    def take(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read rows by place; places have the columns fragment, place and row_id."""
        for portion, rows in PlacedRows(self.source, self._stored()).read(places):
            yield self._encoded(rows, [portion.column(name) for name in PLACE_NAMES])

    def _stored(self) -> tuple[Column, ...]:
        return (self.id, *(column for column in self.columns if column is not None))

    def _encoded(self, batch: pa.RecordBatch, places: Sequence[pa.Array[Any]]) -> pa.RecordBatch:
        arrays = [batch.column(self.id.name), *encode_columns(batch, self.columns, self.fields)]
        return pa.RecordBatch.from_arrays([*arrays, *places], schema=self.schema)


def only_here(
    source: ScanSource, other: ScanSource, fragments: tuple[int, int]
) -> Iterator[pa.RecordBatch]:
    """Stream the live rows of a fragment that the other side has deleted: metadata alone."""
    here, there = fragments
    others = live_places(other, there)
    alive = np.zeros(1 + (int(others[-1]) if len(others) else 0), np.bool_)
    alive[others] = True
    for batch in live_rows(source, here):
        places = batch.column("place").to_numpy()
        kept = places >= len(alive)
        kept[~kept] = ~alive[places[~kept]]
        if kept.any():
            yield batch.filter(pa.array(kept))


def add_side(
    space: Workspace, name: str, side: Side, whole: Sequence[int], places: Sequence[str]
) -> None:
    """Add the rows of one side: of whole fragments, and those that relations of places say."""
    made = []
    if whole:
        made.append(f"{name}_scanned")
        space.add_parts(made[-1], side.tasks(whole), side.scan, side.schema)
    for relation in places:
        made.append(f"{name}_taken{len(made)}")
        query = f"SELECT fragment, place, row_id FROM {relation} ORDER BY fragment, place"
        space.add_mapped(made[-1], query, side.take, side.schema)
    space.define(name, " UNION ALL ".join(f"SELECT * FROM {each}" for each in made))
    for each in made:
        space.drop(each)
