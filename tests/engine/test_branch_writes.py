"""Writing on branches: datasets fork at the first write, and no branch changes another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.clock import new_ulid, now_us
from omnigraph_spark.errors import (
    BranchNotFoundError,
    ConflictError,
    ExpectedVersionError,
    HeadMovedError,
    KeyConflictError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.publish import LineageIntent, PublishVersion, publish
from omnigraph_spark.storage import branches
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.versions import landed_version
from tests.engine.writing import (
    KNOWS,
    PERSON,
    ages,
    all_ids,
    assert_whole,
    edges,
    files,
    heads,
    ids,
    people,
    transact,
)
from tests.helpers.engine import engine_export, engine_json
from tests.helpers.exported import exported_rows, lines
from tests.helpers.golden import Expected


def person_folder(graph: og.Graph) -> Path:
    return Path(graph.root, graph.entries[PERSON].path)


def forks(graph: og.Graph, type: str = PERSON) -> list[str]:
    """The Lance branches of a type's dataset."""
    folder = Path(graph.root, graph.entries[type].path, "_refs", "branches")
    return sorted(path.stem.replace("%2F", "/") for path in folder.glob("*.json"))


def state_of(graph: og.Graph) -> dict[str, list[dict[str, Any]]]:
    """Every row of the bound branch, in order."""
    snapshot = graph.refresh().snapshot()
    return {key: exported_rows(key, snapshot.arrow(key, blobs="bytes")) for key in snapshot.entries}


@pytest.fixture
def dev(graph: og.Graph) -> og.Graph:
    """A branch of its own without a write."""
    graph.create_branch("dev")
    return graph.as_branch("dev")


# -- the first write -------------------------------------------------------------------------------


def test_a_dataset_forks_at_the_first_write_of_its_type_on_a_branch(
    graph: og.Graph, dev: og.Graph
) -> None:
    main = state_of(graph)
    assert forks(graph) == []
    dev.write(people(Dan=1), "Person")
    assert (forks(graph, PERSON), forks(graph, KNOWS)) == (["dev"], [])
    placed = dev.entries[PERSON]
    assert (placed.dataset_branch, placed.dataset_version, placed.rows) == ("dev", 3, 4)
    assert dev.entries[KNOWS].dataset_branch is None
    dev.write(edges(k9="Dan-Ann"), "Knows")
    assert forks(graph, KNOWS) == ["dev"]
    dev.delete("Person", ids=["Bob"])
    assert ids(dev, "Person") == ["Ann", "Cid", "Dan"]
    assert state_of(graph) == main
    assert_whole(dev)
    assert_whole(graph)


def test_every_mode_can_be_the_first_write(graph: og.Graph) -> None:
    writes: dict[str, Callable[[og.Graph], Any]] = {
        "append": lambda g: g.write(people(Dan=1), "Person"),
        "merge": lambda g: g.write(people(Ann=1, Dan=1), "Person", mode="merge"),
        "columns": lambda g: g.write(
            pa.table({"id": ["Ann"], "age": [1]}), "Person", mode="merge", merge_columns=["age"]
        ),
        "overwrite": lambda g: g.write(edges(k9="Ann-Bob"), "Knows", mode="overwrite"),
        "empty": lambda g: g.write(edges(), "Knows", mode="overwrite"),
        "delete": lambda g: g.delete("Person", ids=["Ann"]),
    }
    main = state_of(graph)
    for name, write in writes.items():
        graph.create_branch(name)
        branch = graph.as_branch(name)
        commit = write(branch)
        assert commit.branch == name
        assert commit.parent_id == graph.history(1)[0].id
        for key, change in commit.changes.items():
            entry = branch.entries[key]
            assert (entry.dataset_branch, entry.rows) == (name, change.rows)
        assert_whole(branch)
    assert state_of(graph) == main
    assert ages(graph.as_branch("columns"))["Ann"] == 1


