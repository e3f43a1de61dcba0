"""Versions say what made them, restores land strictly, and a ledger holds each row once."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.changes import RestoreChange
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.fence import FenceRefusedError
from omnigraph_spark.storage.ledger import append_once, read_ledger
from omnigraph_spark.storage.places import moved_from
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.transactions import Origin, read_origins
from tests.helpers import golden
from tests.helpers.racers import Racers
from tests.helpers.s3 import S3Server
from tests.helpers.strict import LOCAL, Strict, append_to_ledger, at_once

ROW = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("note", pa.string())])


@pytest.fixture(params=["disk", "s3"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Strict:
    """A dataset whose version 2 holds a and b, and version 3 also c."""
    if request.param == "s3":
        s3: S3Server = request.getfixturevalue("s3")
        settings = StorageSettings.resolve(s3.storage_options)
        made = Strict.create(f"s3://{s3.make_bucket()}/g", settings)
    else:
        made = Strict.create(tmp_path / "g")
    made.append(1, "a", "b")
    made.append(2, "c")
    return made


# -- restores --------------------------------------------------------------------------------------


def test_a_restore_brings_an_older_version_back_as_a_new_one(data: Strict) -> None:
    landed = data.commit(3, RestoreChange(2))
    assert landed.number == 4
    assert data.ids(4) == ["a", "b"]
    assert data.ids(3) == ["a", "b", "c"]
    data.append(4, "d")
    assert data.ids(5) == ["a", "b", "d"]


def test_it_keeps_row_ids_and_indexes(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "g")
    data.append(1, "a", "b")
    lance.dataset(data.address.uri).create_scalar_index("id", "BTREE")
    before = data.table(3, "id", "_rowid").to_pylist()
    data.append(3, "c")
    data.commit(4, RestoreChange(3))
    assert data.table(5, "id", "_rowid").to_pylist() == before
    assert [index.name for index in lance.dataset(data.address.uri).describe_indices()] == [
        "id_idx"
    ]


@pytest.mark.slow
def test_a_restore_lands_on_its_base_or_not_at_all(data: Strict) -> None:
    with pytest.raises(FenceRefusedError):
        data.commit(2, RestoreChange(1))
    assert data.ids(3) == ["a", "b", "c"]


def test_one_of_two_restores_lands(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "g")
    data.append(1, "a")
    data.append(2, "b")

    def restore() -> bool:
        try:
            data.commit(3, RestoreChange(2))
        except FenceRefusedError:
            return False
        return True

    assert sorted(at_once([restore] * 3)) == [False, False, True]
    assert data.ids(4) == ["a"]


def test_a_version_that_is_gone_cannot_be_brought_back(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "g")
    data.append(1, "a")
    before = data.files()
    with pytest.raises(StorageError):
        data.commit(2, RestoreChange(7))
    with pytest.raises(StorageError):
        data.fork("dev", 2).commit(2, RestoreChange(1))
    assert {file for file in data.files() if not file.startswith(("tree", "_refs"))} == before


def test_a_branch_brings_back_what_it_began_with(data: Strict) -> None:
    dev = data.fork("dev", 2)
    dev.append(2, "x")
    dev.commit(3, RestoreChange(2))
    assert dev.ids(4) == ["a", "b"]
    assert data.ids(3) == ["a", "b", "c"]


@pytest.mark.parametrize("folder", ["a b", "ü", "p%20q", "x#y", "[z]"])
def test_a_restore_works_below_any_folder(folder: str, tmp_path: Path) -> None:
    data = Strict.create(tmp_path / folder / "g")
    data.append(1, "a")
    data.append(2, "b")
    data.commit(3, RestoreChange(2))
    assert data.ids(4) == ["a"]


# -- what made a version ---------------------------------------------------------------------------


def test_versions_say_who_made_them_and_how(data: Strict) -> None:
    data.commit(3, RestoreChange(2))
    assert read_origins(data.address, 1, 4, data.settings) == (
        Origin(2, "Append", {"by": "test"}),
        Origin(3, "Append", {"by": "test"}),
        Origin(4, "Restore", {"by": "test"}, restored=2),
    )
    assert read_origins(data.address, 4, 4, data.settings) == ()


def test_compaction_is_told_from_what_changes_rows(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "g")
    data.append(1, "a")
    data.append(2, "b")
    handle = lance.dataset(data.address.uri)
    handle.optimize.compact_files()
    handle.create_scalar_index("id", "BTREE")
    handle.update_config({"k": "v"})
    handle.delete("id = 'a'")
    origins = read_origins(data.address, 3, handle.version, LOCAL)
    assert [(origin.operation, origin.keeps_rows) for origin in origins] == [
        ("ReserveFragments", True),
        ("Rewrite", True),
        ("CreateIndex", True),
        ("UpdateConfig", True),
        ("Delete", False),
    ]


def test_a_version_whose_record_is_gone_is_unknown(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "g")
    data.append(1, "a")
    data.append(2, "b")
    max((data.folder / "_versions").glob("*.manifest")).unlink()
    [unknown, known] = read_origins(data.address, 0, 2, LOCAL)
    assert (unknown.operation, unknown.keeps_rows) == ("Unknown", False)
    assert known.operation == "Append"


def test_a_branch_says_whether_it_was_moved(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "g")
    dev = data.fork("dev", 1)
    assert moved_from(dev.address, 1, LOCAL) is None
    (tmp_path / "g").rename(tmp_path / "h")
    moved = DatasetAddress(str(tmp_path / "h"), dev.address.path, "dev")
    assert moved_from(moved, 1, LOCAL) == data.address.uri
    root = golden.unpack("branches", tmp_path)
    manifest = DatasetAddress(str(root), "__manifest", "feature-sub")
    found = moved_from(manifest, lance.dataset(manifest.uri).version, LOCAL)
    assert found is not None
    assert found.startswith(str(golden.written_at("branches")))


# -- ledgers ---------------------------------------------------------------------------------------


def row(name: str, note: str = "") -> pa.Table:
    return pa.table({"id": [name], "note": [note]}, schema=ROW)


def test_a_row_is_added_once(data: Strict) -> None:
    ledger = DatasetAddress(data.address.root, "ledger.lance")
    assert read_ledger(ledger, data.settings) is None
    assert append_once(ledger, row("a", "first"), "id", data.settings)
    assert append_once(ledger, row("b"), "id", data.settings)
    assert not append_once(ledger, row("a", "second"), "id", data.settings)
    found = read_ledger(ledger, data.settings)
    assert found is not None
    assert found.to_pylist() == [{"id": "a", "note": "first"}, {"id": "b", "note": ""}]


def test_racing_processes_add_a_row_once_and_lose_none(tmp_path: Path, racers: Racers) -> None:
    """Each round both add one row of their own and one that is the same."""
    rounds = 5
    args = [(str(tmp_path), name) for name in ("one", "two")]
    answers = racers.run(append_to_ledger, *args, rounds=rounds)
    for both in zip(*answers, strict=True):
        assert sorted(shared for _, shared in both) == [False, True]
        assert all(own for own, _ in both)
    found = read_ledger(DatasetAddress(str(tmp_path), "ledger.lance"), LOCAL)
    assert found is not None
    assert len(found) == len(set(found["id"].to_pylist())) == 3 * rounds
    named = {str(path) for path in (tmp_path / "ledger.lance" / "data").iterdir()}
    assert len(named) == 3 * rounds
