"""The change feed as a data source, without a JVM: options, tasks, and what crosses processes."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    ConflictingOptionsError,
    MissingOptionError,
    VersionNotFoundError,
)
from tests.engine.writing import people, write_staffed
from tests.helpers.sources import read_directly, source


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """The staffed graph after an update, a deletion and an insert."""
    root = tmp_path_factory.mktemp("feed") / "g"
    write_staffed(root)
    graph = og.open(root, actor="ann")
    graph.write(people(Ann=31), "Person", mode="merge")
    graph.delete("Person", ["Bob"])
    graph.write(people(Dan=1), "Person")
    return graph


def read(graph: og.Graph, **options: str) -> list[tuple[str, str]]:
    table = read_directly(source(graph.root, type="Person", **options))
    return [(row["_change_type"], row["name"]) for row in table.to_pylist()]


def test_a_feed_is_read_from_its_first_version_to_its_last(graph: og.Graph) -> None:
    updated = graph.history()[2]
    update = [("update_preimage", "Ann"), ("update_postimage", "Ann")]
    rest = [("delete", "Bob"), ("insert", "Dan")]
    first = str(updated.manifest_version)
    assert read(graph, readChangeFeed="true", startingVersion=first) == update + rest
    assert read(graph, table="changes", startingVersion=updated.id) == update + rest
    assert read(graph, table="changes", startingVersion=first, endingVersion=first) == update
    inserted = sorted(read(graph, readChangeFeed="true"))[-4:]
    assert len(read(graph, readChangeFeed="true")) == 7
    assert ("insert", "Cid") in inserted


def test_a_feed_has_the_columns_of_the_type_and_of_the_commit(graph: og.Graph) -> None:
    schema = source(graph.root, type="Person", readChangeFeed="true").schema()
    assert schema.names[:2] == ["id", "age"]
    assert schema["_commit_timestamp"].dataType.simpleString() == "timestamp"
    assert schema["_commit_version"].dataType.simpleString() == "bigint"
    few = schema.fromJson({"type": "struct", "fields": [schema["_change_type"].jsonValue()]})
    table = read_directly(source(graph.root, type="Person", readChangeFeed="true"), few)
    assert table.num_rows == 7


def test_a_feed_without_changes_is_empty(graph: og.Graph) -> None:
    newest = str(graph.snapshot().manifest_version)
    found = read_directly(source(graph.root, type="Note", table="changes", startingVersion=newest))
    assert found.num_rows == 0


def test_options_that_do_not_fit_a_feed_are_refused(graph: og.Graph) -> None:
    with pytest.raises(MissingOptionError, match="one node or edge type"):
        source(graph.root, readChangeFeed="true").schema()
    with pytest.raises(MissingOptionError, match="startingVersion"):
        source(graph.root, type="Person", startingVersion="1").schema()
    with pytest.raises(ConflictingOptionsError):
        source(graph.root, type="Person", readChangeFeed="true", where="age > 1").schema()
    with pytest.raises(ConflictingOptionsError):
        source(graph.root, type="Person", readChangeFeed="true", table="commits").schema()
    with pytest.raises(VersionNotFoundError):
        source(graph.root, type="Person", readChangeFeed="true", startingVersion="999").schema()


def test_a_feed_stays_with_the_commits_it_was_planned_with(graph: og.Graph, tmp_path: Path) -> None:
    planned = source(graph.root, type="Company", readChangeFeed="true")
    before = read_directly(planned)
    graph.as_branch("main").write(
        before.select(["name"]).slice(0, 1).set_column(0, "name", [["Late"]]), "Company"
    )
    assert read_directly(planned).num_rows == before.num_rows
    assert read_directly(source(graph.root, type="Company", table="changes")).num_rows == (
        before.num_rows + 1
    )
