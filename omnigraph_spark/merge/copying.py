"""Rows of the source, staged where the target keeps its own: the only rows a merge copies.

A piece is one fragment of the source: it runs anywhere and holds a batch at a time. Rows are copied
as they are stored, blobs and vectors included, and looked at once more: what the rules of the type
say of single values has to hold in the merged graph, whoever wrote the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.errors import StorageError, UnsupportedError
from omnigraph_spark.merge.compared import add_placed
from omnigraph_spark.merge.located import locate
from omnigraph_spark.merge.rows import TypeRows
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.model import Cardinality, EdgeType, EntityType, Scalar
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.storage.blob_values import stored_batches
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.staging import StagedFile, discard, stage_batches
from omnigraph_spark.taking import AT_ONCE
from omnigraph_spark.writing.empty_blobs import (
    bytes_first,
    find_mistakable,
    has_empty,
    nullable_blobs,
)
from omnigraph_spark.writing.intake.rules import Rule, rules_of
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.stage import StageLimits, StageResult
from omnigraph_spark.writing.violations import Violation, merge, violation_of
from omnigraph_spark.writing.workspace import Workspace

Places = npt.NDArray[np.int64]

_ADDRESS = "_rowaddr"
# From this share of a fragment on reading all of it is faster than finding rows.
_DENSE = 4
# What Lance may read ahead; its own default of 2 GiB would be a worker's whole memory.
_SCAN: dict[str, Any] = {"io_buffer_size": 64 << 20, "batch_readahead": 4}


def take_rows(
    space: Workspace, rows: TypeRows, target: SnapshotState, limits: StageLimits
) -> tuple[Pending, tuple[Violation, ...]]:
    """Stage what a merge takes of one type, and find the rows of the target that go.

    Returns the change of the type, and the rules that taken rows break.
    """
    declared = target.schema.get(rows.plan.target.type_key)
    if declared is None:
        raise UnsupportedError(
            f"merging {rows.plan.key}, which the current schema does not declare",
            "merge types of the schema",
        )
    pending = Pending(rows.plan.target, declared, WriteMode.MERGE, target.branch)
    address = pending.address(target.root)
    with ExitStack() as undo:
        changed = _staged(space, rows, "changed", address, declared, limits)
        undo.callback(discard, address, changed.files, target.settings)
        added = _staged(space, rows, "added", address, declared, limits)
        undo.callback(discard, address, added.files, target.settings)
        doomed = _find_doomed(space, rows, declared) if rows.counts.deleted else None
        targets = f"targets_{rows.number}"
        locate(space, rows, "changed", targets)
        undo.pop_all()
    if not changed.files and not added.files:
        pending = replace(pending, mode=WriteMode.DELETE)
    pending = replace(
        pending, files=changed.files, fresh=added.files, doomed=doomed, targets=targets
    )
    return pending, merge((*changed.violations, *added.violations))


def _staged(
    space: Workspace,
    rows: TypeRows,
    change: str,
    address: DatasetAddress,
    declared: EntityType,
    limits: StageLimits,
) -> StageResult:
    task = _TakeFragment(rows.sides.source, address, declared, limits, stays=change == "added")
    places = f"SELECT fragment, place FROM {rows.taken} WHERE change = '{change}'"
    files: list[StagedFile] = []
    violations: list[Violation] = []
    with ExitStack() as undo:
        undo.callback(discard, address, files, rows.sides.source.settings)
        for answer in space.each_group(places, "fragment", task):
            result = StageResult.from_json(answer)
            files += result.files
            violations += result.violations
        undo.pop_all()
    return StageResult(tuple(files), merge(violations))


def _find_doomed(space: Workspace, rows: TypeRows, declared: EntityType) -> str:
    """Say where the target's rows lie that the source deleted."""
    gone, doomed = f"gone_{rows.number}", f"doomed_{rows.number}"
    if not isinstance(declared, EdgeType) or declared.cardinality == Cardinality():
        locate(space, rows, "removed", doomed)
        return doomed
    # Their sources lose an edge, and may have too few.
    locate(space, rows, "removed", gone)
    columns = {"id": "id", "src": "src"}
    add_placed(space, f"{gone}_ends", rows.sides.target, columns, f"SELECT * FROM {gone}")
    space.define(doomed, f"SELECT g.*, e.src FROM {gone} g JOIN {gone}_ends e ON e.id = g.id")
    return doomed


