"""A large merge, taken apart: rows marked deleted by fragment, rows written anew by staged file.

The workspace joins the ids, out of core or on Spark, and runs the pieces, in this process or as
tasks; a piece holds one staged file in memory. Replaced rows are marked deleted where they lie and
come again, with their row ids, in new files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.manifest import Manifest
from omnigraph_spark.pending import Pending
from omnigraph_spark.scan import ROW_ID, ScanSource
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.stage import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from omnigraph_spark.staged_rows import FILE_NUMBER, StagedSource
from omnigraph_spark.storage.changes import DeleteChange, UpdateChange
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.merging import delete_offsets, discard_change, stage_rewritten
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, discard, read_staged
from omnigraph_spark.workspace import Interest, Workspace


def merge_by_file(
    manifest: Manifest, pending: Pending, space: Workspace
) -> tuple[UpdateChange, int, int]:
    """Prepare an upsert by id; return it with the numbers of inserted and updated rows."""
    source = pending.source(manifest.root, manifest.settings)
    files: list[StagedFile] = []
    with _targets(manifest, pending, space), ExitStack() as undo:
        updated, removed, replaced = delete_places(manifest, pending, space, "merge_targets")
        marked = DeleteChange(updated, removed, "", replaced)
        undo.callback(discard_change, source.address, marked, source.settings)
        undo.callback(discard, source.address, files, source.settings)
        # Every staged row, so that files without a replaced row are there as well.
        rows = (
            f"SELECT i.{FILE_NUMBER} AS {FILE_NUMBER}, i.id AS id, t.row_id AS row_id "
            "FROM merge_ids i LEFT JOIN merge_targets t ON t.id = i.id"
        )
        for answer in space.each_group(rows, FILE_NUMBER, _RewriteFile(source)):
            files += [StagedFile(**file) for file in json.loads(answer)]
        undo.pop_all()
    change = UpdateChange(removed, updated, tuple(files))
    return change, pending.rows - replaced, replaced


@contextmanager
def _targets(manifest: Manifest, pending: Pending, space: Workspace) -> Iterator[None]:
    """Have staged ids and the rows they replace, with their places, at hand for a while."""
    settings = manifest.settings
    ids = pending.source(manifest.root, settings)
    space.add_staged("merge_ids", ids, {"id": "id"}, numbered=True)
    # The dataset as it is planned on; a fork has the same rows at the same places.
    source = ScanSource(manifest.root, settings, pending.branch, pending.entry, pending.declared)
    interest = Interest(("id",), "merge_ids", ("id",))
    space.add_committed("merge_targets", source, {"id": "id"}, [interest], places=True)
    try:
        yield
    finally:
        # Another type of the transaction needs the names.
        space.drop("merge_ids")
        space.drop("merge_targets")


@dataclass(frozen=True)
class _RewriteFile:
    """Writes the rows of one staged file again: replaced ones first, with their row ids."""

    source: StagedSource

    def __call__(self, known: pa.Table) -> str:
        """Take file number, id and row id (null: a new row) of all its rows; return new files."""
        address, settings = self.source.address, self.source.settings
        file = self.source.files[int(pc.min(known.column(FILE_NUMBER)).as_py())]
        schema = arrow_schema(self.source.declared)
        staged = read_staged(address, [file], schema.names, settings, blobs=True)
        rows = pa.Table.from_batches(staged, schema)
        known = known.filter(known.column("row_id").is_valid())
        at = pc.index_in(rows.column("id"), known.column("id").cast(pa.string()).combine_chunks())
        matched = rows.filter(at.is_valid())
        row_ids = known.column("row_id").take(at.drop_null())
        matched = matched.append_column(ROW_ID, row_ids).sort_by(ROW_ID)
        inserts = rows.filter(at.is_null())
        files = stage_rewritten(
            address,
            schema,
            matched.to_batches(),
            inserts.to_batches(),
            settings,
            MAX_ROWS_PER_FILE,
            MAX_BYTES_PER_FILE,
        )
        return json.dumps([asdict(new) for new in files])


def delete_places(
    manifest: Manifest, pending: Pending, space: Workspace, relation: str
) -> tuple[tuple[str, ...], tuple[int, ...], int]:
    """Mark the rows of a relation deleted, a fragment at a time.

    Returns the fragments that changed, those left empty, and the number of rows.
    """
    address, settings = pending.address(manifest.root), manifest.settings
    work = _DeletePlaces(address, pending.entry.dataset_version, settings)
    left: dict[int, str | None] = {}
    deleted = 0
    try:
        places = f"SELECT fragment, place FROM {relation}"
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
