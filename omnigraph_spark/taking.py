"""Reading rows by place: which rows of a fragment are alive, and the values of chosen ones.

Nothing but metadata tells which rows are alive, so asking is cheap whatever the rows hold. Rows are
found by a filter on their addresses: Lance's own `take` counts live rows from the first one for
every row, and of a fragment with deletions two thousand rows take it seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.arrow_rows import batch_rows, public_schema, to_public
from omnigraph_spark.blobs import Blobs
from omnigraph_spark.errors import StorageError
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column

Numbers = npt.NDArray[np.int64]

_ADDRESS, _ROW_ID = "_rowaddr", "_rowid"
_STAMP = "_row_last_updated_at_version"
_PLACE_BITS = 32
#: So many rows are found in one go; the text of the filter stays below 64 KiB.
AT_ONCE = 4_096
#: Numbers come from metadata; in batches of Lance's own size there would be thousands of them.
_LIVE_BATCH = 1 << 17

#: The live rows of fragments: where they lie, which they are, at which version they were written.
LIVE_ROWS = pa.schema(
    [
        pa.field(name, pa.int64(), nullable=False)
        for name in ("fragment", "place", "row_id", "stamp")
    ]
)


def live_rows(source: ScanSource, fragment_id: int) -> Iterator[pa.RecordBatch]:
    """Stream the live rows of one fragment, from metadata alone."""
    try:
        names = [_ADDRESS, _ROW_ID, _STAMP]
        for batch in source.open().batches([fragment_id], names, batch_size=_LIVE_BATCH):
            addresses = batch.column(_ADDRESS)
            numbers = (
                pc.shift_right(addresses, pa.scalar(_PLACE_BITS, pa.uint64())),
                pc.bit_wise_and(addresses, pa.scalar((1 << _PLACE_BITS) - 1, pa.uint64())),
                batch.column(_ROW_ID),
                batch.column(_STAMP),
            )
            arrays = [number.cast(pa.int64()) for number in numbers]
            yield pa.RecordBatch.from_arrays(arrays, schema=LIVE_ROWS)
    except StorageError as error:
        raise source.explain(error) from error


def live_places(source: ScanSource, fragment_id: int) -> Numbers:
    """Return the places of the live rows of one fragment, ascending."""
    found = [batch.column("place").to_numpy() for batch in live_rows(source, fragment_id)]
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


@dataclass(frozen=True)
class PlacedRows:
    """Columns of one type, read where places say."""

    source: ScanSource
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the public rows."""
        return public_schema(self.columns, Blobs.DESCRIPTOR)

    def read(
        self, places: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Yield places, in portions that fit memory, each with the rows that lie there.

        Places are batches with the columns `fragment` and `place`, best in order.
        """
        taker, most = self.taker(), batch_rows(self.columns)
        for batch in places:
            for start in range(0, batch.num_rows, most):
                portion = batch.slice(start, most)
                yield portion, taker.take(portion.column("fragment"), portion.column("place"))

    def taker(self) -> Taker:
        """Return what reads portion after portion, and remembers where rows lie."""
        return Taker(self)


class Taker:
    """Reads rows of one type by place."""

    def __init__(self, rows: PlacedRows) -> None:
        self._rows = rows
        self._names = [column.name for column in rows.columns]
        self._dataset = rows.source.open()

    def take(self, fragments: pa.Array[Any], places: pa.Array[Any]) -> pa.RecordBatch:
        """Return the public rows at these places, in their order; all of them are alive."""
        high = fragments.to_numpy().astype(np.int64) << _PLACE_BITS
        wanted, order = np.unique(high | places.to_numpy(), return_inverse=True)
        try:
            found = pa.Table.from_batches(self._found(wanted))
        except StorageError as error:
            raise self._rows.source.explain(error) from error
        lying = found.column(_ADDRESS).to_numpy()
        # Lance keeps the order of rows in a scan, but nothing says so of rows found by a filter.
        ordered = np.argsort(lying, kind="stable")
        if not np.array_equal(lying[ordered], wanted):
            raise AssertionError("rows that a version has were not found where they lie")
        chosen = found.select(self._names).combine_chunks().take(ordered[order])
        return to_public(chosen.to_batches()[0], self._rows.columns, Blobs.DESCRIPTOR)

    def _found(self, addresses: Numbers) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(addresses), AT_ONCE):
            some = addresses[start : start + AT_ONCE]
            fragments = np.unique(some >> _PLACE_BITS).tolist()
            listed = ", ".join(map(str, some.tolist()))
            where = f"{_ADDRESS} IN ({listed})"
            yield from self._dataset.batches(fragments, [*self._names, _ADDRESS], filter=where)
