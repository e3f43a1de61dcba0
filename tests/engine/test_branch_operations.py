"""Making and deleting branches: what is refused, what is left, what the engine makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import branches
from omnigraph_spark.branches import Branch, create_branch, delete_branch
from omnigraph_spark.create import create_graph
from omnigraph_spark.errors import (
    BranchExistsError,
    BranchInUseError,
    BranchNotFoundError,
    CommitNotFoundError,
    ConflictError,
    HistoryReclaimedError,
    InvalidNameError,
    RecoveryRequiredError,
    SchemaApplyInProgressError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.formats.v4.sidecar import Sidecar, SidecarPin, WriterKind, write_sidecar
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.names import AnyRef, Ref
from omnigraph_spark.publish import publish
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.local_objects import LocalObjects
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from tests.engine.graphs import (
    COMPANY,
    KNOWS,
    PERSON,
    PERSON_FOLDER,
    SOCIAL,
    add_people,
    ages,
    refused,
)
from tests.engine.race_work import branch_one, intent, manifest_of
from tests.engine.recovering import fail
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder
from tests.helpers.engine import engine_export, engine_json, run_engine
from tests.helpers.racers import Racers
from tests.helpers.s3 import S3Server

SETTINGS = StorageSettings()
LOCK = "__schema_apply_lock__"


def origin(root: Path | str, ref: AnyRef | None = None) -> SnapshotState:
    return GraphReader.open(str(root), SETTINGS).resolve(ref or Ref.branch())


def make(root: Path, name: str, ref: AnyRef | None = None) -> Branch:
    return create_branch(manifest_of(root), name, origin(root, ref))


def people(root: Path, branch: str) -> set[str]:
    return set(ages(og.open(str(root), branch=branch)))


def dataset_branches(root: Path, folder: str = PERSON_FOLDER) -> set[str]:
    return set(lance.dataset(str(root / folder)).branches.list())


@contextmanager
def schema_apply(root: Path) -> Iterator[None]:
    """The lock that the engine holds while it changes the schema."""
    manifest = lance.dataset(str(root / "__manifest"))
    manifest.create_branch(LOCK)
    yield
    manifest.branches.delete(LOCK)


# -- making ----------------------------------------------------------------------------------------


def test_a_branch_begins_where_it_was_asked_to(social: GraphBuilder) -> None:
    root = social.root
    first, second = reversed(og.open(str(root)).history()[:2])
    dev = make(root, "dev")
    assert (dev.name, dev.parent, dev.head.id, dev.forked_types) == ("dev", "main", second.id, ())
    old = make(root, "old", Ref.commit(first.id))
    numbered = make(root, "team/numbered", Ref.version(first.manifest_version))
    assert old.head == numbered.head == first
    assert old.manifest_version == first.manifest_version
    add_people(social, "dev", Dave=50)
    sub = make(root, "sub", Ref.branch("dev"))
    assert sub.parent == "dev"
    assert people(root, "dev") == people(root, "sub") == {"Alice", "Bob", "Carol", "Dave"}
    assert people(root, "old") == {"Alice", "Bob"}
    assert people(root, "main") == {"Alice", "Bob", "Carol"}
    names = [branch.name for branch in og.open(str(root)).branches()]
    assert names == ["dev", "main", "old", "sub", "team/numbered"]


def test_a_new_branch_is_written_to_and_leaves_the_others_alone(social: GraphBuilder) -> None:
    root = social.root
    first = og.open(str(root)).history()[1]
    make(root, "old", Ref.commit(first.id))
    make(root, "dev")
    commit = publish(manifest_of(root), "old", [], {PERSON: 2}, intent())
    assert (commit.branch, commit.parent_id) == ("old", first.id)
    assert commit.manifest_version == first.manifest_version + 1
    add_people(social, "old", Dave=50)
    add_people(social, Eve=6)
    assert people(root, "old") == {"Alice", "Bob", "Dave"}
    assert people(root, "main") == {"Alice", "Bob", "Carol", "Eve"}
    assert people(root, "dev") == {"Alice", "Bob", "Carol"}


def test_a_branch_from_the_first_commit_of_an_engines_graph_has_a_stamp(tmp_path: Path) -> None:
    """The engine stamps in its third version, and a branch keeps only what comes after its own."""
    root = golden.unpack("history", tmp_path)
    genesis = og.open(str(root)).history()[-1]
    assert genesis.manifest_version == 1
    branch = make(root, "genesis", Ref.commit(genesis.id))
    assert (branch.head, branch.manifest_version) == (genesis, 3)
    assert {e.rows for e in og.open(str(root), branch="genesis").entries.values()} == {0}


def test_a_branch_of_a_moved_graph_is_made_at_its_new_place(tmp_path: Path) -> None:
    root = golden.unpack("branches", tmp_path)
    for source in ("main", "feature", "feature-sub", "team/x"):
        branch = make(root, f"from/{source}", Ref.branch(source))
        assert people(root, branch.name) == people(root, source)
        publish(manifest_of(root), branch.name, [], {}, intent(), if_head=branch.head.id)
        uri = manifest_of(root).address(branch.name).uri
        bases = [base.path for base in lance.dataset(uri).base_paths().values()]
        assert bases
        assert all(base.startswith(str(root)) for base in bases)


def test_a_branch_on_an_object_store(social: GraphBuilder, s3: S3Server) -> None:
    root = s3.upload(social.root, f"s3://{s3.make_bucket()}/social")
    settings = StorageSettings.resolve(s3.storage_options)
    manifest = Manifest(root, settings)
    state = GraphReader.open(root, settings).resolve(Ref.branch())
    branch = create_branch(manifest, "dev", state)
    publish(manifest, "dev", [], {}, intent(), if_head=branch.head.id)
    assert manifest.branch_names() == ["dev", "main"]
    with pytest.raises(BranchExistsError):
        create_branch(manifest, "dev", state)
    assert delete_branch(manifest, "dev") == ()
    assert manifest.branch_names() == ["main"]


@pytest.mark.parametrize(
    "name",
    ["", "a//b", "/a", "a/", "a b", "..", "a/../b", "x.lock", LOCK, "dev/data", "dev/_versions/x"],
)
def test_an_illegal_name_is_refused_before_anything_is_touched(
    name: str, social: GraphBuilder
) -> None:
    with refused(InvalidNameError, social.root):
        make(social.root, name)


@pytest.mark.parametrize("name", ["main", "dev"])
def test_an_existing_branch_is_refused_and_left_alone(name: str, social: GraphBuilder) -> None:
    make(social.root, "dev")
    with refused(BranchExistsError, social.root, name):
        make(social.root, name)


def test_no_branch_is_made_or_deleted_while_the_schema_changes(social: GraphBuilder) -> None:
    make(social.root, "dev")
    with schema_apply(social.root):
        with refused(SchemaApplyInProgressError, social.root, "creating branch 'new'"):
            make(social.root, "new")
        with refused(SchemaApplyInProgressError, social.root, "deleting branch 'dev'"):
            delete_branch(manifest_of(social.root), "dev")
    make(social.root, "new")
    delete_branch(manifest_of(social.root), "dev")


def test_a_schema_change_that_begins_meanwhile_is_seen(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = manifest_of(social.root)
    state = origin(social.root)
    real = branches.stored.create_branch

    def lock_after(*args: object) -> None:
        real(*args)  # type: ignore[arg-type]
        lance.dataset(str(social.root / "__manifest")).create_branch(LOCK)

    monkeypatch.setattr(branches.stored, "create_branch", lock_after)
    with pytest.raises(SchemaApplyInProgressError):
        create_branch(manifest, "dev", state)
    assert manifest.branch_names() == ["main"]


@pytest.mark.parametrize("use", ["write", "branch"])
def test_a_schema_change_that_begins_meanwhile_costs_no_branch_that_is_used(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """Somebody was told that a commit landed there before its maker looked for the lock."""
    manifest = manifest_of(social.root)
    state = origin(social.root)
    real = branches.stored.create_branch

    def used_then_locked(*args: object) -> None:
        real(*args)  # type: ignore[arg-type]
        monkeypatch.setattr(branches.stored, "create_branch", real)
        if use == "write":
            og.open(str(social.root), branch="dev").write(pa.table({"name": ["Dora"]}), "Person")
        else:
            make(social.root, "sub", Ref.branch("dev"))
        lance.dataset(str(social.root / "__manifest")).create_branch(LOCK)

    monkeypatch.setattr(branches.stored, "create_branch", used_then_locked)
    assert create_branch(manifest, "dev", state).name == "dev"
    assert ("Dora" in people(social.root, "dev")) == (use == "write")


def test_a_branch_cannot_begin_before_a_schema_change(tmp_path: Path) -> None:
    root = golden.unpack("schema-evolved", tmp_path)
    graph = og.open(str(root))
    head, *_, genesis = graph.history()
    with refused(UnsupportedError, root, "schema change"):
        make(root, "old", Ref.commit(genesis.id))
    assert make(root, "now", Ref.commit(head.id)).head == head
    # The last commits changed no schema.
    assert make(root, "main-head").head == head


def test_a_branch_cannot_begin_where_rows_were_reclaimed(social: GraphBuilder) -> None:
    first = og.open(str(social.root)).history()[1]
    versions = social.root / PERSON_FOLDER / "_versions"
    (versions / f"{(1 << 64) - 1 - 2:020d}.manifest").unlink()
    with refused(HistoryReclaimedError, social.root, PERSON):
        make(social.root, "old", Ref.commit(first.id))
    make(social.root, "dev")


def test_a_branch_cannot_begin_on_one_that_was_made_again(social: GraphBuilder) -> None:
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    add_people(social, "dev", Dave=50)
    state = origin(root, Ref.branch("dev"))
    delete_branch(manifest, "dev")
    make(root, "dev")
    add_people(social, "dev", Eve=6)
    with refused(CommitNotFoundError, root, "made again"):
        create_branch(manifest, "sub", state)


def test_of_two_makers_of_a_branch_one_succeeds(social: GraphBuilder, racers: Racers) -> None:
    root = str(social.root)
    rounds = 20
    answers = racers.run(branch_one, (root, "ours"), (root, "theirs"), rounds=rounds)
    for number, pair in enumerate(zip(*answers, strict=True)):
        assert sorted(pair, key=lambda answer: answer != "made")[0] == "made"
        losers = [answer for answer in pair if answer != "made"]
        assert len(losers) == 1
        assert losers[0] in (BranchExistsError.code, ConflictError.code)
        assert people(social.root, f"r{number}") == {"Alice", "Bob", "Carol"}


# -- deleting --------------------------------------------------------------------------------------


def test_a_deleted_branch_takes_its_datasets_branches_along(social: GraphBuilder) -> None:
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    make(root, "other")
    add_people(social, "dev", Dave=50)
    add_people(social, "other", Eve=6)
    # A fork that no publish ever placed.
    lance.dataset(str(root / manifest.head().entries[KNOWS].path)).create_branch("dev")
    assert delete_branch(manifest, "dev") == ()
    assert manifest.branch_names() == ["main", "other"]
    assert dataset_branches(root) == {"other"}
    assert dataset_branches(root, manifest.head().entries[KNOWS].path) == set()
    with pytest.raises(BranchNotFoundError):
        og.open(str(root), branch="dev")
    assert people(root, "other") == {"Alice", "Bob", "Carol", "Eve"}


def test_a_branch_made_again_starts_afresh(social: GraphBuilder) -> None:
    root, manifest = social.root, manifest_of(social.root)
    for name in ("Dave", "Eve"):
        make(root, "dev")
        add_people(social, "dev", **{name: 1})
        assert people(root, "dev") == {"Alice", "Bob", "Carol", name}
        delete_branch(manifest, "dev")


def test_main_is_never_deleted(social: GraphBuilder) -> None:
    with refused(BranchInUseError, social.root, "main line"):
        delete_branch(manifest_of(social.root), "main")


def test_a_missing_branch_is_said_so(social: GraphBuilder) -> None:
    make(social.root, "team/x")
    for name in ("dev", "team"):
        with refused(BranchNotFoundError, social.root, name, "main, team/x"):
            delete_branch(manifest_of(social.root), name)


def test_a_branch_with_descendants_stays(social: GraphBuilder) -> None:
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    make(root, "sub", Ref.branch("dev"))
    with refused(BranchInUseError, root, "branch 'sub' began on it"):
        delete_branch(manifest, "dev")
    delete_branch(manifest, "sub")
    delete_branch(manifest, "dev")


def test_a_branch_whose_datasets_another_one_reads_stays(social: GraphBuilder) -> None:
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    make(root, "other")
    add_people(social, "dev", Dave=50)
    # As a merge may do: the other branch takes over the pin.
    social.publish({PERSON: social.entries("dev")[PERSON]}, branch="other")
    with refused(BranchInUseError, root, "branch 'other' reads its node:Person"):
        delete_branch(manifest, "dev")
    assert "Dave" in people(root, "other")


def test_a_branch_with_an_unfinished_write_stays(social: GraphBuilder) -> None:
    root = social.root
    make(root, "dev")
    make(root, "other")
    pin = SidecarPin(PERSON, str(root / PERSON_FOLDER), 3, 4, dataset_branch="dev")
    sidecar = Sidecar("01M7H9Q3M4TGY6NZG1D1C373DC", 1, WriterKind.LOAD, (pin,), branch="dev")
    write_sidecar(str(root), objects_at(str(root), SETTINGS), sidecar)
    with refused(RecoveryRequiredError, root, sidecar.operation_id):
        delete_branch(manifest_of(root), "dev")
    delete_branch(manifest_of(root), "other")


@pytest.mark.parametrize("first", ["create", "delete"])
def test_a_branch_that_begins_on_one_that_is_being_deleted_is_whole_or_refused(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """RS-40: both at once; each looks for the other, and neither may look too early."""
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    add_people(social, "dev", Dave=50)
    state = origin(root, Ref.branch("dev"))
    works = {
        "create": lambda: create_branch(manifest, "sub", state),
        "delete": lambda: delete_branch(manifest, "dev"),
    }
    second = works[{"create": "delete", "delete": "create"}[first]]
    real = getattr(branches.stored, f"{first}_branch")
    others: list[Future[object]] = []

    def meet(*args: object, **terms: object) -> object:
        """Begin the second when the first has looked, and give it time to be in the way."""
        if not others:
            others.append(pool.submit(second))
            wait(others, timeout=0.5)
        return real(*args, **terms)

    monkeypatch.setattr(branches.stored, f"{first}_branch", meet)
    with ThreadPoolExecutor(1) as pool:
        works[first]()
        problem = others[0].exception()
    if first == "create":
        assert isinstance(problem, BranchInUseError)
        assert people(root, "sub") == {"Alice", "Bob", "Carol", "Dave"}
    else:
        assert isinstance(problem, BranchNotFoundError)
        assert set(manifest.branch_names()) == {"main"}


def test_a_branch_on_which_somebody_without_a_lock_begins_one_is_not_deleted(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-40: the engine takes none, and on object stores one runs out."""
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    add_people(social, "dev", Dave=50)
    version, looks = manifest.head("dev").version, 0
    list_branches = branches.stored.list_branches

    def begun_after_the_look(*about: Any) -> list[str]:
        nonlocal looks
        looks += 1
        found = list_branches(*about)
        if looks == 1:
            create = branches.stored.create_branch
            create(manifest.address(), "sub", "dev", version, manifest.settings)
        return found

    monkeypatch.setattr(branches.stored, "list_branches", begun_after_the_look)
    with pytest.raises(BranchInUseError, match="sub"):
        delete_branch(manifest, "dev")
    assert people(root, "sub") == people(root, "dev") == {"Alice", "Bob", "Carol", "Dave"}


