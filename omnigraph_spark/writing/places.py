"""Where the rows lie that were decided about one by one: known to whoever read them.

To find them again by their ids, the ids of the whole type would be read. So a task that stages rows
of a statement stages their places as well, in small files of their own. They are the places of the
version that the statement read: on any other they mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, read_staged, stage_batches
from omnigraph_spark.writing.stage import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from omnigraph_spark.writing.workspace import PLACE_NAMES, Workspace

_TYPES = {"id": pa.string(), **dict.fromkeys(PLACE_NAMES, pa.int64())}
_SCHEMA = pa.schema([pa.field(name, type_, nullable=False) for name, type_ in _TYPES.items()])
_OFFSET_BITS = 32


def places_of(
    ids: pa.Array[Any], row_ids: pa.Array[Any], addresses: pa.Array[Any]
) -> pa.RecordBatch:
    """Return the places of rows; an address is the fragment above and the place in it below."""
    fragments = pc.shift_right(addresses, pa.scalar(_OFFSET_BITS, pa.int64()))
    places = pc.bit_wise_and(addresses, pa.scalar((1 << _OFFSET_BITS) - 1, pa.int64()))
    return pa.RecordBatch.from_arrays([ids, fragments, places, row_ids], schema=_SCHEMA)


def stage_places(
    address: DatasetAddress, settings: StorageSettings, batches: Iterable[pa.RecordBatch]
) -> tuple[StagedFile, ...]:
    """Write places where nobody sees them; they are only read back."""
    limits = (MAX_ROWS_PER_FILE, MAX_BYTES_PER_FILE)
    return tuple(stage_batches(address, batches, _SCHEMA, settings, *limits, as_given=True))


def add_places(
    space: Workspace,
    name: str,
    address: DatasetAddress,
    files: Sequence[StagedFile],
    settings: StorageSettings,
) -> None:
    """Add the places in staged files under a name: id, fragment, place, row_id."""
    space.add_parts(name, files, partial(_read, address, settings), _SCHEMA)


def _read(
    address: DatasetAddress, settings: StorageSettings, file: StagedFile
) -> Iterator[pa.RecordBatch]:
    return read_staged(address, [file], _SCHEMA.names, settings)
