"""Rows into staged files: one partition of input, checked and written where nobody sees it yet.

A `StageTask` runs anywhere, in any process, and answers with a small `StageResult`. Rows that break
a rule are never left behind: an attempt that finds one deletes its files and says what it found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain

import pyarrow as pa

from omnigraph_spark.empty_blobs import (
    bytes_first,
    find_mistakable,
    has_empty,
    nullable_blobs,
)
from omnigraph_spark.intake import Intake
from omnigraph_spark.pending import WriteMode
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, discard, stage_batches
from omnigraph_spark.violations import Violation

#: Fragments of about a million rows or 256 MiB: large enough to scan well, small enough to rewrite.
MAX_ROWS_PER_FILE = 1_048_576
MAX_BYTES_PER_FILE = 256 << 20


@dataclass(frozen=True)
class StageLimits:
    """How large one staged file may become."""

    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE

    @classmethod
    def of(cls, rows: int | None, size_bytes: int | None) -> StageLimits:
        """Take given limits, and the usual ones where none is given."""
        return cls(rows or MAX_ROWS_PER_FILE, size_bytes or MAX_BYTES_PER_FILE)


@dataclass(frozen=True)
class StageResult:
    """What one partition staged, or the rules its rows break; never both."""

    files: tuple[StagedFile, ...] = ()
    violations: tuple[Violation, ...] = ()

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
        )


@dataclass(frozen=True)
class StageTask:
    """All it takes to stage rows of one type, as plain values."""

    address: DatasetAddress
    settings: StorageSettings
    declared: EntityType
    mode: WriteMode
    limits: StageLimits = StageLimits()
    #: The columns a merge changes; None means all.
    merge_columns: tuple[str, ...] | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> StageResult:
        """Stage the rows of one partition."""
        incoming = iter(batches)
        first = next(incoming, None)
        if first is None:
            if isinstance(batches, pa.RecordBatchReader):
                # Columns that do not fit are an error even without rows.
                Intake(self.declared, batches.schema, self.mode, self.merge_columns)
            return StageResult()
        intake = Intake(self.declared, first.schema, self.mode, self.merge_columns)
        # Of a merge these are not the rows that stay: its files are written anew.
        stays = self.mode in (WriteMode.APPEND, WriteMode.OVERWRITE)
        blobs = nullable_blobs(self.declared) if stays else []
        empty = False

        def converted() -> Iterator[pa.RecordBatch]:
            nonlocal empty
            for number, batch in enumerate(chain([first], incoming)):
                rows = intake.convert(batch)
                empty = empty or has_empty(rows, blobs)
                yield rows if number else bytes_first(rows, blobs)

        files = stage_batches(
            self.address,
            converted(),
            intake.schema,
            self.settings,
            self.limits.max_rows_per_file,
            self.limits.max_bytes_per_file,
            # These are not rows of the dataset as it is: they replace all, or are only read back.
            as_given=self.mode in (WriteMode.OVERWRITE, WriteMode.DELETE)
            or self.merge_columns is not None,
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
