"""Small datasets that only grow, one row at a time, and hold each row once.

Whoever appends looks for the row first and then commits on exactly the version that was looked at,
so of two processes with the same row one adds it and the other finds it.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import pyarrow as pa

from omnigraph_spark.errors import ConflictError, StorageError
from omnigraph_spark.failpoints import LEDGER_BEGUN
from omnigraph_spark.storage.changes import AppendChange
from omnigraph_spark.storage.datasets import DatasetAddress, open_dataset, probe_version
from omnigraph_spark.storage.fence import FenceInDoubtError, FenceRefusedError, commit_fenced
from omnigraph_spark.storage.objects import IN_DOUBT
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import (
    DatasetExistsError,
    StagedFile,
    create_dataset,
    discard,
    stage_batches,
)

#: Each loss means that another row was added, so a few in a row are sustained contention.
_ATTEMPTS = 8
#: Far above one row: a row is never cut.
_FILE_ROWS, _FILE_BYTES = 1 << 10, 16 << 20


def read_ledger(address: DatasetAddress, settings: StorageSettings) -> pa.Table | None:
    """Read all rows; None when there is no such dataset yet."""
    newest = probe_version(address, settings)
    if newest is None:
        return None
    return open_dataset(address, newest.number, settings, newest.e_tag).table()


def append_once(
    address: DatasetAddress, row: pa.Table, key: str, settings: StorageSettings
) -> bool:
    """Add one row unless there is one with the same value in the column `key`.

    The dataset is created when there is none. False means that the row was there.
    """
    [value] = row.column(key).to_pylist()
    staged: tuple[StagedFile, ...] = ()
    for _ in range(_ATTEMPTS):
        if probe_version(address, settings) is None:
            with suppress(DatasetExistsError):
                create_dataset(address, row.schema, settings)
                LEDGER_BEGUN.reached()
        newest = probe_version(address, settings)
        if newest is None:
            raise StorageError("permanent", address.uri, "a dataset was created and is not there")
        known = open_dataset(address, newest.number, settings, newest.e_tag).table([key])
        if value in known.column(key).to_pylist():
            discard(address, staged, settings)
            return False
        staged = staged or tuple(
            stage_batches(address, row.to_batches(), row.schema, settings, _FILE_ROWS, _FILE_BYTES)
        )
        try:
            commit_fenced(address, newest.number, AppendChange(staged), settings, str(uuid4()), {})
        except FenceRefusedError:
            continue
        except FenceInDoubtError as doubt:
            raise StorageError(IN_DOUBT, address.uri, str(doubt)) from doubt
        return True
    discard(address, staged, settings)
    raise ConflictError(f"{_ATTEMPTS} attempts to add a row to {address.path} each met another")
