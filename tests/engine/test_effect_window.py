"""Another writer, who takes no lock, inside the few moments in which our datasets move."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.clock import new_ulid, now_us
from omnigraph_spark.errors import (
    ConflictError,
    ConstraintViolationError,
    DriftError,
    ForeignCommitError,
    KeyConflictError,
    OmnigraphError,
    RecoveryRequiredError,
    StorageError,
)
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.formats.v4.sidecar import Sidecar, SidecarPin, WriterKind, write_sidecar
from omnigraph_spark.recovery.sweep import heal
from omnigraph_spark.storage.datasets import PinnedDataset
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.writing import write as writing
from tests.engine.recovering import reached
from tests.engine.writing import (
    COMPANY,
    KNOWS,
    NOTE,
    PERSON,
    assert_whole,
    edges,
    heads,
    ids,
    people,
    transact,
)
from tests.helpers.builder import GraphBuilder

#: Companies land before people. Whoever keeps to the format does not write on top of a version
#: that nobody published, so a dataset that has landed is left alone.
BEFORE_PEOPLE = [points.SIDECAR_WRITTEN, points.DATASET_COMMITTED]
WINDOW = [*BEFORE_PEOPLE, points.BEFORE_PUBLISH]

pytestmark = pytest.mark.slow


def name_of(value: Failpoint | str) -> str:
    return value if isinstance(value, str) else value.name


@pytest.fixture
def other(graph: og.Graph) -> GraphBuilder:
    """A writer that keeps to the format and knows nothing of locks, like the engine."""
    return GraphBuilder.open(Path(graph.root))


def write_both(graph: og.Graph) -> og.Commit | None:
    return transact(
        graph,
        lambda tx: tx.append("Company", pa.table({"name": ["Globex"]})),
        lambda tx: tx.append("Person", people(Dan=1)),
    )


def publish(other: GraphBuilder, type_key: str, row: Mapping[str, object]) -> None:
    """Write a row as others do."""
    other.write({type_key: [row]})


def leave(other: GraphBuilder, type_key: str, row: Mapping[str, object]) -> None:
    """Write a row and publish nothing."""
    other.append(type_key, [row])


def foreign_rows(graph: og.Graph, type_key: str) -> list[str]:
    """What the newest version of a dataset holds, whether anybody sees it or not."""
    dataset = lance.dataset(str(Path(graph.root, graph.entries[type_key].path)))
    return sorted(map(str, dataset.to_table(columns=["id"]).column("id").to_pylist()))


@pytest.mark.parametrize("point", BEFORE_PEOPLE, ids=name_of)
def test_a_key_that_is_taken_after_the_first_table_landed_takes_all_of_it_back(
    graph: og.Graph, other: GraphBuilder, point: Failpoint
) -> None:
    """RS-24: companies land first, then somebody takes the person's key."""
    with (
        reached(point, lambda: publish(other, PERSON, {"name": "Dan", "age": 99})),
        pytest.raises(KeyConflictError, match="'Dan'"),
    ):
        write_both(graph)
    assert ids(graph.refresh(), "Company") == ["Acme", "Umbra"]
    assert graph.entity("Person", "Dan") is not None
    assert_whole(graph)
    graph.write(pa.table({"name": ["Globex"]}), "Company")
    assert_whole(graph)


@pytest.mark.parametrize(
    ("point", "type_key"),
    [*((point, PERSON) for point in BEFORE_PEOPLE), *((point, NOTE) for point in WINDOW)],
    ids=name_of,
)
def test_rows_that_another_published_meanwhile_stay_beside_ours(
    graph: og.Graph, other: GraphBuilder, point: Failpoint, type_key: str
) -> None:
    """RS-25: a winner keeps its rows, and ours land on top, in the same table or beside it."""
    row = {"id": "Theirs", "name": "Theirs", "text": "theirs"}
    with reached(point, lambda: publish(other, type_key, row)):
        write_both(graph)
    assert "Theirs" in ids(graph.refresh(), type_key)
    assert {"Ann", "Bob", "Cid", "Dan"} <= set(ids(graph, "Person"))
    assert ids(graph, "Company") == ["Acme", "Globex", "Umbra"]
    assert_whole(graph)


