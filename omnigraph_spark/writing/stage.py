"""Rows into staged files: one partition of input, checked and written where nobody sees it yet.

A `StageTask` runs anywhere, in any process, and answers with a small `StageResult`. Rows that break
a rule are never left behind: an attempt that finds one deletes its files and says what it found.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain

import pyarrow as pa

from omnigraph_spark.errors import ConflictError, InvalidOptionError
from omnigraph_spark.formats.v4.sidecar import list_sidecars
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.locks import writer_lock
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, discard, read_staged, stage_batches
from omnigraph_spark.storage.versions import files_since
from omnigraph_spark.writing.empty_blobs import (
    bytes_first,
    find_mistakable,
    has_empty,
    nullable_blobs,
)
from omnigraph_spark.writing.intake import Intake
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.violations import Violation, merge, violation_of

#: Fragments of about a million rows or 256 MiB: large enough to scan well, small enough to rewrite.
MAX_ROWS_PER_FILE = 1_048_576
MAX_BYTES_PER_FILE = 256 << 20
_OUTSIDE = "the row is not among those that are replaced"


@dataclass(frozen=True)
class StageLimits:
    """How large one staged file may become."""

    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE

    @classmethod
    def of(cls, rows: int | None, size_bytes: int | None) -> StageLimits:
        """Take given limits, and the usual ones where none is given."""
        for name, given in (("max_rows_per_file", rows), ("max_bytes_per_file", size_bytes)):
            if given is not None and given < 1:
                raise InvalidOptionError(name, str(given), "a whole number above zero")
        return cls(rows or MAX_ROWS_PER_FILE, size_bytes or MAX_BYTES_PER_FILE)


@dataclass(frozen=True)
class StageResult:
    """What one partition staged, or the rules its rows break; never both."""

    files: tuple[StagedFile, ...] = ()
    violations: tuple[Violation, ...] = ()
    #: Where the rows lie that are replaced or deleted, if that is known (see `places`).
    places: tuple[StagedFile, ...] = ()

    @property
    def all_files(self) -> tuple[StagedFile, ...]:
        """Everything that was staged."""
        return (*self.files, *self.places)

    def to_json(self) -> str:
        """Write the result as the small text that crosses processes."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> StageResult:
        """Read what `to_json` wrote."""
        parts = json.loads(text)
        violations = (
            Violation(**{**found, "ids": tuple(found["ids"])}) for found in parts["violations"]
        )
        return cls(
            tuple(StagedFile(**file) for file in parts["files"]),
            tuple(violations),
            tuple(StagedFile(**file) for file in parts["places"]),
        )


@dataclass(frozen=True)
class StageTask:
    """All it takes to stage rows of one type, as plain values."""

    address: DatasetAddress
    settings: StorageSettings
    declared: EntityType
    mode: WriteMode
    limits: StageLimits = StageLimits()
    #: The columns a merge changes; None means all. What a mixed one adds is null in the others.
    merge_columns: tuple[str, ...] | None = None
    #: Whether a merge may only change rows that are there, which is looked at once all is staged.
    existing_only: bool = False
    #: Whether text given for a blob is the address of a file of the user's.
    external_blobs: bool = False
    #: The dataset that the rows are for, where it exists already.
    base: ScanSource | None = None

    def check(self, given: pa.Schema) -> None:
        """Refuse columns that do not fit, before there are any rows."""
        self._intake(given)

    def run(self, batches: Iterable[pa.RecordBatch]) -> StageResult:
        """Stage the rows of one partition."""
        incoming = iter(batches)
        first = next(incoming, None)
        if first is None:
            if isinstance(batches, pa.RecordBatchReader):
                self.check(batches.schema)
            return StageResult()
        intake = self._intake(first.schema)
        # Of a merge these are not the rows that stay: its files are written anew.
        stays = self.mode in (WriteMode.APPEND, WriteMode.OVERWRITE) and self.merge_columns is None
        blobs = nullable_blobs(self.declared) if stays else []
        empty = False

        def converted() -> Iterator[pa.RecordBatch]:
            nonlocal empty
            for number, batch in enumerate(chain([first], incoming)):
                rows = self._chosen(intake.convert(batch))
                empty = empty or has_empty(rows, blobs)
                yield rows if number else bytes_first(rows, blobs)

        files = stage_batches(
            self.address,
            converted(),
            self._schema(intake.schema),
            self.settings,
            self.limits.max_rows_per_file,
            self.limits.max_bytes_per_file,
            # These are not rows of the dataset as it is: they replace all, or are only read back.
            as_given=self.mode in (WriteMode.OVERWRITE, WriteMode.DELETE)
            or self.merge_columns is not None,
            base=None if self.base is None else self.base.open(),
        )
        violations = intake.violations()
        with ExitStack() as undo:
            undo.callback(discard, self.address, files, self.settings)
            if empty and not violations:
                violations = find_mistakable(self.address, files, self.declared, self.settings)
            if violations:
                return StageResult(violations=violations)
            undo.pop_all()
        return StageResult(files=tuple(files))

    def within(self, result: StageResult, condition: str) -> StageResult:
        """Refuse staged rows that a condition does not hold for, as `run` does with its rules."""
        outside = f"(not ({condition})) or ({condition}) is null"
        found = read_staged(self.address, result.files, ["id"], self.settings, where=outside)
        broken = merge(
            violation_of("replace", str(self.declared.type_key), "id", _OUTSIDE, batch.column(0))
            for batch in found
        )
        if not broken:
            return result
        discard(self.address, result.files, self.settings)
        return StageResult(violations=broken)

    def _schema(self, taken: pa.Schema) -> pa.Schema:
        """Return the columns that are staged of those that were taken in."""
        if self.merge_columns is None:
            return taken
        return pa.schema([each for each in taken if each.name in ("id", *self.merge_columns)])

    def _chosen(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.merge_columns is None:
            return rows
        schema = self._schema(rows.schema)
        for name in set(rows.schema.names) - set(schema.names):
            if rows.column(name).null_count < rows.num_rows:
                raise AssertionError(f"{name!r} has values, which would not be staged")
        return rows.select(schema.names)

    def _intake(self, given: pa.Schema) -> Intake:
        return Intake(
            self.declared,
            given,
            self.mode,
            # What is added is taken in as a whole: it may need an id, and has all that is required.
            None if self.mode is WriteMode.APPEND else self.merge_columns,
            allow_external_blobs=self.external_blobs,
        )


def discard_unowned(
    task: StageTask, files: Sequence[StagedFile], branch: str, planned: int
) -> None:
    """Delete staged files that nothing can own: no sidecar, and no version since the planned one.

    The write may still be landing in a process that was not told to end: it is waited for.
    """
    root, settings = task.address.root, task.settings
    if not files:
        return
    try:
        with writer_lock(root, branch, settings):
            if not list_sidecars(root, objects_at(root, settings)):
                owned = files_since(task.address, planned, settings)
                unowned = (file for file in files if file.path not in owned)
                discard(task.address, unowned, settings)
    except ConflictError as alive:
        warnings.warn(f"files that no version may name stayed behind: {alive}", stacklevel=3)
