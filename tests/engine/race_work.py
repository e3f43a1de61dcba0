"""What racing processes do, in a module that is quick to import: see `tests.helpers.racers`."""

from __future__ import annotations

import pyarrow as pa

import omnigraph_spark as og
from omnigraph_spark import clock
from omnigraph_spark.branches import create_branch
from omnigraph_spark.compaction import compact_manifest
from omnigraph_spark.create import create_graph
from omnigraph_spark.errors import (
    BranchExistsError,
    ConflictError,
    ExpectedVersionError,
    GraphExistsError,
)
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.names import BranchRef
from omnigraph_spark.publish import LineageIntent, PublishVersion, publish
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage.settings import StorageSettings


def manifest_of(root: object) -> Manifest:
    """The manifest of a graph on this disk."""
    return Manifest(str(root), StorageSettings())


def intent(commit_id: str | None = None, actor: str | None = None) -> LineageIntent:
    """A commit to make now."""
    return LineageIntent(commit_id or clock.new_ulid(), clock.now_us(), actor)


def publish_empty(root: str, number: int) -> str:
    """Publish a commit without changes."""
    return publish(manifest_of(root), "main", [], {}, intent(actor=f"round {number}")).id


def publish_pin(root: str, pins: list[PublishVersion], number: int) -> tuple[str, str | None]:
    """Pin the version of this round on top of the one before; who won, if not this process."""
    change = pins[number]
    lineage = intent()
    try:
        expect = {change.type_key: change.landed.number - 1}
        publish(manifest_of(root), "main", [change], expect, lineage)
    except ExpectedVersionError as lost:
        return lineage.commit_id, lost.winner
    return lineage.commit_id, None


def publish_once(root: str, number: int) -> str:
    """Publish the piece of work that this round names."""
    commit_id = clock.derived_ulid("stream", str(number))
    return publish(manifest_of(root), "main", [], {}, intent(commit_id)).id


def publish_on_branch(root: str, number: int) -> str:
    """Publish on the branch of this round."""
    return publish(manifest_of(root), f"b{number}", [], {}, intent()).id


def publish_or_compact(role: str, root: str, number: int) -> str | bool:
    """Publish a commit, or compact the manifest."""
    if role == "compact":
        return compact_manifest(manifest_of(root))
    return publish_empty(root, number)


def create_one(folder: str, schema: str, number: int) -> str:
    """Create the graph of this round; its first commit, or the code of the error."""
    try:
        return create_graph(f"{folder}/g{number}", schema, StorageSettings()).id
    except GraphExistsError as error:
        return error.code


def branch_one(root: str, actor: str, number: int) -> str:
    """Make the branch of this round; the code of the error if that fails."""
    state = GraphReader.open(root, StorageSettings()).resolve(BranchRef("main"))
    try:
        create_branch(manifest_of(root), f"r{number}", state)
    except (BranchExistsError, ConflictError) as error:
        return error.code
    return "made"


def write_once(root: str, number: int) -> str:
    """Write the piece of work that this round names; who did it first."""
    rows = pa.table({"name": [f"once{number}"]})
    graph = og.open(root)
    commit = graph.write(rows, "Person", txn_app_id="job", txn_version=number)
    assert commit is not None
    return commit.id