@pytest.mark.parametrize(
    ("point", "type_key"),
    [*((point, PERSON) for point in BEFORE_PEOPLE), (points.SIDECAR_WRITTEN, COMPANY)],
    ids=name_of,
)
def test_a_commit_that_nobody_published_is_not_written_over(
    graph: og.Graph, other: GraphBuilder, point: Failpoint, type_key: str
) -> None:
    """RS-25: it takes the version that ours would have had, so ours is refused or taken back."""
    with (
        reached(point, lambda: leave(other, type_key, {"name": "Stray"})),
        pytest.raises(DriftError, match=type_key),
    ):
        write_both(graph)
    assert "Stray" in foreign_rows(graph, type_key)
    assert ids(graph.refresh(), "Person") == ["Ann", "Bob", "Cid"]
    assert ids(graph, "Company") == ["Acme", "Umbra"]
    pins = {key: found for key, found in heads(graph).items() if key != "__manifest"}
    behind = {key for key, (pinned, head) in pins.items() if pinned != head}
    assert behind == {type_key}
    assert list(Path(graph.root, "__recovery").glob("*.json")) == []


def test_what_a_version_names_that_was_taken_back_stays_when_a_later_attempt_moves_nothing(
    graph: og.Graph, other: GraphBuilder
) -> None:
    """RS-25: companies land and are taken back; planned again, the stray commit refuses it all."""
    pinned = graph.entries[COMPANY].dataset_version
    with (
        reached(points.DATASET_COMMITTED, lambda: leave(other, PERSON, {"name": "Stray"})),
        pytest.raises(DriftError, match=PERSON),
    ):
        write_both(graph)
    dataset = str(Path(graph.root, graph.entries[COMPANY].path))
    assert lance.dataset(dataset).version > pinned + 1, "it was taken back"
    landed = lance.dataset(dataset, version=pinned + 1).to_table(columns=["name"])
    assert "Globex" in landed.column("name").to_pylist()


def test_a_commit_on_top_of_ours_survives_and_stops_the_next_writer(
    graph: og.Graph, other: GraphBuilder
) -> None:
    """RS-25: ours was whole, so it is published; theirs is there for whoever repairs."""

    def stray() -> None:
        dataset = lance.dataset(str(Path(graph.root, graph.entries[COMPANY].path)))
        dataset.insert(dataset.to_table().slice(0, 1))

    with reached(points.BEFORE_PUBLISH, stray):
        assert write_both(graph) is not None
    assert ids(graph.refresh(), "Company") == ["Acme", "Globex", "Umbra"]
    assert len(foreign_rows(graph, COMPANY)) == 4
    with pytest.raises(DriftError, match="version 4 but the manifest pins 3"):
        graph.write(pa.table({"name": ["Initech"]}), "Company")
    graph.write(people(Eve=1), "Person")


@pytest.mark.parametrize("point", [points.DATASET_COMMITTED, points.BEFORE_PUBLISH], ids=name_of)
def test_what_another_publishes_of_ours_with_its_own_is_followed_by_the_rest(
    graph: og.Graph, other: GraphBuilder, point: Failpoint
) -> None:
    """RS-25, RS-27: the engine may go on on top of companies that landed, and publish them."""
    with reached(point, lambda: publish(other, COMPANY, {"name": "Theirs"})):
        commit = write_both(graph)
    assert commit is not None
    assert ids(graph.refresh(), "Company") == ["Acme", "Globex", "Theirs", "Umbra"]
    assert "Dan" in ids(graph, "Person")
    assert commit.id in [each.id for each in graph.history()]
    assert_whole(graph)
    graph.write(people(Eve=1), "Person")
    assert_whole(graph)


def test_a_part_of_ours_that_another_published_is_told_when_the_rest_cannot_follow(
    graph: og.Graph, other: GraphBuilder
) -> None:
    """RS-25, RS-27: nothing says that nothing became visible, and nothing of theirs is lost."""

    def both() -> None:
        publish(other, COMPANY, {"name": "Theirs"})
        publish(other, PERSON, {"name": "Theirs", "age": 1})

    with (
        reached(points.DATASET_COMMITTED, both),
        pytest.raises(RecoveryRequiredError, match="node:Company, whose new rows another"),
    ):
        write_both(graph)
    assert ids(graph.refresh(), "Company") == ["Acme", "Globex", "Theirs", "Umbra"]
    assert ids(graph, "Person") == ["Ann", "Bob", "Cid", "Theirs"]
    with pytest.raises(ForeignCommitError, match="recover"):
        graph.write(people(Eve=1), "Person")
    graph.recover(force=True)
    graph.write(people(Eve=1), "Person")
    assert_whole(graph)


