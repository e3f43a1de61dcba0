"""Files that no version names are found once they have lain there for longer than a write takes."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.health import Finding
from omnigraph_spark.storage import orphans
from tests.engine.graphs import PERSON, PERSON_FOLDER
from tests.helpers import crashes, golden
from tests.helpers.crashes import crashing
from tests.helpers.files import listing, named_files
from tests.helpers.s3 import S3Server


def orphan_files(graph: og.Graph) -> list[Finding]:
    return [found for found in graph.health() if found.kind == "orphan_files"]


def age(folder: Path, seconds: float = 2 * orphans.ORPHAN_SECONDS) -> None:
    """Make everything below a folder as old as if it had been written then."""
    for path in folder.rglob("*"):
        written = path.stat().st_mtime - seconds
        os.utime(path, (written, written))


def test_files_of_a_dead_writer_are_found_a_day_later(tmp_path: Path) -> None:
    graph = crashes.write_social(tmp_path / "graph")
    folder = Path(graph.root) / PERSON_FOLDER
    with crashing(points.BEFORE_SIDECAR):
        graph.write(pa.table({"name": ["Zoe"], "age": [2]}), "Person")
    notes = folder / "_staging-0123"
    notes.mkdir()
    (notes / "0.json").write_text("{}")
    assert orphan_files(graph) == [], "a live writer may have staged them"
    before = listing(Path(graph.root))
    age(folder)
    noted, data = orphan_files(graph)
    assert (noted.type_key, data.type_key) == (PERSON, PERSON)
    assert noted.detail.startswith("1 file of 2 bytes in _staging-0123 ")
    staged = [
        path for path in (folder / "data").iterdir() if path.name not in named_files(graph, PERSON)
    ]
    assert data.detail.startswith(f"1 file of {staged[0].stat().st_size:,} bytes in data ")
    assert "leave them" in data.remedy
    assert listing(Path(graph.root)) == before


def test_files_of_older_versions_and_of_branches_have_an_owner(tmp_path: Path) -> None:
    """Rows replaced and deleted leave files that old versions name, blobs lie beside theirs."""
    for case in ("rich", "history"):
        root = golden.unpack(case, tmp_path)
        age(root)
        graph = og.open(root, mode="r")
        assert [orphan_files(graph.as_branch(branch.name)) for branch in graph.branches()] == [
            [] for _ in graph.branches()
        ]
    graph = crashes.write_social(tmp_path / "graph")
    graph.create_branch("dev")
    crashes.load(graph.as_branch("dev"))
    crashes.delete(graph)
    crashes.overwrite(graph)
    age(Path(graph.root))
    assert orphan_files(graph) == orphan_files(graph.as_branch("dev")) == []


def test_what_a_sidecar_may_name_is_left_to_recovery(tmp_path: Path) -> None:
    graph = crashes.write_social(tmp_path / "graph")
    with crashing(points.SIDECAR_WRITTEN):
        crashes.load(graph)
    age(Path(graph.root) / PERSON_FOLDER)
    assert orphan_files(og.open(graph.root, mode="r")) == []
    graph = og.open(graph.root)
    assert {found.type_key for found in orphan_files(graph)} == {PERSON}


def test_of_a_long_history_only_what_was_looked_up_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = crashes.write_social(tmp_path / "graph")
    for years in range(4):
        graph.write(pa.table({"name": ["Bob"], "age": [years]}), "Person", mode="merge")
    folder = Path(graph.root) / PERSON_FOLDER
    age(folder, 9 * orphans.ORPHAN_SECONDS)
    monkeypatch.setattr(orphans, "_VERSIONS_OPENED", 2)
    assert orphan_files(graph) == [], "older versions may name what these do not"
    stray = folder / "data" / "stray.lance"
    stray.write_bytes(b"1234")
    age_of = stray.stat().st_mtime - 2 * orphans.ORPHAN_SECONDS
    os.utime(stray, (age_of, age_of))
    [found] = orphan_files(graph)
    assert "1 file of 4 bytes in data" in found.detail, "none of before could name it"


def test_files_on_an_object_store_are_found_too(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"s3://{s3.make_bucket()}/g"
    graph = og.create(root, crashes.SOCIAL, storage=s3.storage_options)
    with crashing(points.BEFORE_SIDECAR):
        graph.write(pa.table({"name": ["Zoe"], "age": [2]}), "Person")
    assert orphan_files(graph) == []
    monkeypatch.setattr(orphans, "ORPHAN_SECONDS", -5.0)
    [found] = orphan_files(graph)
    assert (found.type_key, found.detail.split(" in ")[1][:5]) == (PERSON, "data ")
