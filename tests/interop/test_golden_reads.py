"""Every golden graph reads as the engine that wrote it says: rows, pins, commits, branches, schema.

Ours are read from a copy at another place than the graph was written at.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import HistoryReclaimedError
from omnigraph_spark.schema.ir import ir_hash, ir_pretty
from omnigraph_spark.schema.parser import parse_schema
from tests.helpers import golden
from tests.helpers.builder import fold
from tests.helpers.engine import run_engine
from tests.helpers.exported import exported_rows, lines
from tests.helpers.golden import Expected

Opened = Callable[..., og.Graph]

#: On these branches the engine's recovery published rows, and it asked afterwards. A reader sees
#: the graph that all crashed cases began as.
PUBLISHED_BY_RECOVERY = {
    "crashed-apply-property-staged": {"main"},
    "crashed-branch-unpublished": {"feature"},
    "crashed-merge-confirmed": {"main"},
    "crashed-two-sidecars": {"main"},
    "crashed-unpublished": {"main"},
}
#: The engine refuses these, so it has no answers; they are the graph they began as, too.
NEVER_RECOVERED = {"crashed-corrupt", "crashed-future-version"}
#: Still the graph it began as after its recovery, which found nothing to keep.
BEGAN_AS = "crashed-armed"


def readable_branches() -> list[tuple[str, str]]:
    return [
        (case, branch)
        for case in golden.intact_cases()
        for branch in Expected(case).branches()
        if (case, branch) != (golden.RECLAIMED, "keep")
    ]


def crashed_branches() -> list[tuple[str, str]]:
    return [(case, b) for case in golden.crashed_cases() for b in golden.pins_before(case)]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Open a golden graph; each is unpacked once, at a place of our own."""
    roots: dict[str, Path] = {}

    def open_case(case: str, branch: str = "main") -> og.Graph:
        if case not in roots:
            roots[case] = golden.unpack(case, tmp_path_factory.mktemp("moved"))
        return og.open(str(roots[case]), branch=branch, mode="r")

    return open_case


def export(snapshot: og.Snapshot) -> list[str]:
    """Everything a snapshot holds, as `omnigraph export` would print it."""
    return [
        line
        for type_key in snapshot.entries
        for line in lines(exported_rows(type_key, snapshot.arrow(type_key, blobs="bytes")))
    ]


def pins(snapshot: og.Snapshot) -> list[dict[str, Any]]:
    """The entries of a snapshot, as `omnigraph snapshot --json` lists them."""
    return [
        {
            "table_key": type_key,
            "table_path": entry.path,
            "table_version": entry.dataset_version,
            "table_branch": entry.dataset_branch,
            "row_count": entry.rows,
        }
        for type_key, entry in snapshot.entries.items()
    ]


def as_listed(commit: og.Commit) -> dict[str, Any]:
    """A commit, as `omnigraph commit list --json` shows it."""
    return {
        "graph_commit_id": commit.id,
        "manifest_branch": None if commit.branch == "main" else commit.branch,
        "manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent_id,
        "merged_parent_commit_id": commit.merged_parent_id,
        "actor_id": commit.actor,
        "created_at": commit.created_at_us,
    }


def commits_of(case: str) -> dict[str, dict[str, Any]]:
    """Every commit of a case, on whatever branch it is visible, by id."""
    expected = Expected(case)
    return {
        commit["graph_commit_id"]: commit
        for branch in expected.branches()
        for commit in expected.commits(branch)
    }


# -- heads of branches ---------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "branch"), readable_branches())
def test_rows_equal_the_engines_export(opened: Opened, case: str, branch: str) -> None:
    snapshot = opened(case, branch).snapshot()

    assert export(snapshot) == lines(Expected(case).export(branch))
    for type_key, entry in snapshot.entries.items():
        assert snapshot.arrow(type_key, columns=["id"]).num_rows == entry.rows


@pytest.mark.parametrize(("case", "branch"), [*readable_branches(), (golden.RECLAIMED, "keep")])
def test_the_snapshot_equals_the_engines(opened: Opened, case: str, branch: str) -> None:
    snapshot = opened(case, branch).snapshot()

    expected = Expected(case).snapshot(branch)
    assert pins(snapshot) == expected["tables"]
    assert snapshot.manifest_version == expected["manifest_version"]
    assert snapshot.commit.id == Expected(case).commits(branch)[-1]["graph_commit_id"]


@pytest.mark.parametrize(("case", "branch"), [*readable_branches(), (golden.RECLAIMED, "keep")])
def test_the_history_equals_the_engines_commit_list(opened: Opened, case: str, branch: str) -> None:
    history = opened(case, branch).history()

    assert [as_listed(commit) for commit in reversed(history)] == Expected(case).commits(branch)


