"""One write to the manifest makes a commit visible, against whatever else happens meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph_spark as og
from omnigraph_spark import clock
from omnigraph_spark import publish as door
from omnigraph_spark.compaction import FRAGMENTS_KEPT, compact_manifest
from omnigraph_spark.errors import (
    BranchNotFoundError,
    ConflictError,
    ExpectedVersionError,
    HeadMovedError,
    OutcomeUnknownError,
    StorageError,
    TypeNotFoundError,
)
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.names import CommitRef
from omnigraph_spark.publish import (
    Change,
    PublishVersion,
    RegisterType,
    TombstoneType,
    find_repeat,
    publish,
)
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage import manifest_writer
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.fence import LandedVersion, landed_version
from omnigraph_spark.storage.manifest_writer import Landed, LostRace
from omnigraph_spark.storage.settings import StorageSettings
from tests.engine.graphs import COMPANY, PERSON, ages, write_social
from tests.engine.race_work import (
    intent,
    manifest_of,
    publish_empty,
    publish_on_branch,
    publish_once,
    publish_or_compact,
    publish_pin,
)
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder, Pin
from tests.helpers.engine import engine_export, engine_json, run_engine
from tests.helpers.racers import Racers
from tests.helpers.s3 import S3Server

SETTINGS = StorageSettings()
ROUNDS = 25


def pinned(root: Path, pin: Pin) -> PublishVersion:
    """A moved dataset as a change."""
    address = DatasetAddress(str(root), pin.path, pin.branch)
    landed = landed_version(address, pin.version, SETTINGS)
    return PublishVersion(pin.type_key, landed, pin.branch, pin.rows)


def version_of(manifest: Manifest, type_key: str = PERSON, branch: str = "main") -> int:
    return manifest.head(branch).entries[type_key].dataset_version


def raw_rows(root: Path, branch: str = "main") -> list[dict[str, Any]]:
    manifest = GraphBuilder.open(root).manifest(branch)
    rows: list[dict[str, Any]] = manifest.to_table().to_pylist()
    return rows


def assert_one_line(root: Path, published: Iterable[str]) -> list[Commit]:
    """Every commit is there once, each the parent of the next, on versions that rise."""
    rows = [row for row in raw_rows(root) if row["object_type"] == "graph_commit"]
    ids = Counter(row["object_id"] for row in rows)
    assert set(published) <= set(ids)
    assert set(ids.values()) == {1}
    commits = manifest_of(root).head().lineage.commits
    assert [commit.parent_id for commit in commits[1:]] == [commit.id for commit in commits[:-1]]
    versions = [commit.manifest_version for commit in commits]
    assert versions == sorted(set(versions))
    heads = [row for row in raw_rows(root) if row["object_id"] == "graph_head:main"]
    assert [json.loads(row["metadata"])["head_commit_id"] for row in heads] == [commits[-1].id]
    return list(commits)


# -- what a publish does ---------------------------------------------------------------------------


def test_a_publish_shows_what_landed_with_its_commit(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    before = manifest.head()
    pin = social.append(PERSON, [{"name": "Dave", "age": 50}])
    assert "Dave" not in ages(og.open(str(social.root)))
    commit = publish(
        manifest,
        "main",
        [pinned(social.root, pin)],
        {PERSON: version_of(manifest), COMPANY: version_of(manifest, COMPANY)},
        intent(actor="ann"),
    )
    graph = og.open(str(social.root))
    assert ages(graph)["Dave"] == 50
    assert graph.history(1) == [commit]
    assert before.lineage.head is not None
    assert commit == Commit(
        id=commit.id,
        branch="main",
        manifest_version=before.version + 1,
        parent_id=before.lineage.head.id,
        merged_parent_id=None,
        actor="ann",
        created_at_us=commit.created_at_us,
    )
    assert manifest.head().version == before.version + 1


def test_a_publish_without_changes_is_a_commit(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    entries = manifest.head().entries
    first = publish(manifest, "main", [], {}, intent())
    second = publish(manifest, "main", [], {}, intent(), if_head=first.id)
    assert second.parent_id == first.id
    now = manifest.head().entries
    assert {key: entry.dataset_version for key, entry in now.items()} == {
        key: entry.dataset_version for key, entry in entries.items()
    }


def test_a_merge_commit_names_both_parents(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    other = clock.new_ulid()
    commit = publish(manifest, "main", [], {}, replace(intent(), merged_parent_id=other))
    assert commit.merged_parent_id == other
    assert manifest.head().lineage.head == commit


def test_types_are_registered_and_ended(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    made = social.append(COMPANY, [{"name": "Globex"}])
    city = PublishVersion("node:City", pinned(social.root, made).landed, None, made.rows)
    last = version_of(manifest)
    publish(
        manifest,
        "main",
        # In any order: registrations are written first.
        [TombstoneType(PERSON, last + 1), city, RegisterType("node:City", made.path)],
        {PERSON: last, "node:City": 0},
        intent(),
    )
    entries = manifest.head().entries
    assert PERSON not in entries
    assert entries["node:City"].path == made.path
    # An ended type is at its tombstone.
    publish(manifest, "main", [], {PERSON: last + 1}, intent())


def test_a_pin_is_handed_over_to_another_dataset_branch_in_place(social: GraphBuilder) -> None:
    social.create_branch("dev")
    manifest = manifest_of(social.root)
    entry = manifest.head("dev").entries[PERSON]
    lance.dataset(str(social.root / entry.path)).create_branch("dev", entry.dataset_version)
    own = Pin(PERSON, entry.path, entry.dataset_version, entry.rows, "dev")
    publish(manifest, "dev", [pinned(social.root, own)], {}, intent())
    assert manifest.head("dev").entries[PERSON].dataset_branch == "dev"
    assert manifest.head().entries[PERSON].dataset_branch is None
    ids = [row["object_id"] for row in raw_rows(social.root, "dev")]
    assert len(ids) == len(set(ids))


def test_changes_that_contradict_the_manifest_are_refused(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    entry = manifest.head().entries[PERSON]
    address = DatasetAddress(str(social.root), entry.path)
    now = entry.dataset_version

    def landed(version: int) -> LandedVersion:
        return replace(landed_version(address, now, SETTINGS), number=version)

    same, lower, higher = (
        PublishVersion(PERSON, landed(v), None, entry.rows) for v in (now, now - 1, now + 1)
    )
    refused: list[tuple[list[Change], type[Exception], str]] = [
        ([same], ConflictError, f"at version {now} already"),
        ([lower], ConflictError, f"at version {now} already"),
        ([replace(same, dataset_branch="dev", rows=99)], ConflictError, "already"),
        ([RegisterType(PERSON, "nodes/elsewhere")], ConflictError, "registered at"),
        ([TombstoneType(PERSON, now - 1)], ConflictError, "cannot end"),
        ([TombstoneType("node:None", 1)], TypeNotFoundError, "node:None"),
        ([replace(higher, type_key="node:None")], TypeNotFoundError, "node:None"),
        ([higher, replace(higher, rows=1)], ValueError, "twice"),
    ]
    version = manifest.newest()
    for changes, error, text in refused:
        with pytest.raises(error, match=text):
            publish(manifest, "main", changes, {}, intent())
    assert manifest.newest() == version
    # The same path again says nothing new and is fine.
    publish(manifest, "main", [RegisterType(PERSON, entry.path)], {}, intent())
    assert manifest.head().entries[PERSON].path == entry.path


# -- what must still hold --------------------------------------------------------------------------


def test_a_broken_expectation_names_the_commit_that_won(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    planned = version_of(manifest)
    winner = social.write({PERSON: [{"name": "Dave", "age": 50}]})
    social.write({COMPANY: [{"name": "Globex"}]})
    before = manifest.newest()
    with pytest.raises(ExpectedVersionError) as caught:
        publish(manifest, "main", [], {COMPANY: 3, PERSON: planned}, intent())
    error = caught.value
    assert (error.type, error.expected, error.actual) == (PERSON, planned, planned + 1)
    assert error.winner == winner
    for part in (PERSON, str(planned), str(planned + 1), winner):
        assert part in str(error)
    assert manifest.newest() == before


def test_the_winner_is_found_after_a_compaction_and_on_a_branch(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    planned = version_of(manifest)
    winner = social.write({PERSON: [{"name": "Dave", "age": 50}]})
    assert compact_manifest(manifest)
    social.create_branch("dev")
    social.write({COMPANY: [{"name": "Globex"}]}, branch="dev")
    for branch in ("main", "dev"):
        with pytest.raises(ExpectedVersionError) as caught:
            publish(manifest, branch, [], {PERSON: planned}, intent())
        assert caught.value.winner == winner


def test_an_unknown_type_is_expected_at_zero(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    publish(manifest, "main", [], {"node:New": 0}, intent())
    with pytest.raises(ExpectedVersionError) as caught:
        publish(manifest, "main", [], {"node:New": 3}, intent())
    assert (caught.value.actual, caught.value.winner) == (0, None)


def test_a_head_that_moved_is_refused(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    head = manifest.head().lineage.head
    assert head is not None
    now = publish(manifest, "main", [], {}, intent(), if_head=head.id)
    with pytest.raises(HeadMovedError, match=f"{now.id}, not at {head.id}"):
        publish(manifest, "main", [], {}, intent(), if_head=head.id)


def test_a_branch_that_is_gone_is_said_so(social: GraphBuilder) -> None:
    with pytest.raises(BranchNotFoundError):
        publish(manifest_of(social.root), "dev", [], {}, intent())


# -- doing a thing once ----------------------------------------------------------------------------


def test_repeated_work_is_found_and_not_published_again(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    planned = version_of(manifest)
    pin = social.append(PERSON, [{"name": "Dave", "age": 50}])
    change = pinned(social.root, pin)
    first = publish(
        manifest, "main", [change], {PERSON: planned}, intent(clock.derived_ulid("etl", "7"))
    )
    publish(manifest, "main", [], {}, intent())
    version = manifest.newest()
    again = clock.derived_ulid("etl", "7")
    assert find_repeat(manifest.head(), again) == first
    # Even though what it was planned on holds no more.
    repeat = publish(manifest, "main", [change], {PERSON: planned}, intent(again), first.parent_id)
    assert repeat == first
    assert manifest.newest() == version
    assert find_repeat(manifest.head(), clock.derived_ulid("etl", "8")) is None


def test_work_of_a_parent_branch_is_found_on_its_branches(social: GraphBuilder) -> None:
    manifest = manifest_of(social.root)
    first = publish(manifest, "main", [], {}, intent(clock.derived_ulid("etl", "1")))
    social.create_branch("dev")
    assert publish(manifest, "dev", [], {}, intent(clock.derived_ulid("etl", "1"))) == first


# -- races -----------------------------------------------------------------------------------------


def test_racing_publishers_make_one_line_of_commits(social: GraphBuilder, racers: Racers) -> None:
    root = str(social.root)
    before = len(manifest_of(root).head().lineage.commits)
    ours, theirs = racers.run(publish_empty, (root,), (root,), rounds=ROUNDS)
    commits = assert_one_line(social.root, [*ours, *theirs])
    assert len(commits) == before + 2 * ROUNDS


def test_of_racing_publishers_of_one_type_one_wins_each_round(
    social: GraphBuilder, racers: Racers
) -> None:
    pins = [
        pinned(social.root, social.append(PERSON, [{"name": f"P{i}", "age": i}]))
        for i in range(ROUNDS)
    ]
    before = len(manifest_of(social.root).head().lineage.commits)
    root = str(social.root)
    answers = racers.run(publish_pin, (root, pins), (root, pins), rounds=ROUNDS)
    for ours, theirs in zip(*answers, strict=True):
        # Exactly one lost, and was told by whom.
        (winner, none), (_, told) = sorted((ours, theirs), key=lambda answer: bool(answer[1]))
        assert (none, told) == (None, winner)
    commits = assert_one_line(social.root, [])
    assert len(commits) == before + ROUNDS
    assert len(ages(og.open(root))) == 3 + ROUNDS


def test_racing_repeats_are_one_commit(social: GraphBuilder, racers: Racers) -> None:
    root = str(social.root)
    before = len(manifest_of(root).head().lineage.commits)
    ours, theirs = racers.run(publish_once, (root,), (root,), rounds=ROUNDS)
    assert ours == theirs
    assert len(assert_one_line(social.root, ours)) == before + ROUNDS


def test_racing_first_commits_of_a_branch_collide_too(social: GraphBuilder, racers: Racers) -> None:
    """There is no head row yet to update: both insert it."""
    for number in range(ROUNDS):
        social.create_branch(f"b{number}")
    root = str(social.root)
    racers.run(publish_on_branch, (root,), (root,), rounds=ROUNDS)
    manifest = manifest_of(root)
    main = manifest.head().lineage.commits
    for number in range(ROUNDS):
        commits = manifest.head(f"b{number}").lineage.commits
        assert len(commits) == len(main) + 2
        assert [c.parent_id for c in commits[1:]] == [c.id for c in commits[:-1]]
        ids = [row["object_id"] for row in raw_rows(social.root, f"b{number}")]
        assert len(ids) == len(set(ids))


class Contention:
    """Lets another commit land before each of the first attempts."""

    def __init__(self, social: GraphBuilder, times: int) -> None:
        self.social, self.times, self.attempts = social, times, 0
        self.merge = manifest_writer.merge_rows

    def __call__(self, *args: Any) -> Landed | LostRace:
        self.attempts += 1
        if self.attempts <= self.times:
            self.social.publish({})
        return self.merge(*args)


def test_contention_is_retried_five_times(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    contention = Contention(social, times=5)
    monkeypatch.setattr(door, "merge_rows", contention)
    commit = publish(manifest_of(social.root), "main", [], {}, intent())
    assert contention.attempts == 6
    assert assert_one_line(social.root, [commit.id])[-1] == commit


def test_contention_beyond_the_budget_is_a_conflict(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    contention = Contention(social, times=6)
    monkeypatch.setattr(door, "merge_rows", contention)
    lineage = intent()
    with pytest.raises(ConflictError, match="6 attempts") as caught:
        publish(manifest_of(social.root), "main", [], {}, lineage)
    assert caught.type is ConflictError
    assert contention.attempts == 6
    assert manifest_of(social.root).head().lineage.find(lineage.commit_id) is None


def test_a_loser_checks_its_expectations_again(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = manifest_of(social.root)
    planned = version_of(manifest)
    social.append(PERSON, [{"name": "Dave", "age": 50}])
    contention = Contention(social, times=1)
    monkeypatch.setattr(social, "publish", lambda _: GraphBuilder.publish(social))
    monkeypatch.setattr(door, "merge_rows", contention)
    with pytest.raises(ExpectedVersionError):
        publish(manifest, "main", [], {PERSON: planned}, intent())
    assert contention.attempts == 1


# -- lost answers ----------------------------------------------------------------------------------


def failing(target: str, *, after: bool, kind: str = "unknown") -> Any:
    def merge_rows(*args: Any) -> Landed | LostRace:
        if after:
            manifest_writer.merge_rows(*args)
        raise StorageError(kind, target, "connection reset")

    return merge_rows


def test_a_publish_whose_answer_was_lost_is_found(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = manifest_of(social.root)
    monkeypatch.setattr(door, "merge_rows", failing("", after=True))
    commit = publish(manifest, "main", [], {}, intent())
    assert_one_line(social.root, [commit.id])


def test_a_publish_that_failed_is_a_failure_and_nothing_more(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = manifest_of(social.root)
    before = manifest.newest()
    monkeypatch.setattr(door, "merge_rows", failing("here", after=False))
    with pytest.raises(StorageError, match="connection reset"):
        publish(manifest, "main", [], {}, intent())
    assert manifest.newest() == before


def test_an_outcome_nobody_can_see_is_unknown(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lineage = intent()

    def hide(*args: Any) -> Landed:
        (social.root / "__manifest").rename(social.root / "hidden")
        raise StorageError("unknown", "", "connection reset")

    monkeypatch.setattr(door, "merge_rows", hide)
    with pytest.raises(OutcomeUnknownError, match="connection reset") as caught:
        publish(manifest_of(social.root), "main", [], {}, lineage)
    assert caught.value.commit == lineage.commit_id


def test_on_an_object_store_a_lost_answer_may_still_come_true(
    social: GraphBuilder, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = s3.upload(social.root, f"s3://{s3.make_bucket()}/social")
    manifest = Manifest(root, StorageSettings.resolve(s3.storage_options))
    first = publish(manifest, "main", [], {}, intent())
    assert manifest.head().lineage.head == first
    monkeypatch.setattr(door, "merge_rows", failing(root, after=True))
    assert publish(manifest, "main", [], {}, intent()).parent_id == first.id
    monkeypatch.setattr(door, "merge_rows", failing(root, after=False))
    with pytest.raises(OutcomeUnknownError):
        publish(manifest, "main", [], {}, intent())
    monkeypatch.setattr(door, "merge_rows", failing(root, after=False, kind="permission"))
    with pytest.raises(StorageError):
        publish(manifest, "main", [], {}, intent())


# -- branches, moved graphs, compaction ------------------------------------------------------------


def test_a_branch_moves_alone(social: GraphBuilder) -> None:
    social.create_branch("team/x")
    manifest = manifest_of(social.root)
    main = manifest.newest()
    pin = social.append(PERSON, [{"name": "Dave", "age": 50}], branch="team/x")
    first = publish(manifest, "team/x", [pinned(social.root, pin)], {PERSON: 3}, intent())
    second = publish(manifest, "team/x", [], {PERSON: 4}, intent())
    assert (first.branch, second.parent_id) == ("team/x", first.id)
    assert manifest.newest() == main
    assert "Dave" in ages(og.open(str(social.root), branch="team/x"))
    assert "Dave" not in ages(og.open(str(social.root)))


@pytest.mark.parametrize("branch", ["feature", "feature-sub", "team/x", "main"])
def test_a_branch_of_a_moved_graph_is_written_at_its_new_place(branch: str, tmp_path: Path) -> None:
    root = golden.unpack("branches", tmp_path)
    manifest = manifest_of(root)
    before = golden.Expected("branches").snapshot(branch)
    commit = publish(manifest, branch, [], {}, intent())
    second = publish(manifest, branch, [], {}, intent(), if_head=commit.id)
    assert manifest.head(branch).version == before["manifest_version"] + 2
    assert manifest.head(branch).lineage.head == second
    address = manifest.address(branch)
    bases = [base.path for base in lance.dataset(address.uri).base_paths().values()]
    assert all(base.startswith(str(root)) for base in bases)
    assert len(bases) == {"main": 0, "feature-sub": 2}.get(branch, 1)
    assert compact_manifest(manifest, branch)
    entries = manifest.head(branch).entries
    assert {(e.type_key.name, e.dataset_version) for e in entries.values()} == {
        (table["table_key"].split(":")[1], table["table_version"]) for table in before["tables"]
    }


@pytest.mark.slow
def test_the_manifest_is_compacted_about_every_fifty_publishes(tmp_path: Path) -> None:
    social = write_social(tmp_path / "social")
    manifest = manifest_of(social.root)
    pinned_snapshot = og.open(str(social.root)).snapshot()
    early = manifest.head()
    most, compacted, commits = 0, 0, []
    last = len(social.manifest().get_fragments())
    for _ in range(FRAGMENTS_KEPT + 5):
        commits.append(publish(manifest, "main", [], {}, intent()))
        now = len(social.manifest().get_fragments())
        compacted += now < last
        most, last = max(most, now), now
    assert compacted == 1
    assert most < FRAGMENTS_KEPT
    assert_one_line(social.root, [commit.id for commit in commits])
    # A compaction takes one version, and no commit's number is off.
    assert manifest.newest().number == early.version + len(commits) + compacted
    reader = GraphReader.open(str(social.root), SETTINGS)
    for commit in commits:
        state = manifest.at("main", commit.manifest_version)
        assert state.lineage.head == commit
    assert reader.resolve(CommitRef(commits[0].id)).commit == commits[0]
    # Whoever reads an older version goes on doing so.
    assert ages(pinned_snapshot) == {"Alice": 30, "Bob": 41, "Carol": 7}
    assert manifest.at("main", early.version).entries == early.entries


def test_a_compaction_that_races_a_publisher_is_harmless(
    social: GraphBuilder, racers: Racers
) -> None:
    root = str(social.root)
    before = len(manifest_of(root).head().lineage.commits)
    published, compacted = racers.run(
        publish_or_compact, ("publish", root), ("compact", root), rounds=ROUNDS
    )
    commits = assert_one_line(social.root, [str(commit) for commit in published])
    assert len(commits) == before + ROUNDS
    for commit in commits:
        assert manifest_of(root).at("main", commit.manifest_version).lineage.head == commit
    lance.dataset(str(social.root / "__manifest")).validate()
    assert any(compacted)
    # A compaction that lost deleted what it had written.
    named = {
        file.path
        for version in range(1, manifest_of(root).newest().number + 1)
        for fragment in lance.dataset(root + "/__manifest", version=version).get_fragments()
        for file in fragment.metadata.files
    }
    assert {path.name for path in (social.root / "__manifest" / "data").iterdir()} == named


def test_a_compaction_that_fails_does_not_fail_the_publish(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Landed:
        raise StorageError("unknown", "", "disk full")

    monkeypatch.setattr("omnigraph_spark.compaction.compact_fragments", fail)
    monkeypatch.setattr("omnigraph_spark.compaction.FRAGMENTS_KEPT", 1)
    commit = publish(manifest_of(social.root), "main", [], {}, intent())
    assert manifest_of(social.root).head().lineage.head == commit


# -- the released engine ---------------------------------------------------------------------------


@pytest.mark.engine
def test_the_engine_reads_and_extends_what_was_published(social: GraphBuilder) -> None:
    root = social.root
    manifest = manifest_of(root)
    pin = social.append(PERSON, [{"name": "Dave", "age": 50}])
    commit = publish(manifest, "main", [pinned(root, pin)], {PERSON: 3}, intent(actor="ann"))
    social.create_branch("dev")
    pin = social.append(PERSON, [{"name": "Eve", "age": 6}], branch="dev")
    publish(manifest, "dev", [pinned(root, pin)], {PERSON: 4}, intent())
    assert compact_manifest(manifest)
    assert compact_manifest(manifest, "dev")
    listed = engine_json("commit", "list", root)["commits"]
    assert listed[-1]["graph_commit_id"] == commit.id
    assert listed[-1]["actor_id"] == "ann"
    people = [row["data"]["name"] for row in engine_export(root) if row.get("type") == "Person"]
    assert people == ["Alice", "Bob", "Carol", "Dave"]
    more = root.parent / "more.jsonl"
    more.write_text('{"type":"Person","data":{"name":"Frank","age":9}}\n')
    run_engine("load", root, "--data", more, "--mode", "append", check=True)
    run_engine("branch", "merge", "--store", root, "dev", "--into", "main", check=True)
    names = set(ages(og.open(str(root))))
    assert names == {"Alice", "Bob", "Carol", "Dave", "Eve", "Frank"}
    # And on again here, on top of the engine's commits.
    head = manifest.head().lineage.head
    assert publish(manifest, "main", [], {}, intent()).parent_id == (head and head.id)
    assert engine_json("snapshot", root)["manifest_version"] == manifest.newest().number


@pytest.mark.engine
def test_the_engine_reads_branches_of_a_moved_graph_once_they_are_written(tmp_path: Path) -> None:
    """Until then it does not: their manifests name the place they were written at."""
    root = golden.unpack("branches", tmp_path)
    assert run_engine("snapshot", root, "--branch", "idle").returncode != 0
    publish(manifest_of(root), "idle", [], {}, intent())
    shown = engine_json("snapshot", root, "--branch", "idle")
    assert shown["tables"] == golden.Expected("branches").snapshot("idle")["tables"]


@pytest.mark.engine
def test_the_engine_and_we_publish_at_once(social: GraphBuilder) -> None:
    """Both take their turn on the head of the branch; whoever loses every time says so."""
    root, manifest = social.root, manifest_of(social.root)
    data = root.parent / "more.jsonl"
    data.write_text('{"type":"Person","data":{"name":"Frank","age":9}}\n')
    ours: list[Commit] = []
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(run_engine, "load", root, "--data", data, "--mode", "append")
        while not load.done() and len(ours) < 40:
            ours.append(publish(manifest, "main", [], {}, intent()))
    commits = assert_one_line(root, [commit.id for commit in ours])
    landed = "Frank" in ages(og.open(str(root)))
    assert landed == (load.result().returncode == 0), load.result().stderr
    assert len(commits) == 3 + len(ours) + landed
