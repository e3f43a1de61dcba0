"""Schema changes that died: their staged files are put in force or thrown away."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import (
    SchemaFilesError,
)
from omnigraph_spark.formats.v4.contract import schema_files
from omnigraph_spark.recovery.sweep import recover
from omnigraph_spark.schema.parser import parse_schema
from tests.engine.graphs import ages, listing
from tests.engine.recovering import (
    PRE,
    assert_as_the_engine_left_it,
    assert_settled,
    manifest_of,
    pins,
)
from tests.helpers import golden
from tests.helpers.crashes import crashing


def forget_sidecars(root: Path) -> None:
    for path in root.glob("__recovery/*.json"):
        path.unlink()


def published_and_staged(case: str, tmp_path: Path) -> Path:
    """A schema change that died between its publish and moving its files, without a sidecar."""
    root = golden.unpack(case, tmp_path)
    with crashing(points.RECOVERY_PUBLISHED):
        recover(manifest_of(root))
    forget_sidecars(root)
    return root


@pytest.mark.parametrize("case", ["crashed-apply-staged", "crashed-apply-property-staged"])
def test_staged_files_of_a_published_change_are_put_in_force(case: str, tmp_path: Path) -> None:
    root = published_and_staged(case, tmp_path)
    staged = (root / "_schema.pg.staging").read_bytes()
    og.open(root)
    assert (root / "_schema.pg").read_bytes() == staged
    assert_settled(root)


@pytest.mark.parametrize("case", ["crashed-apply-staged", "crashed-apply-property-staged"])
def test_staged_files_of_a_change_that_was_not_published_are_deleted(
    case: str, tmp_path: Path
) -> None:
    root = golden.unpack(case, tmp_path)
    forget_sidecars(root)
    live = (root / "_schema.pg").read_bytes()
    og.open(root)
    assert (root / "_schema.pg").read_bytes() == live
    assert list(root.glob("*.staging")) == []


def test_staged_files_equal_to_those_in_force_are_deleted(written: Path) -> None:
    for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json"):
        shutil.copy(written / name, written / f"{name}.staging")
    og.open(written)
    assert_settled(written)


def test_staging_that_was_not_complete_counts_for_nothing(tmp_path: Path) -> None:
    root = golden.unpack("crashed-apply-staged", tmp_path)
    (root / "__schema_state.json.staging").unlink()
    [done] = recover(manifest_of(root))
    assert done.kind == "RolledBack"
    assert_settled(root)


def staged_description(root: Path) -> None:
    """Stage a schema that differs in a description alone, as a change of it would."""
    text = (root / "_schema.pg").read_text()
    source = text.replace("node Company {", 'node Company @description("A firm") {')
    assert source != text
    for name, content in schema_files(source, parse_schema(source)).items():
        (root / f"{name}.staging").write_bytes(content)


def test_a_change_of_words_that_nobody_can_judge_is_left_to_a_person(written: Path) -> None:
    staged_description(written)
    with pytest.warns(UserWarning, match="OMNIGRAPH_SCHEMA_FILES"):
        graph = og.open(written)
    with pytest.raises(SchemaFilesError, match="nobody can tell"):
        graph.recover()
    assert ages(graph) == PRE
    assert "staged_schema" in {found.kind for found in graph.health()}


def test_files_that_were_being_moved_are_moved_on(tmp_path: Path) -> None:
    root = published_and_staged("crashed-apply-staged", tmp_path)
    (root / "_schema.pg.staging").rename(root / "_schema.pg")
    og.open(root)
    assert "Tag" in (root / "_schema.ir.json").read_text()
    assert_settled(root)


@pytest.mark.parametrize("sidecar", [False, True], ids=["alone", "with its sidecar"])
@pytest.mark.parametrize("copied", [1, 2, 3])
def test_files_that_were_copied_and_not_yet_deleted_are_moved_on(
    tmp_path: Path, copied: int, sidecar: bool
) -> None:
    """Object stores have no rename: a file is copied, and then the staged one is deleted."""
    if sidecar:
        root = golden.unpack("crashed-apply-staged", tmp_path)
        with crashing(points.RECOVERY_PUBLISHED):
            recover(manifest_of(root))
    else:
        root = published_and_staged("crashed-apply-staged", tmp_path)
    files = ["_schema.pg", "_schema.ir.json", "__schema_state.json"][:copied]
    for name in files[:-1]:
        (root / f"{name}.staging").rename(root / name)
    shutil.copy(root / f"{files[-1]}.staging", root / files[-1])
    og.open(root)
    assert "Tag" in (root / "_schema.ir.json").read_text()
    assert_settled(root)


@pytest.mark.parametrize("rename", [True, False], ids=["renamed", "copied"])
@pytest.mark.parametrize("moved", [1, 2, 3])
def test_who_only_reads_while_files_are_being_moved_has_the_schema_that_is_coming(
    moved: int, rename: bool, tmp_path: Path
) -> None:
    """Whoever moved them may be dead, and reading moves nothing on."""
    root = published_and_staged("crashed-apply-staged", tmp_path)
    files = ["_schema.pg", "_schema.ir.json", "__schema_state.json"]
    for at, name in enumerate(files[:moved], 1):
        staged = root / f"{name}.staging"
        shutil.copy(staged, root / name)
        if rename or at < moved:
            staged.unlink()
    before = listing(root)
    graph = og.open(root, mode="r")
    assert "Tag" in graph.schema.node_types
    assert ages(graph) == {"Alice": 31, "Bob": 25, "Carol": 41, "Dave": None}
    assert listing(root) == before


@pytest.mark.parametrize("damaged", ["_schema.pg", "_schema.ir.json", "__schema_state.json"])
def test_staged_files_hide_no_damage(damaged: str, tmp_path: Path) -> None:
    """A change that was not published leaves its files as well."""
    root = golden.unpack("crashed-apply-staged", tmp_path)
    (root / damaged).write_bytes((root / damaged).read_bytes()[:-2])
    with pytest.raises(SchemaFilesError):
        og.open(root, mode="r").snapshot()


@pytest.mark.parametrize("case", ["crashed-apply-staged", "crashed-apply-property-staged"])
def test_a_schema_in_force_before_its_publish_goes_forward(case: str, tmp_path: Path) -> None:
    """A recovery of the engine that dies here leaves it so, and its next one undoes the rest."""
    root = golden.unpack(case, tmp_path)
    for path in root.glob("*.staging"):
        path.rename(path.with_suffix(""))
    [done] = recover(manifest_of(root))
    assert done.kind == "RolledForward"
    assert_as_the_engine_left_it(root, case)
    assert_settled(root)


def test_a_sidecar_left_by_a_change_that_went_through_says_so(tmp_path: Path) -> None:
    """The engine calls it rolled back; the graph is the same."""
    root = golden.unpack("crashed-apply-staged", tmp_path)
    kept = {path: path.read_bytes() for path in root.glob("__recovery/*.json")}
    recover(manifest_of(root))
    shutil.rmtree(root / "_graph_commit_recoveries.lance")
    for path, content in kept.items():
        path.write_bytes(content)
    [done] = recover(manifest_of(root))
    assert done.kind == "RolledForward"
    assert pins(root)["node:Tag"] == (1, None, 0)


def test_while_the_lock_is_held_staged_files_are_left_alone(tmp_path: Path) -> None:
    root = golden.unpack("crashed-apply-staged", tmp_path)
    forget_sidecars(root)
    lance.dataset(str(root / "__manifest")).create_branch("__schema_apply_lock__")
    graph = og.open(root)
    assert len(list(root.glob("*.staging"))) == 3
    assert graph.release_schema_lock()
    assert list(root.glob("*.staging")) == []
    assert not graph.release_schema_lock()