@pytest.mark.parametrize("case", golden.intact_cases())
def test_the_branches_equal_the_engines_list_and_heads(opened: Opened, case: str) -> None:
    branches = opened(case).branches()

    expected = Expected(case)
    assert {branch.name: branch.head.id for branch in branches} == {
        name: expected.commits(name)[-1]["graph_commit_id"] for name in expected.branches()
    }
    assert [branch.name for branch in branches] == expected.branches()


def test_branches_know_what_they_were_made_from(opened: Opened) -> None:
    parents = {branch.name: branch.parent for branch in opened("branches").branches()}

    assert parents["main"] is None
    assert parents["feature"] == "main"
    assert parents["feature-sub"] == "feature"


# -- commits -------------------------------------------------------------------------------------


def read_with_lance(root: Path, commit: dict[str, Any]) -> dict[str, list[str] | str]:
    """Every type at a commit, read without our code: fold the pins, open, scan."""
    manifest = lance_dataset(
        root, "__manifest", commit["manifest_branch"], commit["manifest_version"]
    )
    state: dict[str, list[str] | str] = {}
    for type_key, pin in fold(manifest.to_table().to_pylist()).items():
        try:
            dataset = lance_dataset(root, pin.path, pin.branch, pin.version)
        except ValueError as error:
            if "was not found" not in str(error):
                raise
            state[type_key] = f"version {pin.version} was reclaimed"
        else:
            # A struct is a blob: they are compared with the export, which knows nulls from empties.
            columns = [f.name for f in dataset.schema if not pa.types.is_struct(storage(f.type))]
            state[type_key] = lines(exported_rows(type_key, dataset.to_table(columns=columns)))
    return state


def lance_dataset(root: Path, path: str, branch: str | None, version: int) -> lance.LanceDataset:
    return lance.dataset(f"{root}/{path}" + (f"/tree/{branch}" if branch else ""), version=version)


def storage(type_: pa.DataType) -> pa.DataType:
    return type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_


def read_with_ours(snapshot: og.Snapshot) -> dict[str, list[str] | str]:
    """Every type of a snapshot, or what the error says of it."""
    state: dict[str, list[str] | str] = {}
    for type_key in snapshot.entries:
        try:
            table = snapshot.arrow(type_key, blobs="none")
        except HistoryReclaimedError as error:
            state[error.type] = f"version {error.dataset_version} was reclaimed"
        else:
            state[type_key] = lines(exported_rows(type_key, table))
    return state


@pytest.mark.slow
@pytest.mark.parametrize("case", golden.intact_cases())
def test_every_commit_reads_as_lance_alone_reads_it(
    opened: Opened, golden_in_place: Callable[[str], Path], case: str
) -> None:
    graph, root = opened(case), golden_in_place(case)

    for commit_id, commit in commits_of(case).items():
        snapshot = graph.at(commit=commit_id)
        assert snapshot.commit.id == commit_id
        assert read_with_ours(snapshot) == read_with_lance(root, commit), commit_id


@pytest.mark.parametrize("case", golden.intact_cases())
def test_a_commit_its_version_and_its_time_are_one_snapshot(opened: Opened, case: str) -> None:
    graph = opened(case)

    for commit in graph.history():
        by_commit = graph.at(commit=commit.id)
        by_version = graph.at(version=commit.manifest_version)
        by_time = graph.at(timestamp=commit.created_at)
        assert pins(by_version) == pins(by_time) == pins(by_commit)
        assert by_version.commit == by_time.commit == by_commit.commit == commit


def test_every_commit_of_a_history_has_the_rows_the_engine_found_there(opened: Opened) -> None:
    graph = opened("history")

    found = {}
    for commit in graph.history():
        people = graph.at(commit=commit.id).arrow("node:Person", columns=["name", "age", "city"])
        found[commit.id] = people.sort_by("name").to_pylist()

    assert found == Expected("history").persons_at()


@pytest.mark.engine
@pytest.mark.parametrize(
    "case", ["branches", "cleaned-branch", "conflicts", "history", "optimized"]
)
def test_every_commit_has_the_people_the_engine_finds_there(
    opened: Opened, golden_in_place: Callable[[str], Path], case: str
) -> None:
    graph, root = opened(case), golden_in_place(case)
    query = "query q() { match { $p: Person } return { $p.name, $p.age, $p.city } }"

    for commit_id in commits_of(case):
        args = ("query", "--store", root, "-e", query, "--snapshot", commit_id, "--json")
        answer = run_engine(*args)
        snapshot = graph.at(commit=commit_id)
        if answer.returncode != 0:
            assert "was not found" in answer.stderr
            with pytest.raises(HistoryReclaimedError):
                snapshot.arrow("node:Person")
            continue
        theirs = json.loads(answer.stdout)["rows"]
        ours = snapshot.arrow("node:Person", columns=["name", "age", "city"]).to_pylist()
        assert sorted(ours, key=by_name) == sorted(
            ({key.removeprefix("p."): value for key, value in row.items()} for row in theirs),
            key=by_name,
        )


