"""Work that has a name and whose writer died: done once, also when the engine finished it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.clock import new_ulid, now_us
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.formats.v4.recoveries import (
    RecoveryKind,
    RecoveryRecord,
    TableOutcome,
    append_recovery,
)
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.publish import LineageIntent, publish
from omnigraph_spark.recovery.act import RECOVERY_ACTOR, pin_version
from omnigraph_spark.storage.datasets import DatasetAddress, probe_version
from omnigraph_spark.storage.settings import StorageSettings
from tests.engine.recovering import reached, sidecars
from tests.engine.writing import NOTE, assert_whole
from tests.helpers.builder import GraphBuilder
from tests.helpers.engine import run_engine

LOCAL = StorageSettings()


class DiedError(Exception):
    """The writer is gone."""


def do_work(graph: og.Graph, branch: str = "main") -> og.Commit | None:
    """Append a row whose id is drawn anew with every try: done twice, it is there twice."""
    rows = pa.table({"text": ["once"]})
    return graph.write(rows, "Note", branch=branch, txn_app_id="job", txn_version=1)


def die_at_work(graph: og.Graph, point: Failpoint, branch: str = "main") -> None:
    def die() -> None:
        raise DiedError

    with reached(point, die), pytest.raises(DiedError):
        do_work(graph, branch)


def times_done(graph: og.Graph, branch: str = "main") -> int:
    texts = og.open(graph.root, branch=branch, mode="r").snapshot().arrow("Note").column("text")
    return texts.to_pylist().count("once")


def record_as_the_engine_does(graph: og.Graph, branch: str, before: int) -> None:
    """Publish what the dataset holds under an id of one's own, record it, end the sidecar."""
    manifest = Manifest(graph.root, LOCAL)
    entry = manifest.head(branch).entries[NOTE]
    address = DatasetAddress(graph.root, entry.path, None if branch == "main" else branch)
    newest = probe_version(address, LOCAL)
    assert newest is not None
    moved = newest.number > entry.dataset_version
    changes = [pin_version(manifest, NOTE, address, newest.number)] if moved else []
    lineage = LineageIntent(new_ulid(), now_us(), RECOVERY_ACTOR)
    commit = publish(manifest, branch, changes, {}, lineage)
    [name] = sidecars(Path(graph.root))
    outcome = TableOutcome(NOTE, before, newest.number)
    operation, now = name.removesuffix(".json"), now_us()
    kind = RecoveryKind.ROLLED_FORWARD
    record = RecoveryRecord(commit.id, kind, None, operation, "Load", (outcome,), now)
    append_recovery(graph.root, record, LOCAL)
    Path(graph.root, "__recovery", name).unlink()


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_work_that_the_engine_finished_is_not_done_again(graph: og.Graph, branch: str) -> None:
    """RS-67: the engine's commit has another id, and its audit row names the operation."""
    if branch == "dev":
        graph.create_branch("dev")
    die_at_work(graph, points.BEFORE_PUBLISH, branch)
    record_as_the_engine_does(graph, branch, 2)
    assert times_done(graph, branch) == 1
    commit = do_work(og.open(graph.root), branch)
    assert commit is not None
    assert commit.actor == RECOVERY_ACTOR
    assert times_done(graph, branch) == 1
    assert_whole(graph.as_branch(branch))


def test_work_that_the_engine_only_took_for_finished_is_done(graph: og.Graph) -> None:
    """Nothing had moved; another write moved the type, which to the engine is a sign of success."""
    die_at_work(graph, points.SIDECAR_WRITTEN)
    GraphBuilder.open(Path(graph.root)).write({NOTE: [{"id": "n2", "text": "theirs"}]})
    record_as_the_engine_does(graph, "main", 2)
    assert times_done(graph) == 0
    do_work(og.open(graph.root))
    assert times_done(graph) == 1
    assert_whole(graph)


@pytest.mark.engine
@pytest.mark.parametrize(
    "point", [points.DATASET_COMMITTED, points.AFTER_PUBLISH], ids=lambda point: point.name
)
def test_work_that_the_engine_itself_finished_is_not_done_again(
    graph: og.Graph, point: Failpoint
) -> None:
    die_at_work(graph, point)
    run_engine("snapshot", graph.root, check=True)
    assert times_done(graph) == 1
    do_work(og.open(graph.root))
    assert times_done(graph) == 1
