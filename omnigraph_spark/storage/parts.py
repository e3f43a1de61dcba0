"""Parts of a dataset as its manifest describes them, and the order a scan of it may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Fragment:
    """One Lance fragment, as its dataset's manifest describes it."""

    id: int
    rows: int
    deleted_rows: int
    size_bytes: int
    files: int


@dataclass(frozen=True)
class FragmentContent:
    """What a fragment holds, by the names of its files: they are random and never used again.

    So two versions, whatever branch they are of, hold the same rows where these are equal.
    """

    id: int
    #: Data files with the ids of the fields that each provides.
    files: tuple[tuple[str, tuple[int, ...]], ...]
    #: The file that says which rows are deleted.
    deletions: str | None
    rows: int


@dataclass(frozen=True)
class Index:
    """One index segment, as its dataset's manifest describes it."""

    name: str
    columns: tuple[str, ...]
    kind: str
    fragment_ids: frozenset[int]
    folder: str
    uuid: str


def looked_up_fragments(indexes: Sequence[Index], columns: Iterable[str]) -> frozenset[int]:
    """Return the fragments in which an index of one of the columns finds rows by their value."""
    of_columns = [
        frozenset(id_ for i in indexes if _is_ordered(i, name) for id_ in i.fragment_ids)
        for name in columns
    ]
    return max(of_columns, key=len, default=frozenset())


def _is_ordered(index: Index, column: str) -> bool:
    return index.columns == (column,) and index.kind.upper() == "BTREE"


class Ordering(NamedTuple):
    """One sort key of a scan."""

    column: str
    ascending: bool = True
    nulls_first: bool = True


@dataclass
class ScanCost:
    """What one task has asked of storage; complete when its scans have ended."""

    requests: int = 0
    bytes: int = 0
    fragments: int = 0

    def counter(self, fragments: int) -> Callable[[Any], None]:
        """Return what adds the figures of a scan, as Lance gives them, of so many fragments.

        Lance counts a fragment again when it comes back for the columns its filter did not need.
        """

        def add(statistics: Any) -> None:
            self.requests += statistics.requests
            self.bytes += statistics.bytes_read
            scanned = statistics.all_counts.get("fragments_scanned", 0)
            self.fragments = min(fragments, self.fragments + scanned)

        return add
