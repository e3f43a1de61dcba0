"""Indexes built in pieces that run anywhere: one segment per portion of fragments, then one of all.

Always one: the engine's Lance and this one answer wrongly from several segments once a row that an
older segment knows was rewritten. Segments lie in folders of their own and nothing names them until
an `IndexChange` is committed. They cross processes as text.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph_spark.failpoints import SEGMENT_BUILT, SEGMENTS_JOINED
from omnigraph_spark.filters import is_present
from omnigraph_spark.storage.datasets import (
    DatasetAddress,
    PinnedDataset,
    open_handle,
    version_file,
)
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.stored_indexes import mark_details, read_segments
from omnigraph_spark.storage.translate import lance_errors
from omnigraph_spark.storage.uri import join

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.dataset import Index
    from lance.indices import IndexConfig

_BTREE, _TEXT, _VECTOR = "BTREE", "INVERTED", "IVF_FLAT"
# Lance reads and decodes a whole page of an index to find one value. With its own 4,096 to a page a
# thousand ids among ten million take four times as long as with these, a hundred ends three times.
_PAGE_ROWS, _LARGEST_PAGE_ROWS = 512, 4_096
# Whoever opens an index holds the bounds of every page: some 6 MB for so many.
_MOST_PAGES = 40_000
# An index that is carried on keeps the size of its pages, and so may grow to so many times more.
_CROWDED = 4


@dataclass(frozen=True)
class IndexTarget:
    """One index of one dataset version, as plain values."""

    address: DatasetAddress
    version: int
    settings: StorageSettings
    column: str
    name: str
    #: `BTREE`, `INVERTED` or `IVF_FLAT`.
    method: str
    #: Of vectors only.
    dimension: int | None = None

    def open(self) -> LanceDataset:
        """Open the dataset at the version."""
        return open_handle(self.address, self.version, self.settings)


@dataclass(frozen=True)
class BuildSegment:
    """The task of indexing some fragments; its answer is the segment."""

    target: IndexTarget
    fragment_ids: tuple[int, ...]

    def __call__(self) -> str:
        """Build the segment."""
        target = self.target
        with lance_errors(target.address.uri):
            dataset = target.open()
            segment = dataset.create_index_uncommitted(
                target.column,
                _method(target, dataset),
                name=target.name,
                # Nothing is replaced here: Lance refuses a name that is taken otherwise.
                replace=True,
                fragment_ids=list(self.fragment_ids),
                **_parameters(target),
            )
        SEGMENT_BUILT.reached()
        return pack(segment)


@dataclass(frozen=True)
class JoinSegments:
    """The task of making one segment of several, which are gone then; its answer is that one."""

    target: IndexTarget
    segments: tuple[str, ...]
    #: The id of a segment of this version that is carried on, and stays for its readers.
    carried_on: str | None = None

    def __call__(self) -> str:
        """Make the one segment, and mark it as built right."""
        target = self.target
        parts: list[Any] = [unpack(text) for text in self.segments]
        with lance_errors(target.address.uri):
            dataset = target.open()
            old = [] if self.carried_on is None else [_stored(target, dataset, self.carried_on)]
            joined = parts[0]
            # The segments of texts are unfinished until they were joined, be there only one.
            if len(old) + len(parts) > 1 or target.method == _TEXT:
                joined = dataset.merge_existing_index_segments([*old, *parts])
        discard_segments(
            target.address, [p.uuid for p in parts if p is not joined], target.settings
        )
        SEGMENTS_JOINED.reached()
        kind, details = joined.index_details
        return pack(replace(joined, index_details=(kind, mark_details(details, joined.uuid))))


@dataclass(frozen=True)
class FindValue:
    """The task of finding out whether a column holds any value: the answer is a text if it does."""

    target: IndexTarget

    def __call__(self) -> str:
        """Look for one row."""
        column = self.target.column
        with lance_errors(self.target.address.uri):
            dataset = self.target.open()
            scanner = dataset.scanner(
                columns=[], filter=is_present(column), limit=1, with_row_id=True
            )
            return "found" if scanner.to_table().num_rows else ""


def discard_segments(
    address: DatasetAddress, uuids: Sequence[str], settings: StorageSettings
) -> None:
    """Delete segments that no version names; what is missing is fine."""
    store = objects_at(address.root, settings)
    for uuid in uuids:
        store.delete_below(join(address.uri, "_indices", uuid))


def pack(segment: Index) -> str:
    """Write a segment as text: it has parts that are not ours to name."""
    return base64.b64encode(pickle.dumps(segment)).decode()


def unpack(text: str) -> Index:
    """Read what `pack` wrote."""
    segment: Index = pickle.loads(base64.b64decode(text))
    return segment


def segments_of(dataset: LanceDataset) -> dict[str, Index]:
    """Return all segments of a version by id, as far as Lance describes them."""
    from lance.dataset import Index

    return {
        segment.uuid: Index(
            uuid=segment.uuid,
            name=index.name,
            fields=list(index.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
            base_id=segment.base_id,
        )
        for index in dataset.describe_indices()
        for segment in index.segments
    }


def _stored(target: IndexTarget, dataset: LanceDataset, uuid: str) -> Index:
    """Return a segment of a version, complete enough to be carried on."""
    store = objects_at(target.address.root, target.settings)
    file = version_file(target.address, target.version)
    [known] = [s for s in read_segments(dataset, file, store) if s.uuid == uuid]
    described = segments_of(dataset)[uuid]
    return replace(described, index_details=(known.details_type, known.details))


def page_rows(rows: int) -> int:
    """Return how many values of so many rows are found, and read, together.

    >>> page_rows(1_000), page_rows(40_000_000), page_rows(1_000_000_000)
    (512, 1000, 4096)
    """
    return min(max(_PAGE_ROWS, -(-rows // _MOST_PAGES)), _LARGEST_PAGE_ROWS)


def crowded_indexes(dataset: PinnedDataset) -> frozenset[str]:
    """Return the names of sorted indexes that have grown to too many pages to be carried on."""
    most = _CROWDED * _MOST_PAGES
    if sum(fragment.rows for fragment in dataset.fragments()) <= most * _PAGE_ROWS:
        # There can be none: what tells the number of pages reads all their bounds.
        return frozenset()
    names = {index.name for index in dataset.indexes() if index.kind.upper() == _BTREE}
    return frozenset(name for name in names if dataset.index_pages(name) > most)


def _method(target: IndexTarget, dataset: LanceDataset) -> str | IndexConfig:
    """Return how Lance is to build it: pages are for all rows, so that segments can be joined."""
    from lance.indices import IndexConfig

    if target.method != _BTREE:
        return target.method
    return IndexConfig("btree", {"zone_size": page_rows(dataset.count_rows())})


def _parameters(target: IndexTarget) -> dict[str, Any]:
    if target.method != _VECTOR:
        return {}
    # With one partition its centre means nothing, but segments are only joined if they share it.
    zeros = pa.array([0.0] * (target.dimension or 0), pa.float32())
    centre = pa.FixedSizeListArray.from_arrays(zeros, target.dimension)
    return {"num_partitions": 1, "metric": "L2", "ivf_centroids": centre}
