"""Looking after a graph: what is found, what it says to do, and that doing it helps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark import health
from omnigraph_spark.clock import new_ulid, now_us
from omnigraph_spark.compaction import FRAGMENTS_KEPT
from omnigraph_spark.errors import (
    DamagedGraphError,
    DriftError,
    RecoveryRequiredError,
    SchemaApplyInProgressError,
    UnsupportedError,
)
from omnigraph_spark.formats.v4.sidecar import Sidecar, SidecarPin, WriterKind, write_sidecar
from omnigraph_spark.health import REMEDIES, FindingKind
from omnigraph_spark.recovery import repair as repairing
from omnigraph_spark.schema.indexes import IndexKind, declared_indexes
from omnigraph_spark.storage.local_objects import LocalObjects
from omnigraph_spark.tables import METADATA_TABLES
from tests.engine.graphs import PERSON, add_people, ages, listing
from tests.engine.recovering import manifest_of, pins, sidecars
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder
from tests.helpers.crashes import crashing, load

# Indexes are for other tests: what this package writes has none until it is asked for them.
INDEX = FindingKind.MISSING_INDEX


def kinds(graph: og.Graph) -> set[str]:
    return {str(found.kind) for found in graph.health() if found.kind is not INDEX}


def raw_delete(root: Path, where: str = "name = 'Alice'") -> None:
    """Write to a dataset past the graph."""
    path = manifest_of(root).head().entries[PERSON].path
    lance.dataset(str(root / path)).delete(where)


def raw_compaction(root: Path) -> None:
    """Compact a dataset past the graph."""
    path = manifest_of(root).head().entries[PERSON].path
    lance.dataset(str(root / path)).optimize.compact_files()


# -- health ----------------------------------------------------------------------------------------


def test_a_graph_the_engine_wrote_is_healthy(tmp_path: Path) -> None:
    for case in ("empty", "rich", "history"):
        assert og.open(golden.unpack(case, tmp_path)).health() == []


def test_every_finding_has_a_remedy() -> None:
    assert REMEDIES.keys() == set(FindingKind)
    assert all(remedy for remedy in REMEDIES.values())


def test_looking_changes_nothing(tmp_path: Path) -> None:
    for case in golden.crashed_cases():
        root = golden.unpack(case, tmp_path)
        before = listing(root)
        og.open(root, mode="r").health()
        assert listing(root) == before


def test_an_unfinished_write_is_found_with_what_recovery_would_do(written: Path) -> None:
    with crashing(points.DATASET_COMMITTED):
        load(og.open(written))
    graph = og.open(written, mode="r")
    [found] = [found for found in graph.health() if found.kind is not INDEX]
    assert found.kind == "unfinished_write"
    assert "RollBack" in found.detail
    assert "recover()" in found.remedy
    og.open(written).recover()
    assert kinds(og.open(written)) == set()


def test_a_dataset_ahead_of_its_pin_is_found(written: Path) -> None:
    raw_delete(written)
    [found] = [found for found in og.open(written).health() if found.kind is not INDEX]
    assert (found.kind, found.type_key) == ("head_ahead", PERSON)
    og.open(written).repair(force=True)
    assert kinds(og.open(written)) == set()


def test_a_branch_does_not_answer_for_what_main_did_since(written: Path) -> None:
    graph = og.open(written)
    graph.create_branch("dev")
    load(graph)
    assert kinds(graph.as_branch("dev")) == set()


def test_forks_that_no_branch_reads_are_found(written: Path) -> None:
    graph = og.open(written)
    graph.create_branch("dev")
    with crashing(points.FORK_CREATED):
        load(graph.as_branch("dev"))
    assert kinds(graph.as_branch("dev")) == {"orphan_fork"}
    path = graph.entries[PERSON].path
    lance.dataset(str(written / path)).create_branch("gone")
    [found] = [found for found in graph.health() if found.kind is not INDEX]
    assert (found.kind, found.type_key) == ("orphan_fork", PERSON)
    assert "'gone'" in found.detail
    load(graph.as_branch("dev"))
    assert kinds(graph.as_branch("dev")) == {"orphan_fork"}


def test_folders_of_types_that_are_not_there_are_found(tmp_path: Path) -> None:
    root = golden.unpack("crashed-apply-unstaged", tmp_path)
    graph = og.open(root)
    [found] = graph.health()
    assert found.kind == "orphan_folder"
    assert "nodes/6ce0cb19e201b153" in found.detail
    shutil.rmtree(root / "nodes/6ce0cb19e201b153")
    assert graph.health() == []


def test_a_lock_left_behind_is_found_and_released_on_request(tmp_path: Path) -> None:
    graph = og.open(golden.unpack("crashed-apply-locked", tmp_path))
    assert "schema_lock" in kinds(graph)
    with pytest.raises(SchemaApplyInProgressError):
        graph.repair()
    assert graph.release_schema_lock()
    assert "schema_lock" not in kinds(graph)
    assert graph.write(pa.table({"name": ["Zoe"]}), "Person") is not None


def test_half_a_lock_is_found_and_released_on_request(tmp_path: Path) -> None:
    """It blocks nobody here, and every schema change of the engine: Lance cannot make it again."""
    root = golden.unpack("crashed-apply-locked", tmp_path)
    with crashing(points.BRANCH_UNNAMED):
        og.open(root).release_schema_lock()
    graph = og.open(root)
    assert graph.write(pa.table({"name": ["Zoe"]}), "Person") is not None
    [half] = [found for found in graph.health() if found.kind == "schema_lock"]
    assert "half" in half.detail
    assert graph.release_schema_lock()
    assert "schema_lock" not in kinds(graph)
    assert list(root.glob("__manifest/tree/*/*")) == []
    assert not graph.release_schema_lock()


def test_indexes_that_are_declared_and_missing_are_found(social: GraphBuilder) -> None:
    social.create_index(PERSON, "id")
    social.publish()
    found = {(found.type_key, found.detail.split()[1]) for found in og.open(social.root).health()}
    assert found == {
        ("edge:Knows", "dst"),
        ("edge:Knows", "id"),
        ("edge:Knows", "src"),
        ("node:Company", "id"),
        ("node:Company", "name"),
        (PERSON, "name"),
    }


def test_an_empty_type_needs_no_index(tmp_path: Path) -> None:
    assert og.create(tmp_path / "g", "node Person { name: String @key }").health() == []


@pytest.mark.parametrize("case", ["rich", "history"])
def test_declared_indexes_are_those_the_engine_builds(case: str, tmp_path: Path) -> None:
    graph = og.open(golden.unpack(case, tmp_path), mode="r")
    built = METADATA_TABLES["indexes"].read(graph._state).to_pylist()
    assert {(row["type_key"], row["columns"][0], row["kind"]) for row in built} == {
        (str(entity.type_key), index.column, str(index.kind))
        for entity in graph.schema.types()
        if graph.snapshot().rows(str(entity.type_key))
        for index in declared_indexes(entity)
    }


def test_kinds_of_indexes_are_named_as_lance_names_them() -> None:
    assert set(IndexKind) == {"BTree", "Inverted", "IVF_FLAT"}


@pytest.mark.slow
def test_many_fragments_of_the_manifest_are_found(social: GraphBuilder) -> None:
    for number in range(FRAGMENTS_KEPT):
        add_people(social, **{f"P{number}": number})
    graph = og.open(social.root)
    assert "manifest_fragments" in kinds(graph)
    assert graph.write(pa.table({"name": ["Zoe"]}), "Person") is not None
    assert "manifest_fragments" not in kinds(graph)


def test_a_pinned_version_that_was_reclaimed_is_found(tmp_path: Path) -> None:
    root = golden.unpack("cleaned-branch", tmp_path)
    found = {f.kind: f for f in og.open(root, branch="keep").health()}
    assert FindingKind.VERSION_RECLAIMED in found
    assert "version_reclaimed" not in kinds(og.open(root))


def test_a_graph_that_was_moved_says_where_its_branches_look(tmp_path: Path) -> None:
    root = golden.unpack("branches", tmp_path)
    [found] = [f for f in og.open(root).health() if f.kind is FindingKind.MOVED_ROOT]
    assert str(golden.written_at("branches")) in found.detail


# -- repair ----------------------------------------------------------------------------------------


def repaired(graph: og.Graph, **how: bool) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    return {
        one.type_key: (str(one.classification), str(one.action), one.operations)
        for one in graph.repair(**how)
        if one.classification != "no_drift"
    }


@pytest.mark.parametrize("case", ["crashed-drift-no-sidecar", "crashed-drift-compaction"])
def test_a_preview_says_what_the_engines_does(case: str, tmp_path: Path) -> None:
    root = golden.unpack(case, tmp_path)
    transcript = (golden.GOLDEN / case / "transcript.txt").read_text(encoding="utf-8")
    text = transcript.rpartition("repair")[0].rpartition("$ omnigraph repair")[2]
    engine = json.loads(text[text.index("{") : text.rindex("}") + 1])
    before = listing(root)
    assert [
        {
            "table_key": one.type_key,
            "manifest_version": one.pinned_version,
            "lance_head_version": one.head_version,
            "classification": str(one.classification),
            "action": str(one.action),
            "operations": list(one.operations),
            "error": None,
        }
        for one in og.open(root, mode="r").repair()
    ] == engine["tables"]
    assert listing(root) == before


def test_compactions_are_published_when_confirmed(tmp_path: Path) -> None:
    root = golden.unpack("crashed-drift-compaction", tmp_path)
    graph = og.open(root)
    before = ages(graph)
    with pytest.raises(DriftError):
        graph.write(pa.table({"name": ["Zoe"]}), "Person")
    found = repaired(graph, confirm=True)
    assert found == {
        PERSON: ("verified_maintenance", "healed", ("ReserveFragments", "Rewrite")),
    }
    assert pins(root)[PERSON][0] == 10
    assert ages(graph) == before
    assert graph.history()[0].actor == "omnigraph:repair"
    assert graph.write(pa.table({"name": ["Zoe"]}), "Person") is not None
    assert repaired(graph) == {}


def test_rows_written_past_the_graph_are_published_only_when_forced(tmp_path: Path) -> None:
    root = golden.unpack("crashed-drift-no-sidecar", tmp_path)
    graph = og.open(root)
    rows = len(ages(graph))
    assert repaired(graph, confirm=True) == {PERSON: ("suspicious", "refused", ("Append",))}
    assert pins(root)[PERSON][0] == 5
    assert repaired(graph, force=True) == {PERSON: ("suspicious", "forced", ("Append",))}
    assert pins(root)[PERSON][0] == 6
    assert graph.history()[0].actor == "omnigraph:repair:force"
    assert len(ages(graph)) > rows
    assert graph.write(pa.table({"name": ["Zoe"]}), "Person") is not None


def test_what_is_verified_is_healed_beside_what_is_refused(social: GraphBuilder) -> None:
    add_people(social, Dave=1, Eve=2)
    raw_compaction(social.root)
    graph = og.open(social.root)
    lance.dataset(str(social.root / graph.entries["node:Company"].path)).delete("true")
    found = repaired(graph, confirm=True)
    assert {key: action for key, (_, action, _) in found.items()} == {
        PERSON: "healed",
        "node:Company": "refused",
    }
    assert repaired(graph, force=True).keys() == {"node:Company"}
    assert graph.snapshot().rows("Company") == 0


def test_a_branch_repairs_its_own_datasets(written: Path) -> None:
    graph = og.open(written)
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    load(dev)
    entry = dev.entries[PERSON]
    lance.dataset(str(written / entry.path / "tree" / "dev")).delete("name = 'Carol'")
    assert repaired(graph) == {}
    assert repaired(dev, force=True) == {PERSON: ("suspicious", "forced", ("Delete",))}
    assert "Carol" not in ages(dev)


def test_unfinished_writes_come_first(written: Path) -> None:
    with crashing(points.BEFORE_PUBLISH):
        load(og.open(written))
    graph = og.open(written, mode="r")
    with pytest.raises(RecoveryRequiredError, match="unfinished"):
        graph.repair()


@pytest.mark.parametrize("action", [{}, {"force": True}], ids=["preview", "force"])
def test_half_a_write_that_begins_meanwhile_is_not_taken_for_drift(
    written: Path, monkeypatch: pytest.MonkeyPatch, action: dict[str, bool]
) -> None:
    """The engine takes no lock: published alone, the first type of its write would tear it."""
    graph, before = og.open(written), pins(written)
    look = repairing._look

    def look_later(*args: Any) -> Any:
        if not sidecars(written):
            half = Sidecar(
                new_ulid(),
                now_us(),
                WriterKind.LOAD,
                tuple(
                    SidecarPin(key, f"{written}/{key}", version, version + 1)
                    for key, (version, _, _) in before.items()
                ),
            )
            write_sidecar(str(written), LocalObjects(), half)
            raw_delete(written)
        return look(*args)

    monkeypatch.setattr(repairing, "_look", look_later)
    with pytest.raises(RecoveryRequiredError):
        graph.repair(**action)
    assert pins(written) == before


def test_a_write_that_lands_while_one_looks_is_no_finding(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.open(written)
    listed, landed = health.list_branches, []

    def list_later(*args: Any) -> Any:
        if not landed:
            landed.append(og.open(written).delete("Person", ids=["Bob"]))
        return listed(*args)

    monkeypatch.setattr(health, "list_branches", list_later)
    assert kinds(graph) == set()
    assert landed


def test_who_may_not_write_may_look(written: Path) -> None:
    raw_delete(written)
    graph = og.open(written, mode="r")
    assert repaired(graph).keys() == {PERSON}
    for change in ({"confirm": True}, {"force": True}):
        with pytest.raises(UnsupportedError):
            graph.repair(**change)
    with pytest.raises(UnsupportedError):
        graph.release_schema_lock()


def test_a_dataset_behind_its_pin_is_no_drift_to_publish(written: Path) -> None:
    path = manifest_of(written).head().entries[PERSON].path
    min((written / path / "_versions").iterdir()).unlink()
    with pytest.raises(DamagedGraphError, match="pins node:Person at version 2"):
        og.open(written, mode="r").repair()
