"""Optimizing: fewer files and complete indexes, the same rows, and no race that loses any."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import RecoveryRequiredError, SchemaApplyInProgressError
from omnigraph_spark.failpoints import Failpoint, arm, disarm
from omnigraph_spark.formats.v4.sidecar import WriterKind, read_sidecar
from omnigraph_spark.maintenance import compacting
from omnigraph_spark.maintenance.compacting import EMPTY_BLOBS
from omnigraph_spark.maintenance.settling import OVERTAKEN
from omnigraph_spark.recovery.sweep import recover
from omnigraph_spark.storage.compacting import plan_compaction
from omnigraph_spark.storage.local_objects import LocalObjects
from tests.engine.recovering import manifest_of
from tests.engine.upkeep_work import (
    CITES,
    DOC,
    assert_answers_agree,
    content,
    dataset,
    docs,
    fragments,
    indexes,
    questions,
    row_facts,
    write_library,
)
from tests.engine.writing import assert_whole, data_files
from tests.helpers.crashes import crashing


@pytest.fixture(scope="module")
def library_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four fragments of docs with indexes, then rows replaced and deleted."""
    root = tmp_path_factory.mktemp("original") / "library"
    graph = write_library(root)
    graph.build_indexes()
    graph.write(docs({"d1": 101, "d20": 120}), "Doc", "merge")
    graph.delete("Doc", ids=["d5"])
    return root


@pytest.fixture
def library(library_root: Path, tmp_path: Path) -> og.Graph:
    return og.open(shutil.copytree(library_root, tmp_path / "library"), actor="ann")


def test_files_become_few_and_rows_stay_who_they_are(library: og.Graph) -> None:
    before, facts, commits = content(library), row_facts(library), library.history()
    done = {each.type_key: each for each in library.optimize()}
    assert content(library) == before
    assert row_facts(library) == facts
    assert len(fragments(library)) == 1
    assert (done[DOC].fragments_removed, done[DOC].fragments_added) == (5, 1)
    assert dataset(library).get_fragments()[0].num_deletions == 0
    assert all(segments == [fragments(library)] for _, segments in indexes(library).values())
    assert_answers_agree(library, DOC, questions([1, 5, 101, 120]))
    assert done["__manifest"].fragments_added == 1
    new = library.history()[: -len(commits)]
    assert {commit.actor for commit in new} == {None}
    assert {commit for each in done.values() for commit in each.commits} == set(new)
    assert library.health() == []
    assert_whole(library)


def test_a_second_time_there_is_nothing_to_do(library: og.Graph) -> None:
    library.optimize()
    commits = len(library.history())
    for each in library.optimize():
        assert (each.fragments_removed, each.indexes, each.skipped) == (0, (), None)
    assert len(library.history()) == commits


def test_readers_of_older_snapshots_are_not_affected(library: og.Graph) -> None:
    held, before = library.snapshot(), content(library)
    library.optimize()
    assert content(held) == before
    for commit in library.history():
        library.snapshot(og.Ref.commit(commit.id)).arrow("Doc")


def test_writing_goes_on_after_it(library: og.Graph) -> None:
    library.optimize()
    library.write(docs({"d1": 201, "d21": 221}), "Doc", "merge")
    library.delete("Doc", where="size = 120")
    assert_answers_agree(library, DOC, questions([1, 101, 120, 201, 221]))
    library.optimize()
    assert_answers_agree(library, DOC, questions([1, 101, 120, 201, 221]))
    assert_whole(library)


def test_a_branch_compacts_what_it_owns_with_the_rows_of_its_parent(library: og.Graph) -> None:
    library.create_branch("dev")
    dev, main_before = library.as_branch("dev"), content(library)
    dev.write(docs({"d2": 300}), "Doc", "merge")
    before, files = content(dev), data_files(Path(library.root))
    done = {each.type_key: each for each in dev.optimize()}
    assert set(done) == {DOC, "__manifest"}
    assert len(fragments(dev)) == 1
    assert content(dev) == before
    assert content(library) == main_before
    assert files <= data_files(Path(library.root))
    assert_whole(dev)


