"""The shape of a table about a graph: a name, columns, and what its rows are made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph_spark.snapshot import SnapshotState

Row = tuple[Any, ...]

TEXT, LONG, FLAG = pa.string(), pa.int64(), pa.bool_()
TEXTS = pa.list_(TEXT)
TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class MetadataTable:
    """One table about a graph."""

    name: str
    #: What one row stands for.
    row: str
    schema: pa.Schema
    rows: Callable[[SnapshotState], Iterable[Row]]

    def read(self, state: SnapshotState) -> pa.Table:
        """Read the table as of a snapshot."""
        columns = list(zip(*self.rows(state), strict=True)) or [() for _ in self.schema]
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def declare_table(
    name: str,
    row: str,
    rows: Callable[[SnapshotState], Iterable[Row]],
    columns: dict[str, pa.DataType],
) -> MetadataTable:
    """Declare a table by its columns."""
    return MetadataTable(name, row, pa.schema(list(columns.items())), rows)
