"""Recovery beside the engine: it finishes our crashes, we finish its, and both end alike."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.formats.v4.recoveries import read_recoveries
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.recovery.sweep import recover
from omnigraph_spark.storage.settings import StorageSettings
from tests.engine.recovering import reached
from tests.helpers import golden
from tests.helpers.crashes import WORKS, crashing, die_in, write_dev, write_social
from tests.helpers.engine import engine_export, engine_json, run_engine
from tests.helpers.exported import exported_rows

pytestmark = pytest.mark.engine

LOCAL = StorageSettings()


def our_export(root: Path, branch: str = "main") -> list[dict[str, Any]]:
    snapshot = og.open(root, branch=branch, mode="r").snapshot()
    return [row for key in snapshot.entries for row in exported_rows(key, snapshot.arrow(key))]


def pins(root: Path, branch: str = "main") -> list[tuple[Any, ...]]:
    """What the engine says is pinned."""
    names = ("table_key", "table_version", "table_branch", "row_count")
    tables = engine_json("snapshot", root, "--branch", branch)["tables"]
    return [tuple(table[name] for name in names) for table in tables]


def audit(root: Path) -> list[tuple[Any, ...]]:
    return [
        (record.kind, record.for_actor, record.operation_id, record.writer, record.outcomes)
        for record in read_recoveries(str(root), LOCAL)
    ]


def assert_clean(root: Path) -> None:
    """Nothing is pending, and the engine finds no drift."""
    assert list(root.glob("__recovery/*.json")) == []
    tables = engine_json("repair", root)["tables"]
    assert {table["classification"] for table in tables} == {"no_drift"}


def copy_whole(root: Path, copy: Path) -> Path:
    """Copy a graph so that the copy names itself where it named the original.

    That is in its branches and in its sidecars: the engine goes where they say.
    """
    old, new = (str(path).encode() for path in (root, copy))
    assert len(old) == len(new)
    shutil.copytree(root, copy)
    for path in copy.rglob("*"):
        if path.suffix in {".manifest", ".txn"} or path.match("__recovery/*.json"):
            path.write_bytes(path.read_bytes().replace(old, new))
    return copy


# -- crashes of ours -------------------------------------------------------------------------------


#: What a writer is told that another one overtook: nothing of it is visible.
CONFLICTS = (
    "OMNIGRAPH_CONFLICT",
    "OMNIGRAPH_EXPECTED_VERSION",
    "OMNIGRAPH_HEAD_MOVED",
    "OMNIGRAPH_DRIFT",
)


@dataclass(frozen=True)
class Crash:
    """Where a writer of ours dies, and whether its work is seen in the end."""

    work: str
    point: Failpoint
    at: int
    seen: bool
    branch: str = "main"

    def __str__(self) -> str:
        place = "" if self.branch == "main" else " on a branch"
        return f"{self.work}{place}, {self.point.name} {self.at}"


CRASHES = [
    Crash("load", points.BEFORE_SIDECAR, 1, seen=False),
    Crash("load", points.SIDECAR_WRITTEN, 1, seen=False),
    Crash("load", points.DATASET_COMMITTED, 1, seen=False),
    Crash("load", points.DATASET_COMMITTED, 2, seen=True),
    Crash("load", points.BEFORE_PUBLISH, 1, seen=True),
    Crash("load", points.PUBLISH_LANDED, 1, seen=True),
    Crash("load", points.AFTER_PUBLISH, 1, seen=True),
    Crash("load", points.SIDECAR_DELETED, 1, seen=True),
    Crash("overwrite", points.SIDECAR_WRITTEN, 1, seen=False),
    Crash("overwrite", points.DATASET_COMMITTED, 1, seen=True),
    Crash("delete", points.DATASET_COMMITTED, 1, seen=False),
    Crash("delete", points.BEFORE_PUBLISH, 1, seen=True),
    Crash("merge", points.SIDECAR_WRITTEN, 1, seen=False),
    Crash("merge", points.DATASET_COMMITTED, 2, seen=False),
    Crash("merge", points.MERGE_CONFIRMED, 1, seen=True),
    Crash("merge", points.AFTER_PUBLISH, 1, seen=True),
    Crash("load", points.FORK_CREATED, 1, seen=False, branch="dev"),
    Crash("load", points.SIDECAR_WRITTEN, 1, seen=False, branch="dev"),
    Crash("load", points.DATASET_COMMITTED, 1, seen=False, branch="dev"),
    Crash("load", points.BEFORE_PUBLISH, 1, seen=True, branch="dev"),
]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph that every crash begins with."""
    root = tmp_path_factory.mktemp("before") / "social"
    write_social(root)
    return root