def test_a_writer_without_a_lock_that_begins_to_land_is_not_taken_for_drift(
    graph: og.Graph, other: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-27: its sidecar and its commit come after we looked for unfinished writes."""
    store = objects_at(graph.root, StorageSettings())
    entry = graph.entries[PERSON]
    pin = SidecarPin(PERSON, f"{graph.root}/{entry.path}", entry.dataset_version, 3)
    sidecar = Sidecar(new_ulid(), now_us(), WriterKind.LOAD, (pin,))
    looks: list[str] = []

    def heal_then_land(*args: Any, **kwargs: Any) -> Any:
        healed = heal(*args, **kwargs)
        if not looks:
            write_sidecar(graph.root, store, sidecar)
            leave(other, PERSON, {"name": "Theirs", "age": 1})
        looks.append("looked")
        return healed

    monkeypatch.setattr(writing, "heal", heal_then_land)
    assert write_both(graph) is not None
    assert len(looks) > 1
    assert ids(graph.refresh(), "Person") == ["Ann", "Bob", "Cid", "Dan", "Theirs"]
    assert_whole(graph)


# -- write skew ------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", WINDOW, ids=name_of)
def test_an_edge_to_a_node_that_is_deleted_meanwhile_never_becomes_visible(
    graph: og.Graph, other: GraphBuilder, point: Failpoint
) -> None:
    """RS-22: the datasets are different, and nothing but the expectations meets."""

    def delete_dan() -> None:
        other.delete(PERSON, "name = 'Dan'")
        other.publish()

    graph.write(people(Dan=1), "Person")
    with (
        reached(point, delete_dan),
        pytest.raises(ConstraintViolationError, match="dst 'Dan'"),
    ):
        graph.write(edges(k9="Ann-Dan"), "Knows")
    assert ids(graph.refresh(), "Knows") == ["k1", "k2", "k3"]
    assert_whole(graph)


@pytest.mark.parametrize("told", ["fail", "rebase"])
@pytest.mark.parametrize("point", WINDOW, ids=name_of)
def test_a_node_that_gets_an_edge_meanwhile_is_not_deleted_from_under_it(
    graph: og.Graph, other: GraphBuilder, point: Failpoint, told: str
) -> None:
    """RS-22, the other way round."""
    graph.write(people(Dan=1), "Person")
    row = {"id": "k9", "src": "Ann", "dst": "Dan"}
    with reached(point, lambda: publish(other, KNOWS, row)):
        if told == "fail":
            with pytest.raises(ConflictError):
                graph.delete("Person", ids=["Dan"], on_conflict=told)
        else:
            graph.delete("Person", ids=["Dan"], on_conflict=told)
    gone = told == "rebase"
    assert ("Dan" in ids(graph.refresh(), "Person")) != gone
    assert ("k9" in ids(graph, "Knows")) != gone
    assert_whole(graph)


@pytest.mark.parametrize("point", [points.BEFORE_PUBLISH], ids=name_of)
def test_a_manifest_that_cannot_be_read_for_a_moment_leaves_the_moved_rows_to_recovery(
    graph: og.Graph, other: GraphBuilder, point: Failpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-14: another publish makes ours look again, and then the disk does not answer."""

    def fail(*_: object) -> None:
        raise StorageError("permanent", graph.root, "too many open files")

    def overtake() -> None:
        publish(other, NOTE, {"id": "Theirs", "text": "theirs"})
        monkeypatch.setattr(PinnedDataset, "table", fail)

    with reached(point, overtake), pytest.raises(OmnigraphError):
        write_both(graph)
    monkeypatch.undo()
    graph.recover()
    graph.refresh()
    # All of it or nothing, and what is visible can be read.
    there = "Globex" in ids(graph, "Company")
    assert ("Dan" in ids(graph, "Person")) == there
    assert "Theirs" in ids(graph, "Note")
    assert_whole(graph)
    transact(graph, lambda tx: tx.merge("Person", people(Dan=2)))
    assert_whole(graph)
