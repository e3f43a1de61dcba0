"""Recovery on an object store, where no lock tells a live writer from a dead one."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from unittest.mock import patch

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.clock import now_us
from omnigraph_spark.errors import ConflictError
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.names import TypeKey
from omnigraph_spark.recovery import observe
from omnigraph_spark.storage import leases
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.s3_objects import S3Objects
from omnigraph_spark.storage.settings import StorageSettings
from tests.engine.graphs import ages
from tests.engine.recovering import POST, PRE, reached
from tests.helpers import golden
from tests.helpers.crashes import Crashed, crashing, load, write_social
from tests.helpers.s3 import S3Server

#: How a manifest names the rows that record versions.
_VERSION = "table_version"


@pytest.fixture
def root(s3: S3Server) -> str:
    root = f"s3://{s3.make_bucket()}/social"
    write_social(root, s3.storage_options)
    return root


def opened(root: str, s3: S3Server, mode: str = "rw") -> og.Graph:
    return og.open(root, mode=mode, storage=s3.storage_options)


def test_what_can_be_finished_is_finished_at_once(root: str, s3: S3Server) -> None:
    with crashing(points.BEFORE_PUBLISH):
        load(opened(root, s3))
    assert ages(opened(root, s3)) == POST
    assert opened(root, s3).recover() == []


@pytest.mark.parametrize("point", [points.SIDECAR_WRITTEN, points.DATASET_COMMITTED])
def test_what_must_be_undone_waits_until_its_writer_cannot_be_alive(
    root: str, s3: S3Server, point: Failpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crashing(point):
        load(opened(root, s3))
    graph = opened(root, s3)
    assert ages(graph) == PRE
    with pytest.raises(ConflictError, match="may have a live writer"):
        graph.recover()
    with pytest.raises(ConflictError, match="may have a live writer"):
        graph.write(pa.table({"name": ["Zoe"]}), "Person")
    monkeypatch.setattr(observe, "_LEASE_US", 0)
    load(graph)
    assert ages(graph) == POST


@pytest.mark.parametrize(("behind_s", "waits"), [(60, True), (600, False)])
def test_a_clock_that_is_a_minute_behind_takes_no_live_writer_for_dead(
    root: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, behind_s: int, waits: bool
) -> None:
    with crashing(points.DATASET_COMMITTED):
        load(opened(root, s3))
    graph = opened(root, s3)
    monkeypatch.setattr(observe, "now_us", lambda: now_us() - behind_s * 1_000_000)
    if waits:
        with pytest.raises(ConflictError, match="may have a live writer"):
            graph.recover()
    else:
        [done] = graph.recover()
        assert done.kind == "RolledBack"


def test_who_knows_better_does_not_have_to_wait(root: str, s3: S3Server) -> None:
    with crashing(points.DATASET_COMMITTED):
        load(opened(root, s3))
    graph = opened(root, s3)
    [done] = graph.recover(force=True)
    assert done.kind == "RolledBack"
    load(graph)
    assert ages(graph) == POST


def test_a_live_writer_that_is_undone_under_its_feet_tries_again(
    root: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken_for_dead() -> None:
        points.disarm()
        monkeypatch.setattr(leases, "LEASE_SECONDS", 0.0)
        [done] = opened(root, s3).recover(force=True)
        assert done.kind == "RolledBack"

    with reached(points.DATASET_COMMITTED, taken_for_dead):
        load(opened(root, s3))
    graph = opened(root, s3)
    assert ages(graph) == POST
    assert graph.snapshot().rows("Knows") == 2
    assert graph.recover() == []


def test_a_live_writer_that_is_finished_by_another_succeeds(
    root: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finished() -> None:
        points.disarm()
        # The writer is slower than its lease, so another takes it for dead.
        monkeypatch.setattr(leases, "LEASE_SECONDS", 0.0)
        [done] = opened(root, s3).history(limit=1)
        assert done.actor == "omnigraph:recovery"

    with reached(points.BEFORE_PUBLISH, finished):
        load(opened(root, s3))
    assert ages(opened(root, s3)) == POST


@pytest.mark.parametrize("copied", [1, 2, 3])
def test_schema_files_that_were_copied_and_not_yet_deleted_are_moved_on(
    s3: S3Server, tmp_path: Path, copied: int
) -> None:
    """There is no rename: whoever dies between copy and deletion leaves both files."""
    local = golden.unpack("crashed-apply-staged", tmp_path)
    root = s3.upload(local, f"s3://{s3.make_bucket()}/g")
    deleted, delete = count(1), S3Objects.delete

    def dies(store: S3Objects, address: str) -> None:
        if address.endswith(".staging") and next(deleted) == copied:
            raise Crashed
        delete(store, address)

    with patch.object(S3Objects, "delete", dies), pytest.raises(Crashed):
        opened(root, s3).recover()
    graph = opened(root, s3)
    assert graph.schema.get(TypeKey.parse("node:Tag")) is not None
    store = objects_at(root, StorageSettings.resolve(s3.storage_options))
    assert [found for found in store.listing(root) if found.name.endswith(".staging")] == []
    assert graph.recover() == []


# -- what is recorded of a version ----------------------------------------------------------------


def assert_tags_are_those_of_the_objects(root: str, s3: S3Server, branch: str | None = None) -> int:
    """Compare each version that a manifest records with its object; how many there were."""
    where = f"{root}/__manifest" + (f"/tree/{branch}" if branch else "")
    rows = lance.dataset(where, storage_options=s3.storage_options).to_table().to_pylist()
    recorded = [json.loads(row["metadata"]) for row in rows if row["object_type"] == _VERSION]
    for version in recorded:
        head = s3.client().head_object(Bucket=root.split("/")[2], Key=version["manifest_path"])
        assert version["e_tag"] == head["ETag"], version
        assert version["manifest_size"] == head["ContentLength"], version
    return len(recorded)


def test_the_tag_of_every_version_that_is_recorded_is_that_of_its_object(
    root: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a publish, on a branch, after a merge, after recovery finished and undid a write."""
    graph = opened(root, s3)
    load(graph)
    published = assert_tags_are_those_of_the_objects(root, s3)
    graph.create_branch("dev")
    graph.as_branch("dev").write(pa.table({"name": ["Dora"]}), "Person")
    assert assert_tags_are_those_of_the_objects(root, s3, "dev") > published
    graph.write(pa.table({"name": ["Erin"]}), "Person")
    graph.merge("dev", into="main")
    merged = assert_tags_are_those_of_the_objects(root, s3)
    assert merged > published
    monkeypatch.setattr(observe, "_LEASE_US", 0)
    for point in (points.DATASET_COMMITTED, points.BEFORE_PUBLISH):
        with crashing(point):
            graph.refresh().write(pa.table({"name": [f"Zoe {point.name}"]}), "Person")
        assert len(opened(root, s3).recover()) <= 1
    assert assert_tags_are_those_of_the_objects(root, s3) > merged
