"""Blobs of equal size compared by content: read by place, kept as digests.

Most blobs are settled by their descriptors: one is null, the sizes differ, the addresses of files
differ. Only pairs that these leave open are read, in portions of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from omnigraph_spark.comparing.encoding import SIZE_MARK, digest
from omnigraph_spark.comparing.sides import ComparedColumns
from omnigraph_spark.errors import StorageError
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.taking import PlacedRows
from omnigraph_spark.writing.workspace import Workspace

#: Blobs held at once.
_PORTION_BYTES = 64 << 20
_PLACE_BITS = 32
_EMPTY = f"{SIZE_MARK}0"
_PLACES = ("fragment", "place")


@dataclass(frozen=True)
class BlobReader:
    """Digests of the blobs of one side."""

    source: ScanSource
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """Where the row lies, then a digest for each column, null for what is not bytes."""
        fields: list[pa.Field[Any]] = [pa.field(name, pa.int64()) for name in _PLACES]
        digests = range(len(self.columns))
        return pa.schema([*fields, *(pa.field(f"d{each}", pa.binary()) for each in digests)])

    def read(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the blobs at places."""
        for portion, rows in PlacedRows(self.source, self.columns).read(places):
            digests = [
                self._digests(column, portion, cast(pa.StructArray, rows.column(column.name)))
                for column in self.columns
            ]
            own = [portion.column(name) for name in _PLACES]
            yield pa.RecordBatch.from_arrays([*own, *digests], schema=self.schema)

    def _digests(
        self, column: Column, places: pa.RecordBatch, descriptors: pa.StructArray
    ) -> pa.Array[Any]:
        found: list[bytes | None] = [None] * len(descriptors)
        wanted: list[int] = []
        held = 0
        sizes: list[Any] = descriptors.field("size").to_pylist()
        kinds: list[Any] = descriptors.field("kind").to_pylist()
        present: list[Any] = descriptors.is_valid().to_pylist()
        for row, (there, kind, size) in enumerate(zip(present, kinds, sizes, strict=True)):
            if not there or kind == "external":
                continue
            wanted.append(row)
            held += size
            if held >= _PORTION_BYTES:
                self._fill(found, column, wanted, places)
                wanted, held = [], 0
        self._fill(found, column, wanted, places)
        return pa.array(found, pa.binary())

    def _fill(
        self,
        found: list[bytes | None],
        column: Column,
        rows: Sequence[int],
        places: pa.RecordBatch,
    ) -> None:
        if not rows:
            return
        fragments, offsets = (places.column(name).to_numpy()[list(rows)] for name in _PLACES)
        addresses = (fragments.astype("u8") << _PLACE_BITS) | offsets.astype("u8")
        try:
            contents = self.source.open().blobs(column.name, pa.array(addresses))
        except StorageError as error:
            raise self.source.explain(error) from error
        for row, content in zip(rows, contents, strict=True):
            found[row] = digest(content or b"")


@dataclass(frozen=True)
class Settled:
    """A query over pairs of rows that knows their blobs, and the relations it rests on."""

    query: str
    relations: tuple[str, str]


def settle_blobs(
    space: Workspace,
    name: str,
    pairs: str,
    columns: ComparedColumns,
    before: ScanSource,
    after: ScanSource,
) -> Settled:
    """Read the blobs that descriptors leave open, and add what differs to a relation of pairs.

    `pairs` has, for each blob column, the column `doubt` and its number: 1 where content decides.
    """
    numbers = columns.blobs()
    doubt = " OR ".join(f"p.doubt{number} = 1" for number in numbers)
    relations = (f"{name}_before_blobs", f"{name}_after_blobs")
    sides = (("before", before, columns.before), ("after", after, columns.after))
    for relation, (side, source, own) in zip(relations, sides, strict=True):
        chosen = (own[number] for number in numbers)
        reader = BlobReader(source, tuple(column for column in chosen if column is not None))
        query = (
            f"SELECT p.{side}_fragment AS fragment, p.{side}_place AS place "
            f"FROM {pairs} p WHERE {doubt} ORDER BY fragment, place"
        )
        space.add_mapped(relation, query, reader.read, reader.schema)
    more = ", ".join(
        f"CASE WHEN p.doubt{number} = 1 AND o.d{at} IS DISTINCT FROM n.d{at} THEN '{number}' END"
        for at, number in enumerate(numbers)
    )
    old, new = relations
    joined = (
        f"SELECT p.id, p.change, p.before_fragment, p.before_place, p.before_row_id, "
        f"p.after_fragment, p.after_place, p.after_row_id, "
        f"concat_ws(',', nullif(p.differing, ''), {more}) AS differing FROM {pairs} p "
        f"LEFT JOIN {old} o ON o.fragment = p.before_fragment AND o.place = p.before_place "
        f"LEFT JOIN {new} n ON n.fragment = p.after_fragment AND n.place = p.after_place"
    )
    return Settled(joined, relations)


def is_content(value: str) -> str:
    """Write the condition that an encoded blob is bytes, which equal descriptors do not settle."""
    return f"({value} LIKE '{SIZE_MARK}%' AND {value} <> '{_EMPTY}')"