def test_numbers_of_fragments_that_are_gone_are_not_given_again(library: og.Graph) -> None:
    library.optimize()
    library.write(docs({f"d{i}": i + 400 for i in range(21)}), "Doc", "merge")
    seen = fragments(library)
    library.write(docs({"d1": 1}), "Doc", "merge")
    library.optimize()
    assert min(fragments(library)) > max(seen)
    assert_answers_agree(library, DOC, questions([1, 401, 402]))


def test_blobs_are_the_same_afterwards(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", "node Doc { slug: String @key payload: Blob? }")
    for number, payload in enumerate([b"small", bytes(300_000), None, b"x" * 5_000_000]):
        rows = pa.table({"slug": [f"d{number}"], "payload": pa.array([payload], pa.binary())})
        graph.write(rows, "Doc")
    before = content(graph)
    done = {each.type_key: each for each in graph.optimize()}
    assert done[DOC].fragments_added == 1
    assert content(graph) == before


def test_a_type_is_left_alone_where_an_empty_blob_would_become_null(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", "node Doc { slug: String @key payload: Blob? }")
    rows = pa.table({"slug": ["a", "b"], "payload": [b"bytes", b""]})
    graph.write(rows, "Doc")
    graph.write(pa.table({"slug": ["c"], "payload": [b"more"]}), "Doc")
    graph.delete("Doc", ids=["a"])
    before, files = content(graph), data_files(tmp_path)
    assert before[DOC][0]["payload"] == b""
    done = {each.type_key: each for each in graph.optimize()}
    assert done[DOC].skipped == EMPTY_BLOBS
    assert content(graph) == before
    assert data_files(tmp_path) - files == {f for f in data_files(tmp_path) if "_indices" in f}


def interrupt(action: Callable[[], object]) -> Callable[..., object]:
    """A plan of compaction during which something else happens."""

    def planned(*arguments: object) -> object:
        tasks = plan_compaction(*arguments)  # type: ignore[arg-type]
        if arguments[0].path.startswith("nodes/"):  # type: ignore[attr-defined]
            action()
        return tasks

    return planned


@pytest.mark.parametrize("kind", ["append", "merge", "delete", "drift"])
def test_a_write_that_comes_between_wins_and_keeps_its_rows(
    library: og.Graph, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    other = og.open(library.root)
    writes: dict[str, Callable[[], object]] = {
        "append": lambda: other.write(docs({"late": 900}), "Doc"),
        "merge": lambda: other.write(docs({"d2": 900}), "Doc", "merge"),
        "delete": lambda: other.delete("Doc", ids=["d2"]),
        "drift": lambda: dataset(other).update_config({"somebody": "else"}),
    }
    library.build_indexes()
    monkeypatch.setattr(compacting, "plan_compaction", interrupt(writes[kind]))
    files = data_files(Path(library.root))
    if kind == "drift":
        with pytest.raises(og.OmnigraphError, match="OMNIGRAPH_DRIFT"):
            library.optimize()
    else:
        done = {each.type_key: each for each in library.optimize()}
        assert done[DOC].skipped == OVERTAKEN
        assert_whole(library)
    added = data_files(Path(library.root)) - files
    assert len([file for file in added if file.startswith("nodes/") and "/data/" in file]) <= 1
    rows = library.refresh().snapshot().arrow("Doc", columns=["slug", "size"]).to_pylist()
    sizes = {row["slug"]: row["size"] for row in rows}
    expected = {f"d{i}": i for i in range(16) if i != 5} | {"d1": 101, "d20": 120}
    changed = {"append": {"late": 900}, "merge": {"d2": 900}}.get(kind, {})
    expected |= changed
    if kind == "delete":
        del expected["d2"]
    assert sizes == expected


def test_a_commit_that_takes_the_version_first_is_never_lost(library: og.Graph) -> None:
    """Another writer takes the version while ours is about to."""
    other = og.open(library.root)
    library.build_indexes()
    seen: list[int] = []

    def write() -> None:
        disarm()
        dataset(other).delete("id = 'd7'")
        seen.append(dataset(other).version)

    # Edges come first.
    arm(points.SIDECAR_WRITTEN, write, at=2)
    try:
        done = {each.type_key: each for each in library.optimize()}
    finally:
        disarm()
    assert done[DOC].skipped == OVERTAKEN
    assert list(Path(library.root, "__recovery").glob("*.json")) == []
    [ahead] = [finding for finding in library.health() if finding.kind == "head_ahead"]
    assert f"at version {seen[0] + 1}" in ahead.detail, "theirs is the newest, and nothing of ours"


def test_it_waits_for_no_schema_change_and_no_foreign_unfinished_write(library: og.Graph) -> None:
    with crashing(points.SIDECAR_WRITTEN):
        library.optimize()
    # One of our own is recovered first.
    library.optimize()
    assert_whole(library)
    foreign = Path(library.root, "__recovery", "01M7H9P6G1N83EBCHDSPHR9Q6Q.json")
    entry = library.refresh().entries[DOC]
    dataset(library).delete("id = 'd7'")
    dataset_path = f"{library.root}/{entry.path}"
    foreign.write_text(
        f"""{{"schema_version": 2, "operation_id": "{foreign.stem}", "started_at": "1",
        "branch": null, "actor_id": null, "writer_kind": "Load", "tables": [{{"table_key": "{DOC}",
        "table_path": "{dataset_path}", "expected_version": {entry.dataset_version - 1},
        "post_commit_pin": {entry.dataset_version}}}]}}"""
    )
    with pytest.raises(RecoveryRequiredError):
        library.optimize()
    foreign.unlink()
    lance.dataset(f"{library.root}/__manifest").create_branch("__schema_apply_lock__")
    for call in (library.optimize, library.build_indexes):
        with pytest.raises(SchemaApplyInProgressError):
            call()


#: Every step of one landing that leaves something behind, and how it is recovered.
STEPS: list[tuple[Failpoint, str | None]] = [
    (points.BEFORE_SIDECAR, None),
    (points.SIDECAR_WRITTEN, "RolledBack"),
    (points.DATASET_COMMITTED, "RolledForward"),
    (points.BEFORE_PUBLISH, "RolledForward"),
    (points.PUBLISH_LANDED, "RolledForward"),
    (points.AFTER_PUBLISH, "RolledForward"),
    (points.SIDECAR_DELETED, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("point", "kind"), STEPS, ids=lambda value: getattr(value, "name", None))
@pytest.mark.parametrize("what", ["compaction", "indexes"])
def test_a_process_that_dies_at_any_step_leaves_a_graph_that_is_as_good(
    library: og.Graph, what: str, point: Failpoint, kind: str | None
) -> None:
    before = content(library)
    if what == "compaction":
        library.build_indexes()
    with crashing(point):
        library.optimize()
    store, manifest = LocalObjects(), manifest_of(Path(library.root))
    left = [path.stem for path in Path(library.root, "__recovery").glob("*.json")]
    for operation_id in left:
        sidecar = read_sidecar(library.root, store, operation_id)
        assert sidecar is not None
        assert (sidecar.writer, sidecar.actor) == (WriterKind.OPTIMIZE, None)
        assert len(sidecar.pins) == 1
    recovered = recover(manifest)
    assert [str(done.kind) for done in recovered] == ([] if kind is None else [kind])
    assert content(library) == before
    assert_whole(library)
    assert_answers_agree(library, DOC, questions([1, 5, 101]))
    library.optimize()
    assert content(library) == before
    assert len(fragments(library)) == 1
    assert len(fragments(library, CITES)) == 1
    assert_whole(library)
