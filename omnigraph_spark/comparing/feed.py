"""The change feed of one type: what every commit of a branch did to its rows, as tasks.

A commit is compared with its first parent, so a merge is one block. What a commit did is decided
by the ids and values of the two snapshots, whatever files it wrote: compaction is silent, an
overwrite shows what changed. Planning reads metadata; every task is read in any process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_spark.arrow_rows import public_schema
from omnigraph_spark.blobs import Blobs
from omnigraph_spark.comparing.compare import ADDED, REMOVED
from omnigraph_spark.comparing.difference import FOUND, TypeDifference
from omnigraph_spark.comparing.values import READING_ORDER, Valued
from omnigraph_spark.errors import SchemaBoundaryError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.scan import ScanRequest, ScanTask, plan_scan, read_task
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.writing.workspace import DuckWorkspace

INSERT, DELETE = "insert", "delete"
PREIMAGE, POSTIMAGE = "update_preimage", "update_postimage"
_TIME = pa.timestamp("us", tz="UTC")
#: What follows the columns of the type.
FEED_FIELDS: tuple[pa.Field[Any], ...] = (
    pa.field("_change_type", pa.string()),
    pa.field("_commit_version", pa.int64()),
    pa.field("_commit_timestamp", _TIME),
    pa.field("_commit_id", pa.string()),
    pa.field("_commit_actor", pa.string()),
)

Step = tuple[Commit | None, SnapshotState | None]
"""A commit and its snapshot; None is before the first commit, where nothing is."""


@dataclass(frozen=True)
class FeedTask:
    """A part of what one commit did; plain values."""

    columns: tuple[Column, ...]
    commit_id: str
    version: int
    at_us: int
    actor: str | None
    #: What to compare; or, where a commit only added or only removed rows, which of them to read.
    difference: TypeDifference
    scan: ScanTask | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return feed_schema(self.columns)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Stream the changes."""
        if self.scan is not None:
            kind = DELETE if self.difference.overlap.before else INSERT
            for batch in read_task(self.scan):
                yield self._with_commit(batch.columns, [kind] * batch.num_rows)
            return
        with DuckWorkspace() as space:
            self.difference.define(space)
            found = space.stream(f"SELECT * FROM {FOUND} ORDER BY {READING_ORDER}")
            for valued in self.difference.values.read(found):
                yield self._with_commit(*_images(valued, [column.name for column in self.columns]))

    def _with_commit(self, arrays: Sequence[pa.Array[Any]], kinds: Sequence[str]) -> pa.RecordBatch:
        facts: list[Any] = [self.version, self.at_us, self.commit_id, self.actor]
        more = [
            pa.repeat(pa.scalar(fact, field.type), len(kinds))
            for fact, field in zip(facts, FEED_FIELDS[1:], strict=True)
        ]
        own = [*arrays, pa.array(kinds, pa.string()), *more]
        return pa.RecordBatch.from_arrays(own, schema=self.schema)


def feed_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of a feed of these columns."""
    return pa.schema([*public_schema(columns, Blobs.DESCRIPTOR), *FEED_FIELDS])


@dataclass(frozen=True)
class Feed:
    """The changes of one type along commits: its columns, and the tasks that read them in order."""

    columns: tuple[Column, ...]
    tasks: tuple[FeedTask, ...]

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return feed_schema(self.columns)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Stream all changes, commit by commit, in this process."""
        for task in self.tasks:
            yield from task.read()


def plan_feed(type_key: str, chain: Sequence[Step]) -> Feed:
    """Plan the changes along a chain of snapshots, oldest first; the first is where it begins.

    Raises:
        SchemaBoundaryError: The columns of the type changed along the chain.
        HistoryReclaimedError: A version that would have to be read was removed.
    """
    sources = [_source(state, type_key) for _, state in chain]
    columns = _columns_along(type_key, chain, sources)
    tasks: list[FeedTask] = []
    for (old, new), (commit, _) in zip(pairwise(sources), chain[1:], strict=True):
        difference = TypeDifference(type_key, old, new)
        if commit is not None and not _is_pinned_alike(old, new) and difference:
            tasks += _tasks_of(columns, commit, difference)
    return Feed(columns, tuple(tasks))


def _columns_along(
    type_key: str, chain: Sequence[Step], sources: Sequence[ScanSource | None]
) -> tuple[Column, ...]:
    """Return the columns of the type, the same at every snapshot that has it."""
    known: tuple[Column, ...] | None = None
    last: ScanSource | None = None
    for source, (commit, _) in zip(sources, chain, strict=True):
        if source is None or _is_pinned_alike(last, source):
            continue
        columns = source.columns()
        if known is not None and commit is not None and _shape(columns) != _shape(known):
            raise SchemaBoundaryError(type_key, commit.id, commit.manifest_version)
        known, last = columns, source
    return known or ()


def _shape(columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    return [(c.name, c.type.scalar, c.type.list, c.type.dimension) for c in columns]


def _source(state: SnapshotState | None, key: str) -> ScanSource | None:
    there = state is not None and key in state.entries
    return ScanSource.of(state, key) if state is not None and there else None


def _is_pinned_alike(old: ScanSource | None, new: ScanSource | None) -> bool:
    """Tell whether nothing needs to be opened: most commits leave a type as it is."""
    if old is None or new is None:
        return old is new
    return (old.address, old.entry.dataset_version) == (new.address, new.entry.dataset_version)


def _tasks_of(
    columns: tuple[Column, ...], commit: Commit, difference: TypeDifference
) -> Iterator[FeedTask]:
    facts = (columns, commit.id, commit.manifest_version, commit.created_at_us, commit.actor)
    before, after = difference.overlap.before, difference.overlap.after
    sides = ((difference.before, before, after), (difference.after, after, before))
    for source, own, other in sides:
        if source is not None and own.whole and not own.partly and not other:
            # Nothing to compare with: files are read as they are, side by side.
            request = ScanRequest(fragment_ids=frozenset(own.whole))
            for task in plan_scan(source, request).tasks:
                yield FeedTask(*facts, difference, task)
            return
    yield FeedTask(*facts, difference)


def _images(valued: Valued, names: Sequence[str]) -> tuple[list[pa.Array[Any]], list[str]]:
    """Return rows with what happened to them; both images of an update side by side."""
    changes = np.array(valued.differences.column("change").to_pylist())
    count = len(changes)
    numbers = np.arange(count)
    old, new = numbers[changes != ADDED], numbers[changes != REMOVED]
    order = np.argsort(np.concatenate([2 * old, 2 * new + 1]), kind="stable")
    at = pa.array(np.concatenate([old, new + count])[order])
    kinds = np.concatenate(
        [
            np.where(changes[old] == REMOVED, DELETE, PREIMAGE),
            np.where(changes[new] == ADDED, INSERT, POSTIMAGE),
        ]
    )[order]
    arrays = [
        pa.concat_arrays([valued.before.field(name), valued.after.field(name)]).take(at)
        for name in names
    ]
    return arrays, kinds.tolist()