def test_a_branch_whose_origin_goes_while_it_is_made_is_refused_and_leaves_nothing(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-40: where locks run out, who makes a branch looks once more for the one it begins on."""
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    state = origin(root, Ref.branch("dev"))
    create = branches.stored.create_branch

    def gone_meanwhile(*about: Any) -> None:
        create(*about)
        LocalObjects().delete(f"{manifest.address().base}/_refs/branches/dev.json")

    monkeypatch.setattr(branches.stored, "create_branch", gone_meanwhile)
    with pytest.raises(BranchNotFoundError, match="dev"):
        create_branch(manifest, "sub", state)
    assert manifest.branch_names() == ["main"]


def test_a_nested_branch_survives_the_one_it_is_named_after(social: GraphBuilder) -> None:
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    make(root, "dev/x")
    add_people(social, "dev", Dave=50)
    add_people(social, "dev/x", Eve=6)
    delete_branch(manifest, "dev")
    assert people(root, "dev/x") == {"Alice", "Bob", "Carol", "Eve"}
    make(root, "dev")
    assert people(root, "dev") == {"Alice", "Bob", "Carol"}


def test_half_a_branch_is_refused_and_can_be_deleted(social: GraphBuilder) -> None:
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    (root / "__manifest" / "_refs" / "branches" / "dev.json").unlink()
    assert manifest.branch_names() == ["main"]
    with refused(ConflictError, root, "half made"):
        make(root, "dev")
    delete_branch(manifest, "dev")
    assert people(root, make(root, "dev").name) == {"Alice", "Bob", "Carol"}


def test_a_branch_whose_files_cannot_be_deleted_is_gone_all_the_same(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name goes first: an error would say that it is still there."""
    graph = og.open(social.root)
    graph.create_branch("dev")
    fail(monkeypatch, "delete_below", "__manifest/tree/dev")
    with pytest.warns(UserWarning, match="'dev' is deleted, and some of its files stayed behind"):
        graph.delete_branch("dev")
    assert [branch.name for branch in graph.branches()] == ["main"]
    # What stayed is in the way of the next one: whoever deletes it is told as long as it stays.
    with pytest.raises(StorageError, match="no space left"):
        graph.delete_branch("dev")
    monkeypatch.undo()
    graph.delete_branch("dev")
    assert graph.create_branch("dev").name == "dev"


def test_forks_that_cannot_be_deleted_are_named(
    social: GraphBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, manifest = social.root, manifest_of(social.root)
    make(root, "dev")
    social.write({PERSON: [{"name": "Dave"}], COMPANY: [{"name": "Globex"}]}, branch="dev")
    real = branches.stored.delete_branch

    def fail_on_people(dataset: object, *args: object) -> None:
        if PERSON_FOLDER in str(dataset):
            raise StorageError("permission", PERSON_FOLDER, "denied")
        real(dataset, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(branches.stored, "delete_branch", fail_on_people)
    assert delete_branch(manifest, "dev") == (PERSON,)
    assert manifest.branch_names() == ["main"]
    assert dataset_branches(root) == {"dev"}
    assert dataset_branches(root, manifest.head().entries[COMPANY].path) == set()


# -- the released engine ---------------------------------------------------------------------------


@pytest.mark.engine
def test_the_engine_reads_and_writes_branches_made_here(social: GraphBuilder) -> None:
    root = social.root
    first = og.open(str(root)).history()[1]
    make(root, "dev")
    make(root, "old", Ref.commit(first.id))
    add_people(social, "dev", Dave=50)
    make(root, "dev/sub", Ref.branch("dev"))
    listed = engine_json("branch", "list", "--uri", root)["branches"]
    assert listed == ["dev", "dev/sub", "main", "old"]
    for branch in listed:
        names = [
            row["data"]["name"]
            for row in engine_export(root, branch)
            if row.get("type") == "Person"
        ]
        assert set(names) == people(root, branch)
    data = root.parent / "data.jsonl"
    data.write_text('{"type":"Person","data":{"name":"Frank","age":9}}\n')
    for branch in ("old", "dev/sub"):
        run_engine("load", root, "--data", data, "--mode", "merge", "--branch", branch, check=True)
        assert "Frank" in people(root, branch)
    merged = engine_json("branch", "merge", "--uri", root, "dev")
    assert merged["outcome"] in ("fast_forward", "merged")
    assert "Dave" in people(root, "main")
    run_engine("branch", "delete", "--uri", root, "dev/sub", check=True)
    assert delete_branch(manifest_of(root), "dev") == ()
    assert engine_json("branch", "list", "--uri", root)["branches"] == ["main", "old"]
    run_engine("branch", "create", "--uri", root, "dev", check=True)
    assert people(root, "dev") == people(root, "main")
    assert {t["classification"] for t in engine_json("repair", root)["tables"]} == {"no_drift"}


@pytest.mark.engine
def test_branches_of_a_graph_made_here_from_its_first_commit(tmp_path: Path) -> None:
    root = tmp_path / "g"
    genesis = create_graph(str(root), SOCIAL, SETTINGS)
    data = tmp_path / "data.jsonl"
    data.write_text('{"type":"Person","data":{"name":"Frank","age":9}}\n')
    run_engine("load", root, "--data", data, "--mode", "append", check=True)
    make(root, "genesis", Ref.commit(genesis.id))
    assert engine_export(root, "genesis") == []
    assert len(engine_export(root)) == 1
    run_engine("load", root, "--data", data, "--mode", "append", "--branch", "genesis", check=True)
    assert people(root, "genesis") == {"Frank"}
