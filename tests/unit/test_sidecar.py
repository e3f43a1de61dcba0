"""Sidecars: the engine's bytes, all kinds of writers, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph_spark.errors import DamagedGraphError, UnsupportedError
from omnigraph_spark.formats.v4.sidecar import (
    Sidecar,
    SidecarPin,
    SidecarRegistration,
    SidecarTombstone,
    WriterKind,
    delete_sidecar,
    list_sidecars,
    read_sidecar,
    write_sidecar,
)
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers import golden

_FILES = sorted(golden.GOLDEN.glob("crashed-*/sidecars/*.json"))
READABLE = [path for path in _FILES if path.parts[-3] != "crashed-corrupt"]
STORE = objects_at("/", StorageSettings())

LOAD = Sidecar(
    operation_id="01M7H9Q3M4TGY6NZG1D1C373DC",
    started_at_us=1794803207812464,
    writer=WriterKind.LOAD,
    pins=(SidecarPin("node:Person", "/data/g/nodes/40d76f1f51639ec0", 5, 6),),
)


def case_of(path: Path) -> str:
    return f"{path.parts[-3]}/{path.stem}"


@pytest.mark.parametrize("path", READABLE, ids=case_of)
def test_a_sidecar_read_and_written_again_is_the_same_file(path: Path) -> None:
    content = path.read_bytes()
    sidecar = Sidecar.from_bytes(content)
    assert sidecar.to_bytes() == content
    assert sidecar.operation_id == path.stem


def test_the_cases_cover_the_kinds_that_can_crash() -> None:
    kinds = {Sidecar.from_bytes(path.read_bytes()).writer for path in READABLE}
    assert kinds >= {
        WriterKind.LOAD,
        WriterKind.SCHEMA_APPLY,
        WriterKind.BRANCH_MERGE,
        WriterKind.OPTIMIZE,
    }


def test_a_merge_on_a_branch_says_what_it_read() -> None:
    (path,) = (golden.GOLDEN / "crashed-branch-partial" / "sidecars").iterdir()
    root = "/tmp/og-fixtures/00000000/crashed-branch-partial"
    assert Sidecar.from_bytes(path.read_bytes()) == Sidecar(
        operation_id="01M7H9Q3M4TGY6NZG1D1C373DC",
        started_at_us=1794803207812464,
        writer=WriterKind.LOAD,
        branch="feature",
        actor="act-crash",
        pins=(
            SidecarPin(
                "node:Person", f"{root}/nodes/40d76f1f51639ec0", 5, 6, dataset_branch="feature"
            ),
            SidecarPin(
                "node:Company", f"{root}/nodes/7cb4e55c59663b1c", 4, 5, dataset_branch="feature"
            ),
        ),
    )


def test_everything_a_sidecar_can_hold_comes_back() -> None:
    full = Sidecar(
        operation_id="01M7H9Q3M4TGY6NZG1D1C373DC",
        started_at_us=1,
        writer=WriterKind.SCHEMA_APPLY,
        branch="team/x",
        actor="Zoë",
        merge_source_id="01M7H9QBEH1XSEEZT8DWADRAEG",
        pins=(SidecarPin("node:A", "s3://b/g/nodes/1", 1, 2, 9, "team/x"),),
        registrations=(
            SidecarRegistration("node:Tag", "nodes/6ce0cb19e201b153"),
            SidecarRegistration("node:B", "nodes/2", "team/x"),
        ),
        tombstones=(SidecarTombstone("node:Old", 7),),
    )
    assert Sidecar.from_bytes(full.to_bytes()) == full
    for kind in WriterKind:
        other = replace(LOAD, writer=kind)
        assert Sidecar.from_bytes(other.to_bytes()) == other


def test_optional_parts_are_left_out_and_unknown_ones_ignored() -> None:
    text = LOAD.to_bytes()
    for absent in (b"confirmed", b"table_branch", b"merge_source", b"registrations", b"tombstones"):
        assert absent not in text
    assert b'"branch": null' in text
    assert b'"actor_id": null' in text
    assert Sidecar.from_bytes(text.replace(b'"tables"', b'"more": 1, "tables"')) == LOAD


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('"Load"', '"Upload"', "Upload"),
        ('"writer_kind": "Load",', "", "writer_kind"),
        ('"tables": [', '"tables": [1,', "table_key"),
        ('"expected_version": 5', '"expected_version": true', "expected_version"),
        ('"expected_version": 5', '"expected_version": "5"', "expected_version"),
        ('"1794803207812464"', '"soon"', "soon"),
        ('"branch": null', '"branch": 7', "branch"),
    ],
)
def test_what_is_no_sidecar_is_refused_with_the_reason(old: str, new: str, word: str) -> None:
    text = LOAD.to_bytes().decode()
    assert old in text
    with pytest.raises(ValueError, match=word):
        Sidecar.from_bytes(text.replace(old, new, 1).encode())


def test_sidecars_are_written_listed_in_order_read_and_deleted(tmp_path: Path) -> None:
    root = str(tmp_path)
    later = replace(LOAD, operation_id="01M7H9QXM2VMBDHGDCM4ZNNJBB")
    assert list_sidecars(root, STORE) == []
    write_sidecar(root, STORE, later)
    write_sidecar(root, STORE, LOAD)
    (tmp_path / "__recovery" / "notes.txt").write_text("not one of ours")
    assert list_sidecars(root, STORE) == [LOAD.operation_id, later.operation_id]
    assert read_sidecar(root, STORE, later.operation_id) == later
    confirmed = replace(LOAD, pins=(replace(LOAD.pins[0], confirmed_version=6),))
    write_sidecar(root, STORE, confirmed)
    assert read_sidecar(root, STORE, LOAD.operation_id) == confirmed
    delete_sidecar(root, STORE, LOAD.operation_id)
    delete_sidecar(root, STORE, LOAD.operation_id)
    assert read_sidecar(root, STORE, LOAD.operation_id) is None
    assert list_sidecars(root, STORE) == [later.operation_id]


@pytest.mark.parametrize(
    ("case", "error", "word"),
    [
        ("crashed-corrupt", DamagedGraphError, "not JSON"),
        ("crashed-future-version", UnsupportedError, "version 3"),
    ],
)
def test_a_sidecar_that_cannot_be_read_is_refused_by_name(
    case: str, error: type[Exception], word: str, tmp_path: Path
) -> None:
    root = golden.unpack(case, tmp_path)
    (operation,) = list_sidecars(str(root), STORE)
    with pytest.raises(error, match=word) as caught:
        read_sidecar(str(root), STORE, operation)
    assert operation in str(caught.value)


def test_ours_also_say_what_they_were_planned_on() -> None:
    ours = replace(LOAD, expects={"node:Person": 5, "edge:Knows": 3})
    assert ours.fenced
    assert not LOAD.fenced
    assert Sidecar.from_bytes(ours.to_bytes()) == ours
    *_, last = json.loads(ours.to_bytes())
    assert last == "expected_versions"
    assert replace(ours, expects=None).to_bytes() == LOAD.to_bytes()


@pytest.mark.parametrize("planned", ['{"node:Person": "5"}', '{"node:Person": true}', "[]", "7"])
def test_what_is_no_plan_is_refused(planned: str) -> None:
    text = replace(LOAD, expects={}).to_bytes().decode()
    assert Sidecar.from_bytes(text.encode()).fenced
    broken = text.replace('"expected_versions": {}', f'"expected_versions": {planned}')
    assert broken != text
    with pytest.raises(ValueError, match="its "):
        Sidecar.from_bytes(broken.encode())
