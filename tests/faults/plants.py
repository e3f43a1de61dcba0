"""Bugs to plant, each one that would lose or tear data: the laws must notice every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.formats.v4 import sidecar as sidecars
from omnigraph_spark.publish import publish
from omnigraph_spark.storage.changes import Change, operation_of
from omnigraph_spark.storage.datasets import DatasetAddress, open_handle, probe_version
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.versions import LandedVersion, landed_version
from omnigraph_spark.writing import deletions, landing


def planted(name: str) -> AbstractContextManager[Any]:
    """Plant a bug for the block; no name plants none."""
    return PLANTS[name]() if name else nullcontext()


def publish_without_expectations() -> AbstractContextManager[Any]:
    def unconditional(
        manifest: Any, branch: str, changes: Any, expect: Any, lineage: Any, *_: Any
    ) -> Commit:
        return publish(manifest, branch, changes, {}, lineage)

    return patch.object(landing, "publish", unconditional)


def commit_without_fence() -> AbstractContextManager[Any]:
    """As Lance commits by itself: on top of whatever is there."""

    def unfenced(
        address: DatasetAddress,
        base_version: int,
        change: Change,
        settings: StorageSettings,
        uuid: str,
        properties: Mapping[str, str],
        base: object = None,
    ) -> LandedVersion:
        from lance import LanceDataset, Transaction

        handle = open_handle(address, base_version, settings)
        transaction = Transaction(
            read_version=base_version,
            operation=operation_of(change, handle),
            uuid=uuid,
            transaction_properties=dict(properties),
        )
        LanceDataset.commit(handle, transaction)
        head = probe_version(address, settings)
        assert head is not None
        return landed_version(address, head.number, settings)

    return patch.object(landing, "commit_fenced", unfenced)


@contextmanager
def sidecar_after_the_commits() -> Iterator[None]:
    late: list[Callable[[], None]] = []
    commit_all = landing._commit_all

    def later(*args: Any) -> None:
        late.append(lambda: sidecars.write_sidecar(*args))

    def commit_first(*args: Any) -> list[LandedVersion]:
        landed = commit_all(*args)
        late.pop()()
        return landed

    with (
        patch.object(landing, "write_sidecar", later),
        patch.object(landing, "_commit_all", commit_first),
    ):
        yield


def cascade_dropped() -> AbstractContextManager[Any]:
    return patch.object(deletions, "_edges_at", lambda key, state: [])


PLANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    plant.__name__: plant
    for plant in (
        publish_without_expectations,
        commit_without_fence,
        sidecar_after_the_commits,
        cascade_dropped,
    )
}