def test_writing_one_branch_never_changes_another(graph: og.Graph) -> None:
    for name in ("a", "b", "a/sub"):
        graph.create_branch(name, from_="a" if name == "a/sub" else "main")
    branches = {name: graph.as_branch(name) for name in ("main", "a", "b", "a/sub")}
    for number, (name, branch) in enumerate(branches.items()):
        others = {other: state_of(branches[other]) for other in branches if other != name}
        with branch.transaction() as tx:
            tx.merge("Person", people(Ann=number, **{f"new{number}": number}))
            tx.append("Knows", edges(new=f"new{number}-Ann"))
        branch.delete("Knows", ids=["k1"])
        assert {other: state_of(branches[other]) for other in others} == others, name
        assert ages(branch)["Ann"] == number
    for branch in branches.values():
        assert_whole(branch)


def test_a_branch_keeps_reading_its_parent_as_it_was(graph: og.Graph, dev: og.Graph) -> None:
    before = state_of(dev)
    graph.write(people(Ann=99, Eve=1), "Person", mode="merge")
    graph.write(edges(k9="Eve-Ann"), "Knows", mode="overwrite")
    assert state_of(dev) == before
    # It forks where it began, not where its parent is now.
    dev.write(people(Dan=1), "Person")
    assert ages(dev) == {"Ann": 30, "Bob": 41, "Cid": None, "Dan": 1}
    assert ages(graph)["Ann"] == 99


def test_branches_of_branches_fork_from_where_their_parent_was(
    graph: og.Graph, dev: og.Graph
) -> None:
    dev.write(people(Dan=1), "Person")
    graph.create_branch("dev/sub", from_="dev")
    dev.write(people(Dan=2, Eve=2), "Person", mode="merge")
    sub = graph.as_branch("dev/sub")
    sub.write(people(Fay=3), "Person")
    assert ages(sub) == {"Ann": 30, "Bob": 41, "Cid": None, "Dan": 1, "Fay": 3}
    sub.write(people(Gus=4), "Person", branch="dev/sub/sub", create_from="dev/sub")
    third = graph.as_branch("dev/sub/sub")
    third.write(people(Ann=5), "Person", mode="merge")
    assert ages(third) == {"Ann": 5, "Bob": 41, "Cid": None, "Dan": 1, "Fay": 3, "Gus": 4}
    assert ages(dev) == {"Ann": 30, "Bob": 41, "Cid": None, "Dan": 2, "Eve": 2}
    for branch in (graph, dev, sub, third):
        assert_whole(branch)


