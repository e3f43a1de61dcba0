"""Small fragments of a type put together, and deleted rows left behind, without a change of rows.

Scans, plans and upserts cost by the number of fragments, and every small write adds one. A fragment
is left alone once it is about as large as this package writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from omnigraph_spark.blobs import null_blobs
from omnigraph_spark.maintenance.running import Runner
from omnigraph_spark.maintenance.settling import Held, Rework
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.storage.changes import RewriteChange
from omnigraph_spark.storage.compacting import (
    RewriteFragments,
    old_fragments,
    plan_compaction,
    rewritten_counts,
    staged_files,
)
from omnigraph_spark.storage.datasets import open_dataset
from omnigraph_spark.storage.parts import Fragment
from omnigraph_spark.storage.rewriting import discard_change
from omnigraph_spark.storage.staging import read_staged
from omnigraph_spark.writing.empty_blobs import nullable_blobs
from omnigraph_spark.writing.stage import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE

#: Why a type with blobs was left as it was.
EMPTY_BLOBS = "an empty blob would come first in its file, where it reads back as null"


@dataclass(frozen=True)
class CompactPortion:
    """The task of writing a few fragments as fewer, and of looking whether blobs are the same."""

    rewrite: RewriteFragments
    #: The blob columns in which null and empty can be mistaken for one another.
    blobs: tuple[Column, ...]

    def __call__(self) -> str:
        """Return the portion, and whether it holds what the old fragments hold."""
        portion = self.rewrite()
        same = not self.blobs or self._nulls_before(portion) == self._nulls_after(portion)
        return json.dumps({"portion": portion, "same": same})

    def _nulls_before(self, portion: str) -> list[int]:
        work = self.rewrite
        dataset = open_dataset(work.address, work.version, work.settings)
        return self._count(dataset.batches(old_fragments(portion), self._names))

    def _nulls_after(self, portion: str) -> list[int]:
        work = self.rewrite
        files = staged_files([portion])
        return self._count(read_staged(work.address, files, self._names, work.settings))

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.blobs]

    def _count(self, batches: Iterable[pa.RecordBatch]) -> list[int]:
        counts = [0] * len(self.blobs)
        for batch in batches:
            for number, column in enumerate(self.blobs):
                descriptors = cast(pa.StructArray, batch.column(column.name))
                counts[number] += null_blobs(descriptors, column).true_count
        return counts


@dataclass(frozen=True)
class Compaction:
    """New files of a type that nothing names yet; or none, and then perhaps why."""

    rework: Rework | None = None
    fragments_removed: int = 0
    fragments_added: int = 0
    skipped: str | None = None


def rows_per_fragment(fragments: Sequence[Fragment]) -> int:
    """Return how many rows a fragment ought to have: as many as fill half a file, or a million.

    Half of what a writer fills, so that full files count as large enough for good.
    """
    rows = sum(fragment.rows for fragment in fragments)
    size = sum(fragment.size_bytes for fragment in fragments)
    by_size = MAX_BYTES_PER_FILE // 2 * rows // max(1, size)
    return max(1, min(MAX_ROWS_PER_FILE, by_size))


def prepare_compaction(
    manifest: Manifest, held: Held, declared: EntityType | None, run: Runner
) -> Compaction:
    """Write the new files of a type, where it has fragments that ought to be others."""
    address, version = held.address(manifest.root), held.entry.dataset_version
    dataset = open_dataset(address, version, manifest.settings, held.entry.tag)
    fragments = dataset.fragments()
    if not fragments:
        return Compaction()
    target = rows_per_fragment(fragments)
    planned = plan_compaction(address, version, manifest.settings, target, MAX_BYTES_PER_FILE)
    # A schema may be newer than the version: a property that was added later has no column yet.
    stored = set(dataset.schema.names)
    known = nullable_blobs(declared) if declared is not None else []
    blobs = tuple(column for column in known if column.name in stored)
    tasks = [CompactPortion(each, blobs) for each in planned]
    answers = [json.loads(text) for text in run(tasks, held.entry.rows)]
    if not answers:
        return Compaction()
    portions = tuple(answer["portion"] for answer in answers)
    change = RewriteChange(portions)
    if not all(answer["same"] for answer in answers):
        discard_change(address, change, manifest.settings)
        return Compaction(skipped=EMPTY_BLOBS)
    return Compaction(Rework(held, change), *rewritten_counts(portions))
