"""What differs in one type between two snapshots: a plain value that is read in any process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from omnigraph_spark.comparing.candidates import Overlap, overlap_of
from omnigraph_spark.comparing.compare import compare, compared_columns
from omnigraph_spark.comparing.json_rows import json_texts
from omnigraph_spark.comparing.values import READING_ORDER, ValueReader
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.writing.workspace import DuckWorkspace, Workspace

#: What differs in any type: values as JSON.
JSON_DIFFERENCES = pa.schema(
    [
        pa.field("type_key", pa.string()),
        pa.field("id", pa.string()),
        pa.field("change", pa.string()),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
        pa.field("columns", pa.list_(pa.string())),
    ]
)
#: The relation of differences, wherever it is defined.
FOUND = "found"


@dataclass(frozen=True)
class TypeDifference:
    """One type of two snapshots; a side is None where it does not have the type."""

    type_key: str
    before: ScanSource | None
    after: ScanSource | None

    @cached_property
    def overlap(self) -> Overlap:
        """Which rows may differ, from metadata."""
        return overlap_of(self.before, self.after)

    @property
    def rows(self) -> int:
        """About how many rows have to be looked at."""
        return self.overlap.before.rows + self.overlap.after.rows

    def __bool__(self) -> bool:
        return bool(self.overlap.before or self.overlap.after)

    @cached_property
    def values(self) -> ValueReader:
        """What reads the values of both sides."""
        return ValueReader.of(self.before, self.after, compared_columns(self.before, self.after))

    @property
    def schema(self) -> pa.Schema:
        """The schema of typed differences: the rows of both sides as structs."""
        return pa.schema(
            [
                pa.field("id", pa.string()),
                pa.field("change", pa.string()),
                pa.field("before", self.values.before_type),
                pa.field("after", self.values.after_type),
                pa.field("columns", pa.list_(pa.string())),
            ]
        )

    def define(self, space: Workspace) -> None:
        """Define the relation of differences in a workspace."""
        compare(space, FOUND, self.before, self.after)

    def typed(self, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read differences with the rows of both sides."""
        for read in self.values.read(found):
            own = [read.differences.column(name) for name in ("id", "change")]
            columns = self.values.changed_columns(read.differences)
            arrays = [*own, read.before, read.after, columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def as_json(self, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read differences with the rows of both sides as JSON texts."""
        for read in self.values.read(found):
            own = [read.differences.column(name) for name in ("id", "change")]
            keys = pa.repeat(pa.scalar(self.type_key), read.differences.num_rows)
            texts = [json_texts(read.before), json_texts(read.after)]
            arrays = [keys, *own, *texts, self.values.changed_columns(read.differences)]
            yield pa.RecordBatch.from_arrays(arrays, schema=JSON_DIFFERENCES)

    def typed_batches(self) -> Iterator[pa.RecordBatch]:
        """Stream typed differences in this process, within a memory bound."""
        with DuckWorkspace() as space:
            self.define(space)
            yield from self.typed(space.stream(f"SELECT * FROM {FOUND} ORDER BY {READING_ORDER}"))

    def json_batches(self) -> Iterator[pa.RecordBatch]:
        """Stream differences as JSON in this process, within a memory bound."""
        with DuckWorkspace() as space:
            self.define(space)
            yield from self.as_json(space.stream(f"SELECT * FROM {FOUND} ORDER BY {READING_ORDER}"))


def type_differences(before: SnapshotState, after: SnapshotState) -> list[TypeDifference]:
    """Pair the types of two snapshots, those that may differ, by type key."""
    keys = sorted({*before.entries, *after.entries})
    found = (type_difference(before, after, key) for key in keys)
    return [each for each in found if each]


def type_difference(before: SnapshotState, after: SnapshotState, key: str) -> TypeDifference:
    """Pair one type of two snapshots."""
    sides = (ScanSource.of(side, key) if key in side.entries else None for side in (before, after))
    return TypeDifference(key, *sides)
