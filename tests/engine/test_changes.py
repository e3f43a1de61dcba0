"""The change feed without Spark: commit by commit and net, across branches and merges."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    CommitNotFoundError,
    HistoryReclaimedError,
    InvalidNameError,
    InvalidOptionError,
    SchemaBoundaryError,
    TypeNotFoundError,
    VersionNotFoundError,
)
from tests.engine.writing import people
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder

Change = tuple[str, str, Any]


def changes(graph: og.Graph, **range_: Any) -> list[Change]:
    """The feed of Person: what happened, to whom, and the age then."""
    rows = graph.refresh().changes(type="Person", **range_).arrow().to_pylist()
    return [(row["_change_type"], row["name"], row["age"]) for row in rows]


def head(graph: og.Graph) -> og.Commit:
    return graph.refresh().snapshot().commit


def test_the_feed_shows_every_commit_with_both_images(graph: og.Graph) -> None:
    since = head(graph)
    graph.write(people(Ann=31, Dan=1), "Person", mode="merge")
    updated = head(graph)
    graph.delete("Person", ["Bob"])
    rows = graph.refresh().changes(since=since.id, type="Person").arrow()
    found = [(r["_change_type"], r["name"], r["age"], r["_commit_id"]) for r in rows.to_pylist()]
    assert sorted(found[:3]) == [
        ("insert", "Dan", 1, updated.id),
        ("update_postimage", "Ann", 31, updated.id),
        ("update_preimage", "Ann", 30, updated.id),
    ]
    assert found[3:] == [("delete", "Bob", 41, head(graph).id)]
    images = [kind for kind, name, *_ in found if name == "Ann"]
    assert images == ["update_preimage", "update_postimage"]
    assert rows.schema.names[-5:] == [
        "_change_type", "_commit_version", "_commit_timestamp", "_commit_id", "_commit_actor",
    ]  # fmt: skip
    first = rows.to_pylist()[0]
    assert first["_commit_version"] == updated.manifest_version
    assert first["_commit_timestamp"] == updated.created_at
    assert first["_commit_actor"] == "ann"


def test_since_is_left_out_and_until_is_part_of_the_range(graph: og.Graph) -> None:
    commits = [head(graph)]
    for age in range(3):
        graph.write(people(**{f"p{age}": age}), "Person")
        commits.append(head(graph))
    one, two, three = (("insert", f"p{age}", age) for age in range(3))
    assert changes(graph, since=commits[0].id) == [one, two, three]
    assert changes(graph, since=commits[1].manifest_version) == [two, three]
    assert changes(graph, since=commits[1].id, until=commits[2].manifest_version) == [two]
    assert changes(graph, since=commits[3].id) == []
    assert changes(graph, since=commits[2].id, until=commits[2].id) == []


def test_the_feed_of_a_whole_graph_begins_with_nothing(graph: og.Graph) -> None:
    """RS-47, genesis: without a beginning every row that ever came is an insert."""
    graph.write(people(Ann=31), "Person", mode="merge")
    found = changes(graph)
    assert sorted(found[:3]) == [
        ("insert", "Ann", 30),
        ("insert", "Bob", 41),
        ("insert", "Cid", None),
    ]
    assert found[3:] == [("update_preimage", "Ann", 30), ("update_postimage", "Ann", 31)]
    assert sorted(changes(graph, net=True)) == [
        ("insert", "Ann", 31), ("insert", "Bob", 41), ("insert", "Cid", None),
    ]  # fmt: skip


def test_rewritten_rows_compaction_and_overwrites_show_only_what_changed(graph: og.Graph) -> None:
    since = head(graph)
    graph.write(people(Ann=30, Bob=41), "Person", mode="merge")
    other = GraphBuilder.open(Path(graph.root))
    other.compact("node:Person")
    other.create_index("node:Person", "name")
    other.publish()
    assert changes(graph, since=since.id) == []
    graph.write(people(Ann=30, Bob=7, Eve=1), "Person", mode="overwrite", check="rows")
    assert sorted(changes(graph, since=since.id)) == [
        ("delete", "Cid", None),
        ("insert", "Eve", 1),
        ("update_postimage", "Bob", 7),
        ("update_preimage", "Bob", 41),
    ]


def test_the_feed_of_a_branch_goes_on_before_its_fork(graph: og.Graph) -> None:
    since = head(graph)
    graph.write(people(Dan=1), "Person")
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    dev.write(people(Eve=2), "Person")
    graph.write(people(Fay=3), "Person")
    assert changes(dev, since=since.id) == [("insert", "Dan", 1), ("insert", "Eve", 2)]
    assert changes(graph, since=since.id) == [("insert", "Dan", 1), ("insert", "Fay", 3)]
    with pytest.raises(CommitNotFoundError, match="dev"):
        changes(dev, since=head(graph).id)


def test_a_merge_is_one_block_against_its_first_parent(graph: og.Graph) -> None:
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    for age in (1, 2):
        dev.write(people(Dan=age, **{f"d{age}": age}), "Person", mode="merge")
    graph.write(people(Fay=3), "Person")
    since = head(graph)
    graph.merge("dev", into="main")
    merged = graph.refresh().changes(since=since.id, type="Person").arrow().to_pylist()
    assert {row["_commit_id"] for row in merged} == {head(graph).id}
    assert sorted((r["_change_type"], r["name"], r["age"]) for r in merged) == [
        ("insert", "Dan", 2), ("insert", "d1", 1), ("insert", "d2", 2),
    ]  # fmt: skip


def test_commits_and_versions_outside_of_the_history_are_refused(graph: og.Graph) -> None:
    with pytest.raises(VersionNotFoundError, match="versions"):
        graph.changes(since=999, type="Person")
    with pytest.raises(CommitNotFoundError):
        graph.changes(since="01ARZ3NDEKTSV4RRFFQ69G5FAV", type="Person")
    with pytest.raises(InvalidNameError):
        graph.changes(since="yesterday", type="Person")
    with pytest.raises(TypeNotFoundError):
        graph.changes(type="Persn")
    first = graph.history()[-1].id
    with pytest.raises(InvalidOptionError, match="until"):
        graph.changes(since=head(graph).id, until=first, type="Person")


def test_a_commit_of_a_branch_that_was_made_again_is_no_beginning(graph: og.Graph) -> None:
    """RS-40, feed: the new branch of that name never had the commit."""
    graph.create_branch("dev")
    graph.as_branch("dev").write(people(Eve=2), "Person")
    old = graph.at(branch="dev").commit.id
    graph.delete_branch("dev")
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    dev.write(people(Zoe=9), "Person")
    with pytest.raises(CommitNotFoundError):
        dev.changes(since=old, type="Person")


def test_a_feed_ends_at_a_schema_change(tmp_path: Path) -> None:
    """RS-47: across a change of columns the feed is refused; on either side of it, it works."""
    graph = og.open(golden.unpack("schema-evolved", tmp_path), mode="r")
    order = [commit.id for commit in graph.history()]
    boundaries: list[str] = []
    # From each boundary on the feed works up to the next one.
    for _ in range(len(order)):
        since = boundaries[-1] if boundaries else None
        try:
            graph.changes(since=since, type="Person").arrow()
            break
        except SchemaBoundaryError as error:
            boundaries.append(error.commit)
            last = order[order.index(error.commit) + 1]
            graph.changes(since=since, until=last, type="Person").arrow()
    assert len(boundaries) == len(set(boundaries)) > 1


def test_a_feed_over_reclaimed_versions_is_refused(tmp_path: Path) -> None:
    """RS-47: versions that a cleanup removed cannot be compared, which has its own error."""
    graph = og.open(golden.unpack(golden.RECLAIMED, tmp_path), mode="r")
    refused = []
    for key in graph.entries:
        try:
            graph.changes(type=key).arrow()
        except HistoryReclaimedError as error:
            refused.append(error.type)
    assert refused


@pytest.mark.slow
def test_net_changes_are_what_all_changes_come_to(graph: og.Graph) -> None:
    """Laws over a random history: folding a feed gives the net one, however it is cut."""
    chance = random.Random(11)
    versions = [head(graph).manifest_version]
    for _ in range(9):
        names = chance.sample([f"p{number}" for number in range(5)], 2)
        if chance.random() < 0.7:
            graph.write(
                people(**{name: chance.randrange(2) for name in names}), "Person", mode="merge"
            )
        else:
            graph.delete("Person", names)
        versions.append(head(graph).manifest_version)
    for _ in range(4):
        first, middle, last = sorted(chance.sample(versions, 3))
        net = fold(changes(graph, since=first, until=last, net=True))
        assert net == fold(changes(graph, since=first, until=last))
        parts = [
            *changes(graph, since=first, until=middle),
            *changes(graph, since=middle, until=last),
        ]
        assert net == fold(parts)


def fold(feed: Iterable[Change]) -> dict[str, tuple[Any, Any]]:
    """What a feed comes to: the first and the last image of everybody who differs in the end."""
    gone = object()
    images: dict[str, list[Any]] = {}
    for kind, name, age in feed:
        held = images.setdefault(
            name, [age if kind in ("update_preimage", "delete") else gone, gone]
        )
        held[1] = gone if kind in ("update_preimage", "delete") else age
    return {
        name: tuple("nobody" if image is gone else image for image in pair)
        for name, pair in images.items()
        if pair[0] is not pair[1] and pair[0] != pair[1]
    }


def test_many_new_files_are_read_side_by_side(graph: og.Graph) -> None:
    """A commit that only adds rows needs no comparison: its files are tasks of their own."""
    since = head(graph)
    names = pa.table({"name": [f"n{number}" for number in range(40)]})
    graph.write(names, "Person", max_rows_per_file=10)
    feed = graph.refresh().changes(since=since.id, type="Person")
    assert all(task.scan is not None for task in feed._feed.tasks)
    assert feed.arrow().num_rows == 40
