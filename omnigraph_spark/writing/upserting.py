"""A large merge, taken apart: rows marked deleted by fragment, rows written anew by staged file.

The workspace joins the ids, out of core or on Spark, and runs the pieces, in this process or as
tasks; a piece holds one staged file in memory, and a portion of its blobs. Replaced rows are marked
deleted where they lie and come again, with their row ids, in new files; of a merge of some columns
with the others as they are stored, which the piece looks up by row id, a portion at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.manifest import Manifest
from omnigraph_spark.scan import ROW_ID
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.storage.changes import DeleteChange, MergeChange, UpdateChange
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.rewriting import delete_offsets, discard_change, stage_rewritten
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, discard, read_staged
from omnigraph_spark.storage.uncommitted import is_blob_field
from omnigraph_spark.writing.pending import Pending
from omnigraph_spark.writing.places import add_places
from omnigraph_spark.writing.stage import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from omnigraph_spark.writing.staged_rows import FILE_NUMBER, StagedSource
from omnigraph_spark.writing.stored_rows import PLACE, completed, with_nulls, with_staged_blobs
from omnigraph_spark.writing.workspace import PLACE_NAMES, Interest, Workspace


@dataclass(frozen=True)
class Upsert:
    """An upsert that is ready to land, and how many rows it is about."""

    change: MergeChange | UpdateChange
    inserted: int
    updated: int
    deleted: int = 0


def merge_by_file(manifest: Manifest, pending: Pending, space: Workspace) -> Upsert:
    """Prepare an upsert by id, and with it the deletion of the rows that go."""
    source = pending.source(manifest.root, manifest.settings)
    names = tuple(arrow_schema(pending.declared).names)
    if pending.merge_columns is not None:
        names = tuple(name for name in names if name in ("id", *pending.merge_columns))
    files: list[StagedFile] = []
    with _targets(manifest, pending, space), ExitStack() as undo:
        [(replaced,)] = space.rows("SELECT count(*) FROM merge_targets")
        relations = ["merge_targets", *([pending.doomed] if pending.doomed else ())]
        updated, removed, gone = delete_places(manifest, pending, space, relations)
        marked = DeleteChange(updated, removed, "", gone)
        undo.callback(discard_change, source.address, marked, source.settings)
        undo.callback(discard, source.address, files, source.settings)
        # Every staged row, so that files without a replaced row are there as well.
        rows = (
            f"SELECT i.{FILE_NUMBER} AS {FILE_NUMBER}, i.id AS id, t.row_id AS row_id "
            "FROM merge_ids i LEFT JOIN merge_targets t ON t.id = i.id"
        )
        stored = _stored(manifest, pending)
        for answer in space.each_group(rows, FILE_NUMBER, _RewriteFile(source, names, stored)):
            files += [StagedFile(**file) for file in json.loads(answer)]
        undo.pop_all()
    change = UpdateChange(removed, updated, tuple(files))
    return Upsert(change, pending.rows - replaced, replaced, gone - replaced)


@contextmanager
def _targets(manifest: Manifest, pending: Pending, space: Workspace) -> Iterator[None]:
    """Have staged ids and the rows they replace, with their places, at hand for a while."""
    settings = manifest.settings
    ids = pending.source(manifest.root, settings)
    space.add_staged("merge_ids", ids, {"id": "id"}, numbered=True)
    if pending.targets is not None:
        space.define("merge_targets", f"SELECT * FROM {pending.targets}")
    elif pending.is_located:
        _locate(manifest, pending, space)
    else:
        source = _stored(manifest, pending)
        interest = Interest(("id",), "merge_ids", ("id",))
        space.add_committed("merge_targets", source, {"id": "id"}, [interest], places=True)
    try:
        yield
    finally:
        # Another type of the transaction needs the names.
        space.drop("merge_ids")
        space.drop("merge_targets")


def _locate(manifest: Manifest, pending: Pending, space: Workspace) -> None:
    """Make the targets of what is known: rows that are replaced, or deleted and given again."""
    address = pending.address(manifest.root)
    add_places(space, "merge_places", address, pending.places, manifest.settings)
    columns = ", ".join(("id", *PLACE_NAMES))
    query = f"SELECT {columns} FROM merge_places"
    if pending.asked:
        again = f"SELECT {columns} FROM {pending.asked} WHERE id IN (SELECT id FROM merge_ids)"
        query = f"{query} UNION ALL {again}"
    space.define("merge_targets", query)
    space.drop("merge_places")


def _stored(manifest: Manifest, pending: Pending) -> ScanSource:
    """Return the dataset as it is planned on; a fork has the same rows at the same places."""
    root, settings = manifest.root, manifest.settings
    return ScanSource(root, settings, pending.branch, pending.entry, pending.declared)


@dataclass(frozen=True)
class _RewriteFile:
    """Writes the rows of one staged file again: replaced ones first, with their row ids."""

    source: StagedSource
    #: The columns that are staged; the others are as they are stored, and null in new rows.
    names: tuple[str, ...]
    stored: ScanSource

    def __call__(self, known: pa.Table) -> str:
        """Take file number, id and row id (null: a new row) of all its rows; return new files."""
        address, settings = self.source.address, self.source.settings
        file = self.source.files[int(pc.min(known.column(FILE_NUMBER)).as_py())]
        schema = arrow_schema(self.source.declared)
        # Blobs come last, a portion at a time: they may be of any size.
        plain = [name for name in self.names if not is_blob_field(schema.field(name))]
        staged = read_staged(address, [file], plain, settings)
        rows = pa.Table.from_batches(staged, pa.schema([schema.field(n) for n in plain]))
        rows = rows.append_column(PLACE, pa.array(range(rows.num_rows), pa.uint64()))
        known = known.filter(known.column("row_id").is_valid())
        at = pc.index_in(rows.column("id"), known.column("id").cast(pa.string()).combine_chunks())
        matched = rows.filter(at.is_valid())
        row_ids = known.column("row_id").take(at.drop_null())
        matched = matched.append_column(ROW_ID, row_ids).sort_by(ROW_ID)
        files = stage_rewritten(
            address,
            schema,
            self._matched(schema, self._whole(file, schema, matched)),
            self._inserts(schema, self._whole(file, schema, rows.filter(at.is_null()))),
            settings,
            MAX_ROWS_PER_FILE,
            MAX_BYTES_PER_FILE,
        )
        return json.dumps([asdict(new) for new in files])

    def _whole(self, file: StagedFile, schema: pa.Schema, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield rows of a file with all that is staged of them, blobs included."""
        more = [rows.schema.field(ROW_ID)] if ROW_ID in rows.column_names else []
        staged = pa.schema([*(schema.field(name) for name in self.names), *more])
        if set(staged.names) <= set(rows.column_names):
            yield rows.select(staged.names)
            return
        for batch in with_staged_blobs(self.source, file, staged, rows):
            yield pa.Table.from_batches([batch])

    def _matched(self, schema: pa.Schema, portions: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        partial = len(self.names) < len(schema.names)
        for rows in portions:
            yield from completed(self.stored, schema, rows) if partial else rows.to_batches()

    def _inserts(self, schema: pa.Schema, portions: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        for rows in portions:
            yield from with_nulls(schema, rows).to_batches()


def delete_places(
    manifest: Manifest, pending: Pending, space: Workspace, relations: Sequence[str]
) -> tuple[tuple[str, ...], tuple[int, ...], int]:
    """Mark the rows of relations, which share none, deleted, a fragment at a time.

    Returns the fragments that changed, those left empty, and the number of rows.
    """
    address, settings = pending.address(manifest.root), manifest.settings
    work = _DeletePlaces(address, pending.entry.dataset_version, settings)
    left: dict[int, str | None] = {}
    deleted = 0
    try:
        places = " UNION ALL ".join(f"SELECT fragment, place FROM {name}" for name in relations)
        for answer in space.each_group(places, "fragment", work):
            fragment, rows, text = json.loads(answer)
            left[fragment] = text
            deleted += rows
    except BaseException:
        texts = tuple(text for text in left.values() if text is not None)
        discard_change(address, DeleteChange(texts, (), "", 0), settings)
        raise
    # Tasks end in any order; the same deletion gives the same version.
    ordered = sorted(left.items())
    updated = tuple(text for _, text in ordered if text is not None)
    return updated, tuple(number for number, text in ordered if text is None), deleted


@dataclass(frozen=True)
class _DeletePlaces:
    """Marks rows of one fragment deleted."""

    address: DatasetAddress
    version: int
    settings: StorageSettings

    def __call__(self, places: pa.Table) -> str:
        """Take fragment and place of its rows; return fragment, count and what is left of it."""
        fragment = int(pc.min(places.column("fragment")).as_py())
        offsets = list(map(int, places.column("place").to_numpy()))
        left = delete_offsets(self.address, self.version, fragment, offsets, self.settings)
        return json.dumps([fragment, len(offsets), left])
