"""The audit rows of format 4: what recovery made of each unfinished write, kept for good."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from omnigraph_spark.schema.rust_text import json_text
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.ledger import append_once, read_ledger
from omnigraph_spark.storage.settings import StorageSettings

RECOVERIES_PATH = "_graph_commit_recoveries.lance"

_TEXT: pa.DataType = pa.utf8()
_TIME: pa.DataType = pa.timestamp("us")
RECOVERIES_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", _TEXT, nullable=False),
        pa.field("recovery_kind", _TEXT, nullable=False),
        pa.field("recovery_for_actor", _TEXT),
        pa.field("operation_id", _TEXT, nullable=False),
        pa.field("sidecar_writer_kind", _TEXT, nullable=False),
        pa.field("per_table_outcomes_json", _TEXT, nullable=False),
        pa.field("created_at", _TIME, nullable=False),
    ]
)


class RecoveryKind(StrEnum):
    """What became of an unfinished write."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    ORPHANED_BRANCH_DISCARDED = "OrphanedBranchDiscarded"


@dataclass(frozen=True)
class TableOutcome:
    """What recovery did to one type: the dataset version it found, and the one that counts now."""

    type_key: str
    from_version: int
    to_version: int


@dataclass(frozen=True)
class RecoveryRecord:
    """One audit row."""

    commit_id: str
    kind: RecoveryKind
    for_actor: str | None
    operation_id: str
    writer: str
    outcomes: tuple[TableOutcome, ...]
    created_at_us: int


def append_recovery(root: str, record: RecoveryRecord, settings: StorageSettings) -> bool:
    """Record what was done about an operation, once; False when it is recorded already."""
    outcomes = [
        {
            "table_key": outcome.type_key,
            "from_version": outcome.from_version,
            "to_version": outcome.to_version,
        }
        for outcome in record.outcomes
    ]
    values = {
        "graph_commit_id": record.commit_id,
        "recovery_kind": str(record.kind),
        "recovery_for_actor": record.for_actor,
        "operation_id": record.operation_id,
        "sidecar_writer_kind": record.writer,
        "per_table_outcomes_json": json_text(outcomes),
        "created_at": record.created_at_us,
    }
    row = pa.Table.from_pylist([values], schema=RECOVERIES_SCHEMA)
    return append_once(DatasetAddress(root, RECOVERIES_PATH), row, "operation_id", settings)


def read_recoveries(root: str, settings: StorageSettings) -> Iterator[RecoveryRecord]:
    """Yield every audit row, oldest first; there are none until something was recovered."""
    table = read_ledger(DatasetAddress(root, RECOVERIES_PATH), settings)
    if table is None:
        return
    times = table.column("created_at").cast(pa.int64()).to_pylist()
    for row, created_at_us in zip(table.drop_columns("created_at").to_pylist(), times, strict=True):
        yield RecoveryRecord(
            commit_id=row["graph_commit_id"],
            kind=RecoveryKind(row["recovery_kind"]),
            for_actor=row["recovery_for_actor"],
            operation_id=row["operation_id"],
            writer=row["sidecar_writer_kind"],
            outcomes=tuple(
                TableOutcome(made["table_key"], made["from_version"], made["to_version"])
                for made in json.loads(row["per_table_outcomes_json"])
            ),
            created_at_us=created_at_us or 0,
        )