@dataclass(frozen=True)
class _TakeFragment:
    """Copies chosen rows of one fragment into staged files of another line."""

    source: ScanSource
    address: DatasetAddress
    declared: EntityType
    limits: StageLimits
    #: Whether the staged files are those that land.
    stays: bool

    def __call__(self, places: pa.Table) -> str:
        """Take fragment and place of the rows; return what was staged."""
        fragment = int(pc.min(places.column("fragment")).as_py())
        wanted = np.sort(places.column("place").to_numpy().astype(np.int64))
        return self._stage(fragment, wanted).to_json()

    def _stage(self, fragment: int, wanted: Places) -> StageResult:
        schema = arrow_schema(self.declared)
        rules = _value_rules(self.declared)
        blobs = nullable_blobs(self.declared) if self.stays else []
        violations: list[Violation] = []
        empty = False

        def copied() -> Iterator[pa.RecordBatch]:
            nonlocal empty
            for number, batch in enumerate(self._rows(fragment, wanted)):
                violations.extend(_broken(batch, rules, str(self.declared.type_key)))
                empty = empty or has_empty(batch, blobs)
                yield batch if number else bytes_first(batch, blobs)

        settings = self.source.settings
        files = stage_batches(
            self.address,
            copied(),
            schema,
            settings,
            self.limits.max_rows_per_file,
            self.limits.max_bytes_per_file,
        )
        if empty:
            violations.extend(find_mistakable(self.address, files, self.declared, settings))
        return StageResult(tuple(files), merge(violations))

    def _rows(self, fragment: int, wanted: Places) -> Iterator[pa.RecordBatch]:
        """Stream the rows, as they are stored."""
        dataset, names = self.source.open(), arrow_schema(self.declared).names
        [size] = [each.rows for each in dataset.fragments() if each.id == fragment]
        addresses = wanted + (fragment << 32)
        try:
            if len(wanted) == size:
                yield from stored_batches(dataset, [fragment], names, zeros_are_null=True, **_SCAN)
            elif len(wanted) * _DENSE >= size and not _has_blobs(self.declared):
                columns = [*names, _ADDRESS]
                known = pa.array(addresses.astype(np.uint64))
                for batch in dataset.batches([fragment], columns, **_SCAN):
                    kept = batch.filter(pc.is_in(batch.column(_ADDRESS), known))
                    yield kept.select(names)
            else:
                for start in range(0, len(addresses), AT_ONCE):
                    listed = ", ".join(map(str, addresses[start : start + AT_ONCE].tolist()))
                    chosen = {**_SCAN, "filter": f"{_ADDRESS} IN ({listed})"}
                    yield from stored_batches(
                        dataset, [fragment], names, zeros_are_null=True, **chosen
                    )
        except StorageError as error:
            raise self.source.explain(error) from error


def _has_blobs(declared: EntityType) -> bool:
    return any(prop.type.scalar is Scalar.BLOB for prop in declared.properties)


def _value_rules(declared: EntityType) -> list[tuple[str, Rule]]:
    """Return the rules that single values have to keep, by column."""
    found: list[tuple[str, Rule]] = []
    for prop in declared.properties:
        try:
            found += [(prop.name, rule) for rule in rules_of(declared, prop)]
        except UnsupportedError:
            # A pattern of the engine's that is not known here: it checked the row when it came.
            continue
    return found


def _broken(
    batch: pa.RecordBatch, rules: Sequence[tuple[str, Rule]], key: str
) -> Iterator[Violation]:
    for column, rule in rules:
        if found := rule(batch.column(column)):
            ids = batch.column("id").filter(found.rows)
            yield violation_of(found.rule, key, column, found.message, ids)
