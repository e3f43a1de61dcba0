"""Which fragments may hold an id, as far as this process has read them: look-ups skip the others.

A data file never changes, so what was read of one holds at every version and on every branch that
names it. Hashes stand for ids: a hit only says where to look, and a miss is sure. Only fragments
without deleted rows are taken up, because another version may still have those rows; rows that are
deleted later are hits too many. Small fragments are what many small commits leave behind, and each
would otherwise be read again with every further commit.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from omnigraph_spark.storage.appended import fragments_after, manifest_message
from omnigraph_spark.storage.datasets import PinnedDataset
from omnigraph_spark.storage.fresh_rows import kept_rows

#: Fragments of more rows are few, and indexes are for them.
SMALL_ROWS = 65_536
#: What one dataset, and all of them, may take up: 12 bytes an id, 48 MiB in all.
_IDS_KEPT = 4 << 20
#: Descriptions of fragments that may be kept, of one dataset: some 16,000 fragments.
_BYTES_KEPT = 4 << 20
#: So many new fragments are asked for one by one.
_FEW_NEW = 16
_ADDRESS = "_rowaddr"

_Hashes = npt.NDArray[np.int64]
_Numbers = npt.NDArray[np.uint32]
_Run = tuple[_Hashes, _Numbers]


@dataclass(frozen=True)
class _Settled:
    """What was found out about the fragments that a manifest begins with: it holds while it does.

    A commit that adds fragments leaves the bytes that describe the others as they are.
    """

    begins: bytes = b""
    indexed: frozenset[int] = frozenset()
    small: frozenset[int] = frozenset()
    large: frozenset[int] = frozenset()
    #: Fragments by the numbers of their files.
    owners: dict[int, int] = field(default_factory=dict)


class _KnownIds:
    """The ids of some files of one dataset, as sorted runs of hashes with the file of each."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._files: dict[str, int] = {}
        # Every run is at least twice as long as the next, so there are few.
        self._runs: list[_Run] = []
        self.settled = _Settled()

    @property
    def size(self) -> int:
        """How many ids are known."""
        return sum(len(hashes) for hashes, _ in self._runs)

    def number(self, file: str) -> int | None:
        """Return the number of a file that is known."""
        return self._files.get(file)

    def add(self, dataset: PinnedDataset, files: Mapping[int, str]) -> dict[int, int]:
        """Read the ids of fragments, given with the names of their files; return their numbers."""
        if not files:
            return {}
        numbers = {each: len(self._files) + at for at, each in enumerate(files)}
        hashes: list[_Hashes] = [np.empty(0, np.int64)]
        owners: list[_Numbers] = [np.empty(0, np.uint32)]
        unread = []
        for each, file in files.items():
            # What this process wrote itself it may still have.
            if (fresh := kept_rows(dataset.uri, [file], ["id"])) is None:
                unread.append(each)
                continue
            hashes.append(_hashes(fresh.column(0).to_pylist()))
            owners.append(np.full(fresh.num_rows, numbers[each], np.uint32))
        for batch in dataset.batches(unread, ["id", _ADDRESS]) if unread else ():
            hashes.append(_hashes(batch.column(0).to_pylist()))
            fragments = batch.column(1).to_numpy() >> 32
            known, at = np.unique(fragments, return_inverse=True)
            owners.append(np.array([numbers[int(each)] for each in known], np.uint32)[at])
        run = _sorted(np.concatenate(hashes), np.concatenate(owners))
        while self._runs and len(self._runs[-1][0]) < 2 * len(run[0]):
            more = self._runs.pop()
            run = _sorted(np.concatenate((more[0], run[0])), np.concatenate((more[1], run[1])))
        self._runs.append(run)
        # Last: a file whose ids could not be read is not known.
        self._files |= {file: numbers[each] for each, file in files.items()}
        return numbers

    def find(self, ids: Iterable[str]) -> set[int]:
        """Return the numbers of the files that may have one of the ids."""
        asked = _hashes(ids)
        found: set[int] = set()
        for hashes, numbers in self._runs:
            first, last = np.searchsorted(hashes, asked), np.searchsorted(hashes, asked, "right")
            for start, end in zip(first[first < last], last[first < last], strict=True):
                found.update(map(int, numbers[start:end]))
        return found


_known: OrderedDict[str, _KnownIds] = OrderedDict()
_lock = Lock()


class Candidates(NamedTuple):
    """Fragments that may hold one of some ids."""

    #: Few rows each, which are worth no filter: Lance plans it anew for every fragment.
    small: frozenset[int]
    #: Large ones, and those of which an index knows.
    large: frozenset[int]


def fragments_with(
    dataset: PinnedDataset, ids: Sequence[str], indexed: frozenset[int]
) -> Candidates:
    """Return the fragments that may hold one of the ids; an index knows of some itself."""
    known = _of(dataset)
    unknown: dict[int, str] = {}
    with known.lock:
        message = manifest_message(dataset.handle)
        before = known.settled
        if before.indexed != indexed or not message.startswith(before.begins):
            before = _Settled(indexed=indexed)
        new, end = fragments_after(message, len(before.begins))
        few = new if before.begins and len(new) <= _FEW_NEW else None
        room = _IDS_KEPT - known.size
        numbers: dict[int, int] = {}
        small: set[int] = set()
        large: set[int] = set()
        for fragment, file in dataset.file_names(few):
            if fragment in indexed:
                large.add(fragment)
                continue
            if (number := known.number(file)) is not None:
                numbers[fragment] = number
                continue
            rows, are_all_there = dataset.written_rows(fragment)
            if rows > SMALL_ROWS:
                large.add(fragment)
            elif are_all_there and rows <= room:
                unknown[fragment] = file
                room -= rows
            else:
                small.add(fragment)
        numbers |= known.add(dataset, unknown)
        if few is None:
            before = _Settled(indexed=indexed)
        owners = before.owners
        owners.update((number, fragment) for fragment, number in numbers.items())
        settled = _Settled(
            message[:end], indexed, before.small | small, before.large | large, owners
        )
        # Not where there are so many that the bytes would take up more than the ids.
        known.settled = settled if end <= _BYTES_KEPT else _Settled()
        hits = known.find(ids)
    found = (owners[number] for number in hits if number in owners)
    return Candidates(settled.small.union(found), settled.large)


def _of(dataset: PinnedDataset) -> _KnownIds:
    """Return what is known of a dataset; others that were not asked about for long may go."""
    with _lock:
        known = _known.setdefault(dataset.base, _KnownIds())
        _known.move_to_end(dataset.base)
        while len(_known) > 1 and sum(each.size for each in _known.values()) > _IDS_KEPT:
            _known.popitem(last=False)
    return known


def _forget() -> None:
    global _lock
    _lock = Lock()
    _known.clear()


# Another thread may hold a lock while the process forks.
os.register_at_fork(after_in_child=_forget)


def _hashes(ids: Iterable[object]) -> _Hashes:
    # Python's own: 64 bits, with another seed in every process.
    return np.fromiter(map(hash, ids), np.int64)


def _sorted(hashes: _Hashes, numbers: _Numbers) -> _Run:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], numbers[order]
