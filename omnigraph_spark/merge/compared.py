"""What each branch did to a type since both parted: comparisons, made when first asked for.

A row that neither branch changed is the same on all three sides, and kept every rule on each. So
whatever decides a merge is among the rows that one of them changed, and nothing else is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph_spark.comparing.compare import compare
from omnigraph_spark.merge.heads import Heads
from omnigraph_spark.merge.plan import pin_of
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.taking import PlacedRows
from omnigraph_spark.writing.workspace import Workspace

# Spark has no unsigned numbers; as these they compare alike everywhere.
_SIGNED: dict[pa.DataType, pa.DataType] = {
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


@dataclass
class Compared:
    """The comparisons of one merge, as relations of its workspace; see `compare` for columns."""

    space: Workspace
    heads: Heads
    _made: set[str] = field(default_factory=set)

    def number(self, key: str) -> int:
        """Return the number of a type, which makes the names of its relations."""
        return sorted(self.heads.target.entries).index(key)

    def theirs(self, key: str) -> str:
        """Return the relation of what the source did."""
        sides = self.heads.sides(key)
        return self._make(f"theirs_{self.number(key)}", sides.base, sides.source)

    def ours(self, key: str) -> str:
        """Return the relation of what the target did."""
        sides = self.heads.sides(key)
        return self._make(f"ours_{self.number(key)}", sides.base, sides.target)

    def apart(self, key: str) -> str:
        """Return the relation of how the target's rows become those of the source."""
        sides = self.heads.sides(key)
        return self._make(f"apart_{self.number(key)}", sides.target, sides.source)

    def target_changed(self, key: str) -> bool:
        """Tell whether the target may have changed a type: otherwise it pins what the base pins."""
        base, target = (side.entries.get(key) for side in (self.heads.base, self.heads.target))
        return pin_of(base) != pin_of(target)

    def count(self, query: str) -> int:
        """Count the rows of a query."""
        [(rows,)] = self.space.rows(f"SELECT count(*) FROM ({query}) c")
        return int(rows)

    def add_own(self, name: str, key: str, columns: Mapping[str, str]) -> None:
        """Bring in columns of the rows that the target added or changed."""
        ours = self.ours(key)
        query = (
            f"SELECT after_fragment AS fragment, after_place AS place FROM {ours} "
            "WHERE change <> 'removed'"
        )
        add_placed(self.space, name, self.heads.sides(key).target, columns, query)

    def _make(self, name: str, before: ScanSource | None, after: ScanSource) -> str:
        if name not in self._made:
            compare(self.space, name, before, after)
            self._made.add(name)
        return name


def add_placed(
    space: Workspace, name: str, source: ScanSource, columns: Mapping[str, str], query: str
) -> None:
    """Bring in columns of the rows that lie where a query says (fragment, place).

    `columns` maps names in queries to stored columns.
    """
    stored = {column.name: column for column in source.columns()}
    read = _ReadPlaced(source, tuple(columns), tuple(stored[each] for each in columns.values()))
    ordered = f"SELECT fragment, place FROM ({query}) q ORDER BY fragment, place"
    space.add_mapped(name, ordered, read, read.schema)


@dataclass(frozen=True)
class _ReadPlaced:
    """Reads columns by place, under other names; a plain value that works in any process."""

    source: ScanSource
    names: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns as they come."""
        fields = zip(self.names, PlacedRows(self.source, self.columns).schema, strict=True)
        return pa.schema([(name, _SIGNED.get(each.type, each.type)) for name, each in fields])

    def __call__(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for _, rows in PlacedRows(self.source, self.columns).read(places):
            arrays = [a.cast(each.type) for a, each in zip(rows.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
