"""Many tiny staged files become few before they land, whatever the partitioning of the input.

Two hundred partitions of fifty rows would be two hundred fragments that every later scan opens. The
rows were checked when they were staged, so they are only copied: in this process while they are
few, as tasks when they are many.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace

from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.storage.staging import StagedFile, discard, read_staged, stage_batches
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.stage import StageLimits
from omnigraph_spark.writing.staged_rows import StagedSource
from omnigraph_spark.writing.workspace import Workspace

# A file below a sixteenth of both limits (65,536 rows, 16 MiB by default) is tiny; larger ones scan
# nearly as well as full ones, and copying them would cost more than it gains.
_TINY = 16
# So many tiny files of one write are left alone: what they cost later is less than a copy now.
_FEW = 4
# Up to so much is copied in this process: starting tasks takes longer.
_IN_PROCESS_BYTES = 64 << 20


def plan_packs(files: Sequence[StagedFile], limits: StageLimits) -> list[tuple[StagedFile, ...]]:
    """Return the groups of tiny files that become one file each; files in none stay as they are."""
    tiny = [file for file in files if _is_tiny(file, limits)]
    if len(tiny) <= _FEW:
        return []
    packs: list[tuple[StagedFile, ...]] = []
    pack: list[StagedFile] = []
    rows = size = 0
    for file in tiny:
        rows, size = rows + file.rows, size + file.size_bytes
        if pack and (rows > limits.max_rows_per_file or size > limits.max_bytes_per_file):
            packs.append(tuple(pack))
            pack, rows, size = [], file.rows, file.size_bytes
        pack.append(file)
    packs.append(tuple(pack))
    return [pack for pack in packs if len(pack) > 1]


def repack(
    pending: Pending, state: SnapshotState, limits: StageLimits, space: Workspace
) -> Pending:
    """Return the same change with its tiny files packed; those they replace are deleted."""
    if _is_read_back(pending, limits):
        return pending
    whole = pending.source(state.root, state.settings)
    as_given = pending.mode is WriteMode.OVERWRITE
    files = _packed(replace(whole, files=pending.files), limits, as_given, space)
    fresh = _packed(replace(whole, files=pending.fresh), limits, as_given, space)
    return replace(pending, files=files, fresh=fresh)


def _packed(
    whole: StagedSource, limits: StageLimits, as_given: bool, space: Workspace
) -> tuple[StagedFile, ...]:
    packs = plan_packs(whole.files, limits)
    if not packs:
        return whole.files
    settings = whole.settings
    tasks = [_CopyFiles(replace(whole, files=pack), limits, as_given) for pack in packs]
    few = sum(file.size_bytes for pack in packs for file in pack) <= _IN_PROCESS_BYTES
    packed: list[StagedFile] = []
    with ExitStack() as undo:
        undo.callback(discard, whole.address, packed, settings)
        for answer in (task() for task in tasks) if few else space.run(tasks):
            packed += [StagedFile(**file) for file in json.loads(answer)]
        undo.pop_all()
    done = {file.path for pack in packs for file in pack}
    discard(whole.address, (file for pack in packs for file in pack), settings)
    return (*(file for file in whole.files if file.path not in done), *packed)


@dataclass(frozen=True)
class _CopyFiles:
    """Copies the rows of some staged files into as few as the limits allow."""

    source: StagedSource
    limits: StageLimits
    as_given: bool

    def __call__(self) -> str:
        address, settings = self.source.address, self.source.settings
        schema = arrow_schema(self.source.declared)
        rows = read_staged(address, self.source.files, schema.names, settings, blobs=True)
        files = stage_batches(
            address,
            rows,
            schema,
            settings,
            self.limits.max_rows_per_file,
            self.limits.max_bytes_per_file,
            as_given=self.as_given,
        )
        return json.dumps([asdict(file) for file in files])


def _is_read_back(pending: Pending, limits: StageLimits) -> bool:
    """Tell whether the files are not those that land: ids to delete, rows of a small merge."""
    if pending.mode is WriteMode.MERGE and not pending.only_adds:
        few = pending.rows * _TINY < limits.max_rows_per_file
        return (few and not pending.is_located) or pending.merge_columns is not None
    return pending.mode is WriteMode.DELETE


def _is_tiny(file: StagedFile, limits: StageLimits) -> bool:
    return (
        file.rows * _TINY < limits.max_rows_per_file
        and file.size_bytes * _TINY < limits.max_bytes_per_file
    )
