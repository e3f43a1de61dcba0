"""What the tests of recovery share: how a graph was left, and that it is settled."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import (
    DamagedGraphError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.formats.v4.recoveries import RecoveryRecord, read_recoveries
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.storage.local_objects import LocalObjects
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers import golden
from tests.helpers.exported import exported_rows

LOCAL = StorageSettings()
#: Everyone's age before and after the work that dies.
PRE, POST = {"Alice": 30, "Bob": 41}, {"Alice": 30, "Bob": 42, "Carol": 7}
UNREADABLE = {"crashed-corrupt": DamagedGraphError, "crashed-future-version": UnsupportedError}
FOREIGN = "crashed-foreign-commit"
#: What the engine recovers, and we alike.
ALIKE = sorted({*golden.crashed_cases()} - {*UNREADABLE, FOREIGN})


def manifest_of(root: Path) -> Manifest:
    return Manifest(str(root), LOCAL)


def audit(root: Path) -> list[RecoveryRecord]:
    return list(read_recoveries(str(root), LOCAL))


def sidecars(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("__recovery/*.json"))


def pins(root: Path, branch: str = "main") -> dict[str, tuple[int, str | None, int]]:
    return {
        key: (entry.dataset_version, entry.dataset_branch, entry.rows)
        for key, entry in manifest_of(root).head(branch).entries.items()
    }


def assert_settled(root: Path, branch: str = "main") -> None:
    """Nothing is pending, and no dataset is ahead of what is pinned."""
    assert sidecars(root) == []
    assert list(root.glob("*.staging")) == []
    for key, entry in manifest_of(root).head(branch).entries.items():
        if branch != "main" and entry.dataset_branch is None:
            # Main's own, which moves on without this branch.
            continue
        folder = root / entry.path / (f"tree/{branch}" if entry.dataset_branch else "")
        assert lance.dataset(str(folder)).version == entry.dataset_version, key


def recover_quietly(root: Path) -> None:
    """Open for writing once, which leaves the file of a lock whatever else it does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        og.open(root)


def snapshot_rows(graph: og.Graph) -> dict[str, Any]:
    snapshot = graph.snapshot()
    return {key: exported_rows(key, snapshot.arrow(key)) for key in snapshot.entries}


def expected_audit(case: str) -> list[tuple[Any, ...]]:
    rows = golden.Expected(case).after._json("raw.json")["audit"] or []
    return [
        (
            row["recovery_kind"],
            row["recovery_for_actor"],
            row["operation_id"],
            row["sidecar_writer_kind"],
            [tuple(outcome.values()) for outcome in json.loads(row["per_table_outcomes_json"])],
        )
        for row in rows
    ]


def found_audit(root: Path) -> list[tuple[Any, ...]]:
    return [
        (
            record.kind,
            record.for_actor,
            record.operation_id,
            record.writer,
            [(made.type_key, made.from_version, made.to_version) for made in record.outcomes],
        )
        for record in audit(root)
    ]


def assert_as_the_engine_left_it(root: Path, case: str) -> None:
    """Pins, rows, commits and audit rows are those of the engine's recovery."""
    after = golden.Expected(case).after
    for branch in after.branches():
        graph = og.open(root, branch=branch, mode="r")
        assert pins(root, branch) == {
            table["table_key"]: (table["table_version"], table["table_branch"], table["row_count"])
            for table in after.snapshot(branch)["tables"]
        }
        rows = snapshot_rows(graph)
        assert {key: found for key, found in rows.items() if found} == golden.by_type(
            after.export(branch)
        )
        shape = ("manifest_branch", "manifest_version", "merged_parent_commit_id", "actor_id")
        assert [
            (
                None if commit.branch == "main" else commit.branch,
                commit.manifest_version,
                commit.merged_parent_id,
                commit.actor,
            )
            for commit in reversed(graph.history())
        ] == [tuple(commit[name] for name in shape) for commit in after.commits(branch)]
    assert found_audit(root) == expected_audit(case)


@contextmanager
def reached(point: Failpoint, action: Callable[[], None], at: int = 1) -> Iterator[None]:
    """Run an action when the block reaches a point."""
    points.arm(point, action, at)
    try:
        yield
    finally:
        points.disarm()


def fail(monkeypatch: pytest.MonkeyPatch, method: str, where: str) -> None:
    """Let a method of local storage fail for addresses that hold a text."""
    real = getattr(LocalObjects, method)

    def failing(self: LocalObjects, address: str, *args: Any, **kwargs: Any) -> Any:
        if where in address and not address.endswith(".lock"):
            raise StorageError("permanent", address, "no space left on device")
        return real(self, address, *args, **kwargs)

    monkeypatch.setattr(LocalObjects, method, failing)


def fail_once(monkeypatch: pytest.MonkeyPatch, method: str, where: str) -> None:
    """Let a method of local storage fail the first time for addresses that hold a text."""
    real = getattr(LocalObjects, method)
    failed: list[str] = []

    def failing(self: LocalObjects, address: str, *args: Any, **kwargs: Any) -> Any:
        if where in address and not failed:
            failed.append(address)
            raise StorageError("permanent", address, "no space left on device")
        return real(self, address, *args, **kwargs)

    monkeypatch.setattr(LocalObjects, method, failing)
