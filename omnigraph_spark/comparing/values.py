"""Rows that differ, with their values: both sides read by place, in portions that fit memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.arrow_rows import batch_rows, public_schema
from omnigraph_spark.blobs import Blobs
from omnigraph_spark.comparing.compare import AFTER_PLACE, BEFORE_PLACE
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.taking import PlacedRows, Taker

#: In this order rows of both sides are near one another: first what is there now, as it lies.
READING_ORDER = "after_fragment, after_place, before_fragment, before_place"


@dataclass(frozen=True)
class Valued:
    """A batch of differences with the rows of both sides, null where a side has none."""

    differences: pa.RecordBatch
    before: pa.StructArray
    after: pa.StructArray


@dataclass(frozen=True)
class ValueReader:
    """Reads the rows of differences; a plain value that works in any process."""

    before: ScanSource | None
    after: ScanSource | None
    #: The columns of each side; where a side does not have the type, those of the other.
    before_columns: tuple[Column, ...]
    after_columns: tuple[Column, ...]
    #: The columns that were compared, in the order of their numbers.
    compared: tuple[str, ...]

    @classmethod
    def of(
        cls, before: ScanSource | None, after: ScanSource | None, compared: tuple[str, ...]
    ) -> ValueReader:
        """Read rows of two versions that were compared."""
        old = None if before is None else before.columns()
        new = None if after is None else after.columns()
        return cls(before, after, old or new or (), new or old or (), compared)

    @property
    def before_type(self) -> pa.StructType:
        """The type of rows before."""
        return _row_type(self.before_columns)

    @property
    def after_type(self) -> pa.StructType:
        """The type of rows after."""
        return _row_type(self.after_columns)

    def read(self, differences: Iterable[pa.RecordBatch]) -> Iterator[Valued]:
        """Yield differences with their rows, in the order given, best in `READING_ORDER`."""
        old = None if self.before is None else PlacedRows(self.before, self.before_columns).taker()
        new = None if self.after is None else PlacedRows(self.after, self.after_columns).taker()
        most = min(batch_rows(self.before_columns), batch_rows(self.after_columns))
        for batch in differences:
            for start in range(0, batch.num_rows, most):
                portion = batch.slice(start, most)
                yield Valued(
                    portion,
                    _side(old, portion, BEFORE_PLACE, self.before_type),
                    _side(new, portion, AFTER_PLACE, self.after_type),
                )

    def changed_columns(self, differences: pa.RecordBatch) -> pa.Array[Any]:
        """Return the names of the columns that differ, a list for each row."""
        texts: list[Any] = differences.column("differing").to_pylist()
        # Columns differ in few combinations, whatever the number of rows.
        known = {text: self._names(text) for text in set(texts)}
        return pa.array([known[text] for text in texts], pa.list_(pa.string()))

    def _names(self, numbers: str) -> list[str]:
        ordered = sorted(map(int, numbers.split(","))) if numbers else []
        return [self.compared[number] for number in ordered]


def _row_type(columns: tuple[Column, ...]) -> pa.StructType:
    # Where there is no row there is no value either, whatever the column demands.
    fields = public_schema(columns, Blobs.DESCRIPTOR)
    return pa.struct([field.with_nullable(True) for field in fields])


def _side(
    taker: Taker | None, portion: pa.RecordBatch, places: tuple[str, ...], row_type: pa.StructType
) -> pa.StructArray:
    fragments, offsets = (portion.column(name) for name in places[:2])
    there = fragments.is_valid()
    found = np.asarray(there.to_numpy(zero_copy_only=False), np.bool_)
    if taker is None or not found.any():
        return pa.nulls(portion.num_rows, row_type)
    rows = taker.take(fragments.filter(there), offsets.filter(there))
    values = pa.StructArray.from_arrays(rows.columns, fields=list(row_type))
    at = pa.array(np.cumsum(found) - 1, mask=~found)
    taken: pa.StructArray = pc.take(values, at)
    return taken