@pytest.fixture(scope="module")
def exports(before: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What the engine exports before any work, and after each one that nothing interrupts."""
    found = {"": engine_export(before)}
    for name, work in WORKS.items():
        root = tmp_path_factory.mktemp("after") / name
        if name == "merge":
            write_dev(write_social(root))
        else:
            shutil.copytree(before, root)
        work(og.open(root))
        found[name] = engine_export(root)
    return found


@pytest.fixture(scope="module")
def crashed(
    before: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Crash], tuple[Path, Path]]:
    """Graphs in which a process died; there are two of each, one for every recovery."""
    folder = tmp_path_factory.mktemp("crashed")

    def make(number: int) -> tuple[Path, Path]:
        crash, root = CRASHES[number], folder / f"{number}-ours"
        if crash.work == "merge":
            write_dev(write_social(root))
        elif crash.branch == "main":
            shutil.copytree(before, root)
        else:
            write_social(root).create_branch(crash.branch)
        die_in(crash.work, root, crash.point, crash.at, crash.branch)
        return root, copy_whole(root, folder / f"{number}-copy")

    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(make, range(len(CRASHES))))
    return lambda crash: made[CRASHES.index(crash)]


@pytest.mark.parametrize("crash", CRASHES, ids=str)
def test_a_writer_of_ours_that_died_is_finished_or_undone_by_either(
    crash: Crash, crashed: Callable[[Crash], tuple[Path, Path]], exports: dict[str, list[Any]]
) -> None:
    ends_in = exports[crash.work if crash.seen else ""]
    ours, engines = crashed(crash)
    # A reader that recovers nothing sees the one state or the other, never something between.
    assert our_export(ours, crash.branch) in (exports[""], ends_in)
    og.open(ours)
    run_engine("snapshot", engines, check=True)
    for root in (ours, engines):
        assert engine_export(root, crash.branch) == our_export(root, crash.branch) == ends_in
        assert_clean(root)
    kinds = [[kind for kind, *_ in audit(root)] for root in (ours, engines)]
    assert kinds[0] == kinds[1]
    for root in (ours, engines):
        assert_the_next_writes_work(root, crash.branch)


def assert_the_next_writes_work(root: Path, branch: str) -> None:
    """First ours, then the engine's, and both are seen."""
    graph = og.open(root, branch=branch)
    assert graph.write(pa.table({"name": ["Yan"], "age": [1]}), "Person") is not None
    rows = root.parent / f"{root.name}.jsonl"
    rows.write_text('{"type":"Person","data":{"name":"Zoe","age":2}}\n', encoding="utf-8")
    run_engine("load", root, "--data", rows, "--mode", "merge", "--branch", branch, check=True)
    names = {row["data"]["name"] for row in engine_export(root, branch) if "type" in row}
    assert {"Yan", "Zoe"} <= names
    assert our_export(root, branch) == engine_export(root, branch)


# -- beside a writer that lives --------------------------------------------------------------------


@pytest.mark.parametrize("work", ["load", "delete", "overwrite"])
@pytest.mark.parametrize(
    ("point", "at"),
    [
        (points.SIDECAR_WRITTEN, 1),
        (points.DATASET_COMMITTED, 1),
        (points.BEFORE_PUBLISH, 1),
        (points.AFTER_PUBLISH, 1),
    ],
    ids=lambda value: value.name if isinstance(value, Failpoint) else "",
)
def test_an_engine_that_opens_the_graph_under_a_live_writer_makes_no_third_state(
    work: str,
    point: Failpoint,
    at: int,
    before: Path,
    exports: dict[str, list[Any]],
    tmp_path: Path,
) -> None:
    """RS-28: it takes every sidecar for one of a dead writer, and finishes or undoes the work."""
    root = Path(shutil.copytree(before, tmp_path / "social"))
    opened: list[int] = []

    def engine_opens() -> None:
        points.disarm()
        opened.append(run_engine("snapshot", root, check=True).returncode)

    told = ""
    with reached(point, engine_opens, at), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            WORKS[work](og.open(root))
        except og.OmnigraphError as error:
            told = error.code
    assert opened == [0]
    assert told in ("", "OMNIGRAPH_RECOVERY_REQUIRED", *CONFLICTS)
    seen = our_export(root)
    og.open(root)
    ended = our_export(root)
    if told == "":
        assert seen == ended == exports[work]
    elif told in CONFLICTS:
        assert seen == ended == exports[""]
    assert ended in (exports[""], exports[work])
    assert engine_export(root) == ended
    assert_clean(root)
    assert_the_next_writes_work(root, "main")


# -- the same state to both ------------------------------------------------------------------------

Change = Callable[[Path], None]


def in_sidecar(**values: Any) -> Change:
    """Change fields of the one sidecar."""

    def change(root: Path) -> None:
        [path] = root.glob("__recovery/*.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | values, indent=2))

    return change


def in_pin(at: int = 0, **values: Any) -> Change:
    """Change fields of one pin of the one sidecar."""

    def change(root: Path) -> None:
        [path] = root.glob("__recovery/*.json")
        sidecar = json.loads(path.read_text())
        sidecar["tables"][at] |= values
        path.write_text(json.dumps(sidecar, indent=2))

    return change


def forks_not_moved(root: Path) -> None:
    """Take the one commit away that the writer made to a fork."""
    versions = root / "nodes/40d76f1f51639ec0/tree/feature/_versions"
    min(versions.glob("*.manifest")).unlink()
    (versions / "latest_version_hint.json").unlink(missing_ok=True)


def without_staging(root: Path) -> None:
    for path in root.glob("*.staging"):
        path.unlink()


def without_sidecar(root: Path) -> None:
    for path in root.glob("__recovery/*.json"):
        path.unlink()


def source_moved(root: Path) -> None:
    (root / "_schema.pg.staging").rename(root / "_schema.pg")


def staged_as_in_force(root: Path) -> None:
    for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json"):
        shutil.copy(root / name, root / f"{name}.staging")


def index_built(root: Path) -> None:
    lance.dataset(str(root / "nodes/40d76f1f51639ec0")).create_scalar_index("age", "BTREE")


#: Rows of the format's truth table that no golden case shows, made from one that is close.
STATES: dict[str, tuple[str, tuple[Change, ...]]] = {
    "no tables": ("crashed-armed", (in_sidecar(tables=[]),)),
    "sidecar version 1": ("crashed-unpublished", (in_sidecar(schema_version=1),)),
    "unknown fields": ("crashed-unpublished", (in_sidecar(later="on"), in_pin(size=7))),
    "a mutation": ("crashed-unpublished", (in_sidecar(writer_kind="Mutation"),)),
    "a mutation, half": ("crashed-partial", (in_sidecar(writer_kind="Mutation"),)),
    "a merge confirmed higher": ("crashed-merge-confirmed", (in_pin(confirmed_version=8),)),
    "a merge of version 1": ("crashed-merge-unconfirmed", (in_sidecar(schema_version=1),)),
    "indexes, two steps": (
        "crashed-optimize",
        (in_sidecar(writer_kind="EnsureIndices"), index_built),
    ),
    "indexes, not moved": ("crashed-armed", (in_sidecar(writer_kind="EnsureIndices"),)),
    "forked and not moved": ("crashed-branch-partial", (forks_not_moved,)),
    "a rewritten table without staged files": (
        "crashed-apply-property-staged",
        (without_staging,),
    ),
    "the first schema file moved": ("crashed-apply-staged", (source_moved,)),
    "staged as in force": ("crashed-unpublished", (staged_as_in_force,)),
    "staged and never published": ("crashed-apply-staged", (without_sidecar,)),
}


@pytest.fixture
def two_places() -> Iterator[Callable[[str], tuple[Path, Path]]]:
    """Unpack a golden case twice where the engine can use it."""
    with ExitStack() as stack:
        yield lambda case: (
            stack.enter_context(golden.in_place(case)),
            stack.enter_context(golden.in_place(case)),
        )


@pytest.mark.parametrize("state", STATES)
def test_every_other_state_of_the_truth_table_ends_alike(
    state: str, two_places: Callable[[str], tuple[Path, Path]]
) -> None:
    case, changes = STATES[state]
    ours, engines = two_places(case)
    for root in (ours, engines):
        for change in changes:
            change(root)
    recover(Manifest(str(ours), LOCAL))
    run_engine("snapshot", engines, check=True)
    for branch in engine_json("branch", "list", "--uri", engines)["branches"]:
        assert pins(ours, branch) == pins(engines, branch)
        assert engine_export(ours, branch) == engine_export(engines, branch)
    assert audit(ours) == audit(engines)
    for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json"):
        assert (ours / name).read_bytes() == (engines / name).read_bytes()
    assert list(ours.glob("*.staging")) == list(engines.glob("*.staging")) == []
    for root in (ours, engines):
        assert_clean(root)


@pytest.mark.parametrize(
    ("point", "case"),
    [
        (points.DATASET_RESTORED, "crashed-partial"),
        (points.DATASET_RESTORED, "crashed-branch-partial"),
        (points.RECOVERY_PUBLISHED, "crashed-partial"),
        (points.RECOVERY_PUBLISHED, "crashed-unpublished"),
        (points.RECOVERY_PUBLISHED, "crashed-apply-staged"),
        (points.SCHEMA_FILE_MOVED, "crashed-apply-staged"),
        (points.RECOVERY_AUDITED, "crashed-merge-confirmed"),
    ],
    ids=lambda value: value.name if isinstance(value, Failpoint) else value,
)
def test_the_engine_goes_on_where_a_recovery_of_ours_died(
    point: Failpoint, case: str, golden_in_place: Callable[[str], Path]
) -> None:
    root = golden_in_place(case)
    with crashing(point):
        recover(Manifest(str(root), LOCAL))
    run_engine("snapshot", root, check=True)
    after = golden.Expected(case).after
    for branch in after.branches():
        assert engine_export(root, branch) == after.export(branch)
        assert our_export(root, branch) == after.export(branch)
    assert_clean(root)


def test_the_engine_reads_the_audit_rows_we_wrote_beside_its_own(
    golden_in_place: Callable[[str], Path],
) -> None:
    root = golden_in_place("crashed-partial")
    recover(Manifest(str(root), LOCAL))
    [armed] = (golden.GOLDEN / "crashed-armed" / "sidecars").iterdir()
    text = armed.read_text().replace(str(golden.written_at("crashed-armed")), str(root))
    (root / "__recovery" / armed.name).write_text(text)
    run_engine("snapshot", root, check=True)
    # The pin is above what that sidecar expects, which to the engine means that it went through.
    assert [kind for kind, *_ in audit(root)] == ["RolledBack", "RolledForward"]
    stored = lance.dataset(str(root / "_graph_commit_recoveries.lance"))
    assert stored.version == 3
    assert stored.data_storage_version == "2.2"