def test_a_type_that_is_empty_forks_too(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", "node A { name: String @key } edge E: A -> A")
    rows = pa.table({"name": ["x", "y"]})
    graph.write(rows, "A", branch="dev", create_from="main")
    dev = graph.as_branch("dev")
    for mode in ("merge", "merge", "overwrite"):
        dev.write(rows, "A", mode=mode)
    dev.write(edges(e="x-y"), "E")
    dev.delete("A", ids=["x"])
    assert all_ids(dev) == {"node:A": ["y"], "edge:E": []}
    assert all_ids(graph.refresh()) == {"node:A": [], "edge:E": []}
    assert_whole(dev)


# -- createBranchFrom ------------------------------------------------------------------------------


def test_a_missing_branch_is_made_by_its_first_write(graph: og.Graph) -> None:
    commit = graph.write(people(Dan=1), "Person", branch="team/x", create_from="main")
    assert commit is not None
    assert [branch.name for branch in graph.branches()] == ["main", "team/x"]
    assert (commit.branch, commit.parent_id) == ("team/x", graph.history(1)[0].id)
    assert graph.branch == "main"
    assert "Dan" not in ages(graph)
    assert ages(graph.as_branch("team/x"))["Dan"] == 1


def test_an_existing_branch_is_written_wherever_it_began(graph: og.Graph, dev: og.Graph) -> None:
    dev.write(people(Dan=1), "Person")
    graph.write(people(Eve=1), "Person")
    graph.write(people(Fay=1), "Person", branch="dev", create_from="main")
    assert ids(dev.refresh(), "Person") == ["Ann", "Bob", "Cid", "Dan", "Fay"]
    with pytest.raises(KeyConflictError):
        graph.write(people(Dan=1), "Person", branch="dev", create_from="main")


def test_a_branch_begins_at_a_commit_a_version_or_a_branch(graph: og.Graph) -> None:
    past = graph.history(1)[0]
    graph.write(people(Eve=1), "Person")
    for name, origin in {
        "by-commit": og.Ref.commit(past.id),
        "by-version": og.Ref.version(past.manifest_version),
        "by-branch": "main",
    }.items():
        graph.write(people(Dan=1), "Person", branch=name, create_from=origin)
        assert ("Eve" in ages(graph.as_branch(name))) == (name == "by-branch")
        assert_whole(graph.as_branch(name))


def test_a_write_with_nothing_to_do_makes_no_branch(graph: og.Graph) -> None:
    before = files(Path(graph.root))
    assert graph.write(people(), "Person", branch="dev", create_from="main") is None
    assert graph.delete("Person", ids=["Nobody"], branch="dev", create_from="main") is None
    assert files(Path(graph.root)) == before
    with pytest.raises(BranchNotFoundError):
        graph.as_branch("dev")


def test_a_branch_that_another_made_meanwhile_is_written_on_top(graph: og.Graph) -> None:
    other = og.open(graph.root)

    def meanwhile(_: og.Transaction) -> None:
        other.write(people(Eve=1), "Person", branch="dev", create_from="main")

    transact(
        graph,
        lambda tx: tx.append("Person", people(Dan=1)),
        meanwhile,
        branch="dev",
        create_from="main",
    )
    dev = graph.as_branch("dev")
    assert ids(dev, "Person") == ["Ann", "Bob", "Cid", "Dan", "Eve"]
    assert_whole(dev)
    # From elsewhere, too: the branch is what counts.
    with pytest.raises(HeadMovedError, match="made by another writer"):
        transact(
            graph,
            lambda tx: tx.overwrite("Knows", edges(k="Ann-Bob")),
            lambda _: other.create_branch("third", from_="dev"),
            branch="third",
            create_from="main",
        )
    assert ids(graph.as_branch("third"), "Knows") == ["k1", "k2", "k3"]


# -- deleted and made again ------------------------------------------------------------------------


@pytest.mark.parametrize("written", [False, True], ids=["without a write", "with a write"])
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_branch_that_was_deleted_and_made_again_is_not_written(
    graph: og.Graph, dev: og.Graph, mode: str, written: bool
) -> None:
    """RS-40: the write was planned on another branch of the same name."""
    if written:
        dev.write(people(Dan=1), "Person")

    def again(_: og.Transaction) -> None:
        graph.delete_branch("dev")
        graph.write(people(Eve=1), "Person")
        graph.create_branch("dev")

    rows = people(Ann=1, Bob=1, Cid=1, Fay=1) if mode == "overwrite" else people(Fay=1)
    with pytest.raises(ConflictError, match="deleted and made again"):
        transact(dev, lambda tx: getattr(tx, mode)("Person", rows), again)
    fresh = og.open(graph.root, branch="dev")
    assert ages(fresh) == {"Ann": 30, "Bob": 41, "Cid": None, "Eve": 1}
    fresh.write(people(Fay=1), "Person")
    assert_whole(fresh)


def test_a_branch_that_was_made_again_at_the_same_place_is_another_one(
    graph: og.Graph, dev: og.Graph
) -> None:
    """RS-40: in the same second, from the same version, without a commit of its own."""
    ref = Path(graph.root, "__manifest", "_refs", "branches", "dev.json")
    first = json.loads(ref.read_bytes())

    def again(_: og.Transaction) -> None:
        graph.delete_branch("dev")
        graph.create_branch("dev")
        second = json.loads(ref.read_bytes())
        ref.write_text(json.dumps(second | {"createAt": first["createAt"]}))

    with pytest.raises(ConflictError, match="deleted and made again"):
        transact(dev, lambda tx: tx.append("Person", people(Fay=1)), again)
    assert ids(og.open(graph.root, branch="dev"), "Person") == ["Ann", "Bob", "Cid"]


def test_a_branch_that_was_deleted_is_not_written(graph: og.Graph, dev: og.Graph) -> None:
    with pytest.raises(BranchNotFoundError):
        transact(
            dev,
            lambda tx: tx.append("Person", people(Dan=1)),
            lambda _: graph.delete_branch("dev"),
        )
    assert_whole(graph)


# -- forks that others left ------------------------------------------------------------------------


def fork_by_hand(graph: og.Graph, name: str, version: int) -> Any:
    dataset = lance.dataset(str(person_folder(graph)))
    return dataset.create_branch(name, version)


def test_a_fork_at_the_very_place_is_taken_over(graph: og.Graph, dev: og.Graph) -> None:
    fork_by_hand(graph, "dev", 2)
    ref = person_folder(graph) / "_refs" / "branches" / "dev.json"
    before = ref.read_bytes()
    dev.write(people(Dan=1), "Person")
    assert ref.read_bytes() == before
    assert ids(dev, "Person") == ["Ann", "Bob", "Cid", "Dan"]
    assert_whole(dev)


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite", "delete"])
def test_an_orphan_that_moved_is_made_anew(graph: og.Graph, dev: og.Graph, mode: str) -> None:
    """RS-12: a write died after its commit; its sidecar is gone, so nobody will finish it."""
    orphan = fork_by_hand(graph, "dev", 2)
    orphan.delete("name = 'Ann'")
    rows = people(Ann=1, Bob=2, Cid=3)
    if mode == "delete":
        dev.delete("Person", ids=["Cid"])
    elif mode == "append":
        dev.write(people(Dan=1), "Person")
    else:
        dev.write(rows, "Person", mode=mode)
    assert "Ann" in ids(dev, "Person")
    assert dev.entries[PERSON].dataset_version == 3
    assert_whole(dev)
    assert_whole(graph)


def test_an_orphan_that_began_elsewhere_is_made_anew(graph: og.Graph, dev: og.Graph) -> None:
    fork_by_hand(graph, "dev", 1)
    dev.write(people(Dan=1), "Person")
    assert ids(dev, "Person") == ["Ann", "Bob", "Cid", "Dan"]
    assert_whole(dev)


def test_a_line_that_another_branch_still_reads_is_not_made_anew(
    graph: og.Graph, dev: og.Graph
) -> None:
    """The engine's merge lets a branch pin main again, and leaves the line that it had."""
    dev.write(people(Dan=1), "Person")
    graph.create_branch("late", "dev")
    for name in ("Eve", "Fay"):
        graph.refresh().write(people(**{name: 1}), "Person")
    pin_main(graph, "dev")
    before = files(Path(graph.root))
    with pytest.raises(UnsupportedError, match=r"'late' still reads.*delete 'late'"):
        dev.refresh().write(people(Gus=1), "Person")
    assert files(Path(graph.root)) == before
    assert ids(og.open(graph.root).as_branch("late"), "Person") == ["Ann", "Bob", "Cid", "Dan"]
    assert "orphan_fork" not in {found.kind for found in dev.health()}
    # The ways out.
    graph.create_branch("fresh", "dev")
    graph.as_branch("fresh").write(people(Gus=1), "Person")
    graph.delete_branch("late")
    assert "orphan_fork" in {found.kind for found in dev.health()}
    dev.write(people(Gus=1), "Person")
    assert ids(dev, "Person") == ["Ann", "Bob", "Cid", "Eve", "Fay", "Gus"]
    assert_whole(dev)


def pin_main(graph: og.Graph, branch: str) -> None:
    """Let a branch read people where main has them, as the engine's merge does."""
    manifest, entry = Manifest(graph.root, StorageSettings()), graph.refresh().entries[PERSON]
    address = DatasetAddress(graph.root, entry.path)
    landed = landed_version(address, entry.dataset_version, manifest.settings)
    pin = PublishVersion(PERSON, landed, None, entry.rows)
    publish(manifest, branch, [pin], {}, LineageIntent(new_ulid(), now_us()))


@pytest.mark.parametrize("half", ["a reservation", "a folder without its ref"])
def test_a_fork_left_half_made_is_made_whole(graph: og.Graph, dev: og.Graph, half: str) -> None:
    """RS-12."""
    folder = person_folder(graph)
    if half == "a reservation":
        (folder / "tree" / "dev").mkdir(parents=True)
        (folder / "tree" / "dev" / "_reservation").touch()
    else:
        fork_by_hand(graph, "dev", 2)
        (folder / "_refs" / "branches" / "dev.json").unlink()
    dev.write(people(Dan=1), "Person")
    assert ids(dev, "Person") == ["Ann", "Bob", "Cid", "Dan"]
    assert_whole(dev)


def test_a_fork_of_an_empty_type_that_is_taken_over_keeps_stable_row_ids(tmp_path: Path) -> None:
    """RS-12: its creator died after the ref and before the flags, which Lance forgets."""
    graph = og.create(tmp_path / "g", "node Person { name: String @key }")
    graph.create_branch("dev")
    [folder] = Path(graph.root, "nodes").iterdir()
    lance.dataset(str(folder)).create_branch("dev", (None, 1))
    (folder / "tree" / "dev" / "_reservation").touch()
    dev = graph.as_branch("dev")
    dev.write(pa.table({"name": ["Dan"]}), "Person")
    assert lance.dataset(str(folder / "tree" / "dev")).has_stable_row_ids
    assert not (folder / "tree" / "dev" / "_reservation").exists()
    assert_whole(dev)


@pytest.mark.parametrize(
    "failure", [StorageError("permanent", "x", "no space left on device"), KeyboardInterrupt()]
)
def test_a_fork_of_an_empty_type_that_fails_at_its_last_step_gets_its_row_ids_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    """RS-12: the ref is there, so the fork is used by the next write, which does the rest."""
    graph = og.create(tmp_path / "g", "node Person { name: String @key }")
    dev = graph.as_branch(graph.create_branch("dev").name)
    [folder] = Path(graph.root, "nodes").iterdir()

    def fail_once(*_: object) -> None:
        monkeypatch.undo()
        raise failure

    monkeypatch.setattr(branches, "keep_stable_row_ids", fail_once)
    with pytest.raises((StorageError, KeyboardInterrupt)):
        dev.write(pa.table({"name": ["Dan"]}), "Person")
    dev.write(pa.table({"name": ["Dan"]}), "Person")
    assert lance.dataset(str(folder / "tree" / "dev")).has_stable_row_ids
    assert not (folder / "tree" / "dev" / "_reservation").exists()
    assert_whole(dev)


def test_a_branch_left_half_made_is_named_and_can_be_deleted(graph: og.Graph) -> None:
    manifest = Path(graph.root, "__manifest")
    lance.dataset(str(manifest)).create_branch("dev")
    (manifest / "_refs" / "branches" / "dev.json").unlink()
    with pytest.raises(ConflictError, match="delete it first"):
        graph.write(people(Dan=1), "Person", branch="dev", create_from="main")
    graph.delete_branch("dev")
    graph.write(people(Dan=1), "Person", branch="dev", create_from="main")
    assert_whole(graph.as_branch("dev"))


def test_a_deleted_branch_can_be_made_and_written_again(graph: og.Graph) -> None:
    for age in range(3):
        graph.write(people(Ann=age), "Person", mode="merge", branch="dev", create_from="main")
        assert ages(graph.as_branch("dev"))["Ann"] == age
        graph.delete_branch("dev")
    assert ages(graph)["Ann"] == 30


# -- terms on branches -----------------------------------------------------------------------------


def test_terms_hold_for_the_branch_that_is_written(graph: og.Graph, dev: og.Graph) -> None:
    first = dev.write(people(Dan=1), "Person")
    assert first is not None
    graph.write(people(Eve=1), "Person")
    with pytest.raises(HeadMovedError):
        dev.write(people(Fay=1), "Person", if_graph_commit=graph.history(1)[0].id)
    with pytest.raises(ExpectedVersionError):
        dev.write(people(Fay=1), "Person", expected_table_versions={PERSON: 2})
    terms: dict[str, Any] = {
        "if_graph_commit": first.id,
        "expected_table_versions": {PERSON: 3},
    }
    assert dev.write(people(Fay=1), "Person", **terms) is not None


def test_work_that_main_did_is_known_to_branches_made_after_it(graph: og.Graph) -> None:
    once: dict[str, Any] = {"txn_app_id": "job", "txn_version": 1}
    graph.create_branch("before")
    done = graph.write(people(Dan=1), "Person", **once)
    graph.create_branch("after")
    assert graph.as_branch("after").write(people(Dan=1), "Person", **once) == done
    assert graph.write(people(Dan=1), "Person", branch="new", create_from="main", **once) == done
    on_branch = graph.as_branch("before").write(people(Dan=1), "Person", **once)
    assert on_branch not in (None, done)


# -- moved graphs ----------------------------------------------------------------------------------


def test_a_graph_that_was_moved_is_written_on_every_branch(
    graph: og.Graph, dev: og.Graph, tmp_path: Path
) -> None:
    dev.write(people(Dan=1), "Person")
    dev.write(people(Eve=2), "Person", branch="dev/sub", create_from="dev")
    graph.create_branch("idle")
    before = {name: state_of(graph.as_branch(name)) for name in ("main", "dev", "dev/sub", "idle")}
    root = tmp_path / "elsewhere" / "moved"
    root.parent.mkdir()
    shutil.copytree(graph.root, root)
    shutil.rmtree(graph.root)

    moved = og.open(root)
    for name, rows in before.items():
        branch = moved.as_branch(name)
        assert state_of(branch) == rows
        branch.write(people(Zoe=1), "Person")
        branch.write(people(Ann=77), "Person", mode="merge")
        branch.write(edges(k9="Zoe-Ann"), "Knows")
        branch.write(edges(w9="Zoe-Acme"), "WorksAt", mode="overwrite")
        branch.delete("Person", ids=["Bob"])
        assert ages(branch)["Ann"] == 77
        assert ids(branch, "Knows") == ["k3", "k9"]
        assert_whole(branch)
    moved.write(people(Yan=1), "Person", branch="new", create_from="dev/sub")
    assert ids(moved.as_branch("new"), "Person") == ["Ann", "Cid", "Dan", "Eve", "Yan", "Zoe"]
    for name in before:
        assert_whole(og.open(root, branch=name))


def test_a_copy_is_written_without_the_original_noticing(
    graph: og.Graph, dev: og.Graph, tmp_path: Path
) -> None:
    dev.write(people(Dan=1), "Person")
    copy = og.open(shutil.copytree(graph.root, tmp_path / "copy"))
    before = files(Path(graph.root))
    for name in ("main", "dev"):
        copy.as_branch(name).write(people(Zoe=1), "Person", mode="merge")
        copy.as_branch(name).delete("Person", ids=["Ann"])
    copy.delete_branch("dev")
    assert files(Path(graph.root)) == before
    assert heads(og.open(graph.root, branch="dev"))[PERSON] == (3, 3)


# -- graphs of the engine --------------------------------------------------------------------------


def our_export(graph: og.Graph) -> list[str]:
    rows = state_of(graph)
    return lines(row for key in sorted(rows) for row in rows[key])


@pytest.mark.engine
def test_branches_of_the_engine_are_written_here_and_read_there(
    golden_in_place: Callable[[str], Path],
) -> None:
    root = golden_in_place("branches")
    names = Expected("branches").branches()
    graph = og.open(root)
    before = {name: state_of(graph.as_branch(name)) for name in names}
    for number, name in enumerate(names):
        branch = graph.as_branch(name)
        first, *_, last = ids(branch, "Person")
        with branch.transaction() as tx:
            tx.merge("Person", people(**{first: 50, f"New{number}": number}))
            tx.append("Knows", edges(new=f"New{number}-{first}"))
        branch.delete("Person", ids=[last])
        assert_whole(branch)
        written = set(names[: number + 1])
        assert {n: state_of(graph.as_branch(n)) for n in names if n not in written} == {
            n: rows for n, rows in before.items() if n not in written
        }
    for name in names:
        branch = graph.as_branch(name)
        assert lines(engine_export(root, name)) == our_export(branch), name
        snapshot = engine_json("snapshot", root, "--branch", name)
        assert {
            table["table_key"]: (
                table["table_version"],
                table["table_branch"],
                table["row_count"],
            )
            for table in snapshot["tables"]
        } == {
            key: (entry.dataset_version, entry.dataset_branch, entry.rows)
            for key, entry in branch.entries.items()
        }
    tables = engine_json("repair", root)["tables"]
    assert {table["classification"] for table in tables} == {"no_drift"}
    assert engine_json("branch", "list", "--uri", root)["branches"] == names
