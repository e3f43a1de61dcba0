"""Tables out of one snapshot: a Delta or Parquet table for each type, repeated by what changed.

A Delta table carries its mark in the commit that brought the rows, so both are there or neither is.
A Parquet table is a folder of its own for each state; one state file, written last, names them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from omnigraph_spark.comparing.commit_range import CommitRange, read_feed
from omnigraph_spark.errors import (
    CommitNotFoundError,
    HistoryReclaimedError,
    SchemaBoundaryError,
    UnsupportedError,
)
from omnigraph_spark.exports import Exported, Mark, Step, folder_of, marks_from
from omnigraph_spark.schema.model import Scalar
from omnigraph_spark.session.feed_frames import feed_frame
from omnigraph_spark.session.frames import read_frame
from omnigraph_spark.session.lakehouse.delta import DeltaTable
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import canonical_root, join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Names the folder of every Parquet table that counts, and the state it holds.
STATE_FILE = "_omnigraph.json"
#: Reasons why what changed since the last export cannot be told; then all rows are written.
_UNKNOWN = (CommitNotFoundError, HistoryReclaimedError, SchemaBoundaryError)


@dataclass(frozen=True)
class Export:
    """One run: a snapshot, and the session that writes it."""

    spark: SparkSession
    reader: GraphReader
    state: SnapshotState

    def marks(self) -> Iterator[Mark]:
        """Yield the mark of every type."""
        first = self.reader.commits(self.state)[-1].id
        for key in self.state.entries:
            yield Mark.of(self.state, first, key)

    def rows(self, key: str) -> DataFrame:
        """Return all rows of a type, blobs as bytes."""
        return read_frame(self.spark, self.state, {"type": key, "blobs": "bytes"})

    def changes(self, key: str, since: str) -> DataFrame | None:
        """Return what changed since a commit, net; None when that cannot be told."""
        commits = CommitRange(self.state.branch, since=since, until=self.state.commit.id)
        try:
            feed = read_feed(self.reader, commits, key, net=True)
        except _UNKNOWN:
            return None
        changes = feed_frame(self.spark, feed).where("_change_type <> 'update_preimage'")
        if not self._has_blobs(key):
            return changes
        # A feed has no bytes of blobs: the rows come from the snapshot, by the ids that changed.
        kinds = changes.select("id", "_change_type")
        return kinds.join(self.rows(key), "id", "left")

    def _has_blobs(self, key: str) -> bool:
        declared = self.state.schema.get(self.state.entries[key].type_key)
        return declared is None or any(p.type.scalar is Scalar.BLOB for p in declared.properties)


def export_delta(export: Export, place: str) -> Iterator[Exported]:
    """Bring a Delta table for each type up to the snapshot; yield what was done, table by table."""
    for mark in export.marks():
        path = join(place.rstrip("/"), folder_of(mark.type_key))
        step, rows = _bring_up(export, DeltaTable(export.spark, path), mark)
        yield Exported(mark.type_key, path, step, rows, mark.commit)


def _bring_up(export: Export, table: DeltaTable, mark: Mark) -> tuple[Step, int]:
    exists = table.table_id() is not None
    held, intact = table.mark() if exists else (None, True)
    if held is None and exists:
        raise _foreign(table.path, "it carries no mark of an export")
    if held is not None and (held.graph, held.type_key) != (mark.graph, mark.type_key):
        raise _foreign(table.path, f"it holds {held.type_key} of another graph")
    if held is not None and intact:
        if held.same_rows(mark):
            return Step.NOTHING, 0
        changes = export.changes(mark.type_key, held.commit)
        if changes is not None:
            # Kept: Spark has to know how many rows these are before it chooses a join.
            kept = changes.persist()
            try:
                count = kept.count()
                if count:
                    columns = export.rows(mark.type_key).columns
                    table.apply(kept, columns, mark)
                return (Step.CHANGES if count else Step.NOTHING), count
            finally:
                kept.unpersist()
    table.replace(export.rows(mark.type_key), mark)
    return Step.FULL, export.state.entries[mark.type_key].rows


def _foreign(path: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"exporting over {path!r}, which this graph did not write ({why}),",
        "name another folder, or remove it",
    )


def export_parquet(export: Export, place: str, settings: StorageSettings) -> Iterator[Exported]:
    """Write the types that changed to new folders, then let the state file name them."""
    root = canonical_root(place)
    # Spark calls S3 by another name.
    spark_root = root.replace("s3://", "s3a://", 1)
    store = objects_at(root, settings)
    text = store.read(join(root, STATE_FILE))
    before = marks_from(json.loads(text)["tables"] if text else {})
    after: dict[str, dict[str, object]] = {}
    for mark in export.marks():
        key, rows, step = mark.type_key, 0, Step.NOTHING
        held, folder = before.get(key, (None, ""))
        if held is not None and held.graph != mark.graph:
            raise _foreign(root, "it holds another graph")
        if held is None or not held.same_rows(mark):
            folder = f"{folder_of(key)}/{mark.commit}-{uuid4().hex[:8]}"
            export.rows(key).write.parquet(join(spark_root, folder))
            rows, step = export.state.entries[key].rows, Step.FULL
        after[key] = {"folder": folder, "mark": asdict(mark)}
        yield Exported(key, join(place.rstrip("/"), folder), step, rows, mark.commit)
    state = {"commit": export.state.commit.id, "branch": export.state.branch, "tables": after}
    # The switch: until now readers of this file see the state before, from now on this one.
    store.write(join(root, STATE_FILE), json.dumps(state, indent=2).encode())
    _remove_older(root, settings, {str(about["folder"]) for about in after.values()}, before)


def _remove_older(
    root: str, settings: StorageSettings, now: set[str], before: dict[str, tuple[Mark, str]]
) -> None:
    """Remove what neither this state nor the one before names: its readers may still be at work."""
    keep = now | {folder for _, folder in before.values()}
    store = objects_at(root, settings)
    for kind in ("nodes", "edges"):
        for name in store.folders(join(root, kind)):
            for made in store.folders(join(root, kind, name)):
                if f"{kind}/{name}/{made}" not in keep:
                    store.delete_below(join(root, kind, name, made))
