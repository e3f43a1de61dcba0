"""Datasets of one's own, written through the strict commit: what its tests share.

Quick to import, because racing processes import it too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa

from omnigraph_spark.storage import fence
from omnigraph_spark.storage.branches import create_branch
from omnigraph_spark.storage.datasets import DatasetAddress, open_dataset, open_handle
from omnigraph_spark.storage.fence import (
    AppendChange,
    Change,
    FenceRefusedError,
    LandedVersion,
    commit_fenced,
)
from omnigraph_spark.storage.ledger import append_once
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, create_dataset, stage_batches

PEOPLE = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("age", pa.int64())])

LOCAL = StorageSettings()

_T = TypeVar("_T")


def people(*ids: str, age: int = 0) -> pa.RecordBatch:
    """Rows of one age."""
    return pa.record_batch([pa.array(ids), pa.array([age] * len(ids))], schema=PEOPLE)


@dataclass(frozen=True)
class Strict:
    """A dataset, and the short way to write to it."""

    address: DatasetAddress
    settings: StorageSettings = LOCAL
    schema: pa.Schema = PEOPLE

    @classmethod
    def create(
        cls,
        root: str | Path,
        settings: StorageSettings = LOCAL,
        schema: pa.Schema = PEOPLE,
    ) -> Strict:
        made = cls(DatasetAddress(str(root), "nodes/p"), settings, schema)
        create_dataset(made.address, schema, made.settings)
        return made

    @property
    def folder(self) -> Path:
        return Path(self.address.uri)

    def stage(
        self, *batches: pa.RecordBatch, max_rows: int = 1 << 20, **options: Any
    ) -> tuple[StagedFile, ...]:
        staged = stage_batches(
            self.address, batches, self.schema, self.settings, max_rows, 256 << 20, **options
        )
        return tuple(staged)

    def commit(self, base: int, change: Change, uuid: str | None = None) -> LandedVersion:
        named = uuid or str(uuid4())
        return commit_fenced(self.address, base, change, self.settings, named, {"by": "test"})

    def append(self, base: int, *ids: str, age: int = 0) -> LandedVersion:
        return self.commit(base, AppendChange(self.stage(people(*ids, age=age))))

    def fork(self, name: str, version: int) -> Strict:
        create_branch(self.address, name, self.address.branch, version, self.settings)
        return self.on(name)

    def on(self, branch: str) -> Strict:
        address = DatasetAddress(self.address.root, self.address.path, branch)
        return Strict(address, self.settings, self.schema)

    def table(self, version: int, *columns: str) -> pa.Table:
        return open_dataset(self.address, version, self.settings).table(list(columns) or None)

    def ids(self, version: int) -> list[str]:
        read: list[str] = self.table(version, "id")["id"].to_pylist()
        return sorted(read)

    def files(self) -> set[str]:
        """Everything in the dataset's folder, on a local disk."""
        return {
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()
        }


def race_to_append(address: DatasetAddress, first: int, number: int) -> bool:
    """Append in this round, as all racers do; tell whether this one landed."""
    racer = Strict(address)
    try:
        landed = racer.append(first + number, f"{number}-{os.getpid()}")
    except FenceRefusedError:
        return False
    assert landed.number == first + number + 1
    return True


@contextmanager
def overtaken(data: Strict) -> Iterator[None]:
    """Let another commit land after the next one looked at HEAD and before it takes its version."""

    def late(address: DatasetAddress, version: int, settings: StorageSettings) -> Any:
        handle = open_handle(address, version, settings)
        with patch.object(fence, "open_handle", open_handle):
            data.append(version, "other")
        return handle

    with patch.object(fence, "open_handle", late):
        yield


def append_to_ledger(root: str, actor: str, number: int) -> tuple[bool, bool]:
    """Add a row of one's own and one that all racers add; tell which of the two were added."""
    ledger = DatasetAddress(root, "ledger.lance")
    own, shared = (
        append_once(ledger, pa.table({"id": [name], "note": [actor]}), "id", LOCAL)
        for name in (f"{actor}-{number}", f"shared-{number}")
    )
    return own, shared


def at_once(works: Iterable[Callable[[], _T]]) -> list[_T]:
    """Run works in threads that start together."""
    todo = list(works)
    start = Barrier(len(todo))

    def run(work: Callable[[], _T]) -> _T:
        start.wait()
        return work()

    with ThreadPoolExecutor(len(todo)) as pool:
        return list(pool.map(run, todo))