def by_name(row: dict[str, Any]) -> str:
    return str(row["name"])


# -- the schema ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", golden.cases())
def test_the_compiled_schema_and_its_hash_equal_the_stored_ones(opened: Opened, case: str) -> None:
    graph = opened(case)
    root = Path(graph.root)

    assert ir_pretty(graph.schema) == (root / "_schema.ir.json").read_text(encoding="utf-8")
    state = json.loads((root / "__schema_state.json").read_text(encoding="utf-8"))
    assert ir_hash(graph.schema) == state["schema_ir_hash"]
    assert graph.schema == parse_schema((root / "_schema.pg").read_text(encoding="utf-8"))


# -- what a crash left ---------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "branch"), crashed_branches())
def test_a_crashed_graph_reads_at_its_last_published_state(
    opened: Opened, case: str, branch: str
) -> None:
    snapshot = opened(case, branch).snapshot()

    assert {
        type_key: (entry.dataset_version, entry.dataset_branch, entry.rows)
        for type_key, entry in snapshot.entries.items()
    } == {
        type_key: (pin["pin"], pin["branch"], pin["rows"])
        for type_key, pin in golden.pins_before(case)[branch].items()
    }
    if case in NEVER_RECOVERED or branch in PUBLISHED_BY_RECOVERY.get(case, set()):
        expected = Expected(BEGAN_AS).after.export()
    else:
        expected = Expected(case).after.export(branch)
    assert export(snapshot) == lines(expected)


@pytest.mark.parametrize("case", golden.crashed_cases())
def test_a_crashed_graph_lists_the_branches_users_made(opened: Opened, case: str) -> None:
    names = [branch.name for branch in opened(case).branches()]

    assert names == sorted(golden.pins_before(case))


@pytest.mark.parametrize("case", golden.cases())
def test_reading_changes_no_file(tmp_path: Path, case: str) -> None:
    root = golden.unpack(case, tmp_path)
    before = digests(root)

    graph = og.open(str(root), mode="r")
    for branch in graph.branches():
        read_with_ours(graph.at(branch=branch.name))
    graph.history()

    assert digests(root) == before


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


# -- what engine 0.8.0 does wrong -----------------------------------------------------------------


def test_a_reclaimed_version_says_which_branch_type_and_version_it_was(opened: Opened) -> None:
    snapshot = opened(golden.RECLAIMED, "keep").snapshot()

    with pytest.raises(HistoryReclaimedError) as reclaimed:
        snapshot.arrow("edge:Knows")

    error = reclaimed.value
    assert (error.branch, error.type, error.dataset_version) == ("keep", "edge:Knows", 5)
    assert "version reclaimed" in str(error)
    assert "'keep'" in str(error)
    assert "edge:Knows" in str(error)


def test_what_a_cleanup_left_of_a_branch_still_reads(opened: Opened) -> None:
    snapshot = opened(golden.RECLAIMED, "keep").snapshot()

    before = golden.by_type(Expected(golden.RECLAIMED).before.export("keep"))
    left = {key: rows for key, rows in read_with_ours(snapshot).items() if isinstance(rows, list)}

    assert sorted(left) == ["edge:WorksAt", "node:Person"]
    assert left == {key: lines(before[key]) for key in left}


@pytest.mark.parametrize(
    ("branch", "type_key"),
    [
        ("feature-sub", "node:Person"),  # read from its parent branch
        ("feature-sub", "node:Company"),  # forked from main
        ("feature-sub", "edge:Knows"),
        ("src2", "node:Person"),  # a fork of a fork: its indexes lie where the engine does not look
    ],
)
def test_a_branch_of_a_branch_finds_every_row_by_id(
    opened: Opened, branch: str, type_key: str
) -> None:
    snapshot = opened("branches", branch).snapshot()
    rows = golden.by_type(Expected("branches").export(branch))[type_key]

    for row in rows:
        found = snapshot.arrow(type_key, where=f"id = '{row['data']['id']}'")
        assert lines(exported_rows(type_key, found)) == lines([row])
    assert snapshot.arrow(type_key, where="id = 'nobody'").num_rows == 0
