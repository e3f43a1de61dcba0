"""Merging beside the engine: same outcome, same conflicts, same rows, and each goes on after us."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import MergeConflictsError
from tests.engine.recovering import snapshot_rows
from tests.helpers import golden
from tests.helpers.crashes import load, write_social
from tests.helpers.engine import engine_export, engine_json, run_engine
from tests.helpers.exported import exported_rows
from tests.helpers.merge_cells import (
    CELLS,
    Conflicts,
    broken_rules,
    row_conflicts,
    rows_of,
    without_conflicts,
    write_base,
    write_side,
)

_CONFLICT = re.compile(
    r'MergeConflict \{ table_key: "(?P<key>[^"]*)", row_id: (?:Some\("(?P<id>[^"]*)"\)|None), '
    r"kind: (?P<kind>\w+)"
)
OUTCOMES = {
    "already_up_to_date": "up_to_date",
    "fast_forward": "fast_forward",
    "merged": "three_way",
}


def conflicts_in(text: str) -> Conflicts:
    """The conflicts that the engine names; of a cardinality it names no row."""
    return {(each["key"], each["id"] or "", each["kind"]) for each in _CONFLICT.finditer(text)}


def engine_conflicts(root: Path, source: str, target: str) -> Conflicts:
    done = run_engine("branch", "merge", "--uri", root, source, "--into", target)
    assert done.returncode == 1
    return conflicts_in(done.stderr)


def our_export(root: Path, branch: str = "main") -> list[dict[str, Any]]:
    snapshot = og.open(root, branch=branch, mode="r").snapshot()
    return [row for key in snapshot.entries for row in exported_rows(key, snapshot.arrow(key))]


# -- what was recorded -----------------------------------------------------------------------------

RECORDED = json.loads((golden.Expected("conflicts").folder / "merges.json").read_text())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("conflicts", tmp_path_factory.mktemp("conflicts"))


@pytest.mark.parametrize("case", RECORDED)
def test_a_recorded_merge_ends_as_the_engines_did(recorded: Path, case: str) -> None:
    """RS-45, without the engine: branches it wrote, merged by us."""
    told = RECORDED[case]
    source, target = told["source"], told["target"]
    graph = og.open(recorded)
    if told["exit"] == 0:
        graph.merge(source, into=target)
        assert graph.preview_merge(source, into=target).outcome == "up_to_date"
        merged = graph.as_branch(target)
        rows = {key: found for key, found in snapshot_rows(merged).items() if found}
        assert rows == golden.by_type(golden.Expected("conflicts").export(target))
        [commit] = merged.history(limit=1)
        assert commit.merged_parent_id == graph.at(branch=source).commit.id
        return
    with pytest.raises(MergeConflictsError) as refused:
        graph.merge(source, into=target)
    conflicts = refused.value.conflicts
    expected = conflicts_in(told["stderr"])
    cardinality = "CardinalityViolation"
    found = {
        (each.type_key, "" if each.kind == cardinality else each.id, str(each.kind))
        for each in conflicts
    }
    # Of two rows with one value the engine names the second, we name the one that came.
    unique = {each for each in found if each[2] == "UniqueViolation"}
    if unique:
        assert {(key, kind) for key, _, kind in unique} == {
            (key, kind) for key, _, kind in expected
        }
    else:
        assert found == expected


# -- the truth table -------------------------------------------------------------------------------


@pytest.mark.engine
@pytest.mark.slow
def test_every_cell_of_the_truth_table_ends_as_with_the_engine(tmp_path: Path) -> None:
    """RS-45: the engine's conflicts are those of the table, and its merged rows are ours."""
    root = tmp_path / "graph"
    graph = write_base(root)
    cells = CELLS
    for stage, expected in (("rows", row_conflicts(cells)), ("rules", broken_rules(cells))):
        write_side(graph, f"{stage}-s", cells, "source")
        write_side(graph, f"{stage}-t", cells, "target")
        assert engine_conflicts(root, f"{stage}-s", f"{stage}-t") == expected
        cells = without_conflicts(cells, expected)
    write_side(graph, "s", cells, "source")
    for target in ("ours", "engines"):
        write_side(graph, target, cells, "target")
    told = engine_json("branch", "merge", "--uri", root, "s", "--into", "engines")
    assert OUTCOMES[told["outcome"]] == graph.preview_merge("s", into="ours").outcome
    graph.merge("s", into="ours")
    assert rows_of(graph, "ours") == rows_of(graph, "engines")


# -- taking turns ----------------------------------------------------------------------------------


def write_lines(root: Path, branch: str, *lines: str) -> None:
    """Let the engine load records."""
    path = root.parent / "lines.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run_engine("load", root, "--data", path, "--mode", "merge", "--branch", branch, check=True)


def person(name: str, age: int) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, "age": age}})


@pytest.mark.engine
@pytest.mark.slow
def test_the_engine_opens_a_graph_we_merged_and_merges_further_branches_into_it(
    tmp_path: Path,
) -> None:
    root = tmp_path / "graph"
    graph = write_social(root)
    for name in ("dev", "next"):
        graph.create_branch(name)
    load(graph.as_branch("dev"))
    graph.write(pa.table({"name": ["Dora"], "age": [60]}), "Person")
    ours = graph.merge("dev", actor="max")
    told = engine_json("commit", "list", root)["commits"][-1]
    assert (told["graph_commit_id"], told["actor_id"]) == (ours.id, "max")
    parents = (told["parent_commit_id"], told["merged_parent_commit_id"])
    assert parents == (ours.parent_id, ours.merged_parent_id)
    assert engine_export(root) == our_export(root)
    again = engine_json("branch", "merge", "--uri", root, "dev")
    assert again["outcome"] == "already_up_to_date"
    # The engine goes on with both branches, then we with what it made of them.
    write_lines(root, "next", person("Nia", 1))
    write_lines(root, "dev", person("Carol", 8))
    for source in ("next", "dev"):
        assert engine_json("branch", "merge", "--uri", root, source)["outcome"] == "merged"
    assert graph.preview_merge("next").outcome == graph.preview_merge("dev").outcome == "up_to_date"
    graph.merge("main", into="next")
    assert our_export(root, "next") == engine_export(root, "next") == engine_export(root)
    write_lines(root, "next", person("Oda", 2))
    assert engine_json("branch", "merge", "--uri", root, "next")["outcome"] == "fast_forward"
    names = {row["data"]["name"] for row in engine_export(root) if row.get("type") == "Person"}
    assert names == {"Alice", "Bob", "Carol", "Dora", "Nia", "Oda"}
    tables = engine_json("repair", root)["tables"]
    assert {table["classification"] for table in tables} == {"no_drift"}


@pytest.mark.engine
@pytest.mark.slow
def test_where_the_engine_loses_a_change_or_fails_for_good_we_merge(tmp_path: Path) -> None:
    """To the engine null and an empty text are the same, and a type changed back is an error."""
    root = tmp_path / "graph"
    graph = og.create(root, "node Person { name: String @key mail: String? age: I32? }")

    def write(branch: str, **mails: str | None) -> None:
        rows = pa.table({"name": list(mails), "mail": pa.array(mails.values(), pa.string())})
        graph.write(rows, "Person", mode="merge", branch=branch)

    write("main", Ann=None)
    for name in ("s", "ours", "engines"):
        graph.create_branch(name)
    for name in ("ours", "engines"):
        write(name, Bob="b")
    write("s", Ann="")
    run_engine("branch", "merge", "--uri", root, "s", "--into", "engines", check=True)
    graph.merge("s", into="ours")
    assert (graph.at(branch="engines").entity("Person", "Ann") or {})["mail"] is None
    assert (graph.at(branch="ours").entity("Person", "Ann") or {})["mail"] == ""
    graph.create_branch("back")
    write("back", Ann="x")
    write("back", Ann=None)
    refused = run_engine("branch", "merge", "--uri", root, "back")
    assert refused.returncode == 1
    assert "already exists" in refused.stderr
    assert graph.merge("back").merged_parent_id == graph.at(branch="back").commit.id
    # Merged by us it is over for the engine, too.
    again = engine_json("branch", "merge", "--uri", root, "back")
    assert again["outcome"] == "already_up_to_date"
