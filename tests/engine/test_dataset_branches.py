"""Lance branches of a dataset: made once, deleted whole, in any half they may be found in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph_spark.errors import (
    BranchExistsError,
    BranchInUseError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.storage.branches import (
    UnfinishedBranchError,
    create_branch,
    delete_branch,
    list_branches,
    read_branch,
)
from omnigraph_spark.storage.datasets import probe_version
from omnigraph_spark.storage.fence import UpdateChange
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.rewriting import delete_offsets, stage_rewritten
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers.s3 import S3Server
from tests.helpers.strict import LOCAL, PEOPLE, Strict, at_once, people


@pytest.fixture
def data(tmp_path: Path) -> Strict:
    """A dataset whose version 2 holds a."""
    made = Strict.create(tmp_path / "g")
    made.append(1, "a")
    return made


@pytest.fixture(params=["disk", "s3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Strict:
    """The same, on a disk and on S3."""
    if request.param == "disk":
        made = Strict.create(tmp_path / "g")
    else:
        s3: S3Server = request.getfixturevalue("s3")
        options = StorageSettings.resolve(s3.storage_options, {})
        made = Strict.create(f"s3://{s3.make_bucket()}/g", options)
    made.append(1, "a")
    return made


def make(data: Strict, name: str, parent: str | None = None, version: int = 2) -> Strict:
    create_branch(data.address, name, parent, version, data.settings)
    return data.on(name)


def head(data: Strict) -> int | None:
    found = probe_version(data.address, data.settings)
    return None if found is None else found.number


def test_a_branch_begins_where_it_was_told_and_goes_its_own_way(anywhere: Strict) -> None:
    dev = make(anywhere, "team/dev")
    dev.append(2, "d")
    anywhere.append(2, "m")
    sub = make(anywhere, "sub", "team/dev", 3)
    sub.append(3, "s")

    assert list_branches(anywhere.address, anywhere.settings) == ["sub", "team/dev"]
    ref = read_branch(anywhere.address, "sub", anywhere.settings)
    assert ref is not None
    assert (ref.parent, ref.parent_version) == ("team/dev", 3)
    assert [head(one) for one in (anywhere, dev, sub)] == [3, 3, 4]
    assert dev.ids(3) == ["a", "d"]
    assert sub.ids(4) == ["a", "d", "s"]
    assert anywhere.ids(3) == ["a", "m"]


def test_a_branch_that_exists_is_refused_and_left_alone(anywhere: Strict) -> None:
    dev = make(anywhere, "dev")
    dev.append(2, "d")

    with pytest.raises(BranchExistsError, match="'dev' exists"):
        make(anywhere, "dev")

    assert dev.ids(3) == ["a", "d"]


@pytest.mark.parametrize(("parent", "version"), [(None, 9), ("nobody", 2)])
def test_a_branch_of_what_is_not_there_leaves_nothing(
    data: Strict, parent: str | None, version: int
) -> None:
    before = data.files()

    with pytest.raises(StorageError) as failed:
        make(data, "dev", parent, version)

    assert failed.value.kind == "not_found"
    assert data.files() == before
    make(data, "dev")


def test_of_four_that_make_a_branch_one_does_though_they_begin_at_different_versions(
    data: Strict,
) -> None:
    for version in range(2, 6):
        data.append(version, f"{version}")

    for number in range(10):
        name = f"b{number}"

        def creating(version: int, name: str = name) -> int | None:
            try:
                make(data, name, None, version)
            except (BranchExistsError, UnfinishedBranchError):
                return None
            return version

        answers = at_once(lambda version=version: creating(version) for version in range(2, 6))
        [won] = [answer for answer in answers if answer is not None]
        ref = read_branch(data.address, name, LOCAL)
        assert ref is not None
        assert ref.parent_version == won == head(data.on(name))
        assert len(list((data.on(name).folder / "_versions").glob("*.manifest"))) == 1


def test_a_deleted_branch_leaves_no_file_and_its_name_is_free(anywhere: Strict) -> None:
    dev = make(anywhere, "dev")
    dev.append(2, "d")

    delete_branch(anywhere.address, "dev", anywhere.settings)
    delete_branch(anywhere.address, "dev", anywhere.settings)

    assert list_branches(anywhere.address, anywhere.settings) == []
    assert head(dev) is None
    anywhere.append(2, "m")
    again = make(anywhere, "dev", None, 3)
    assert again.ids(3) == ["a", "m"]


def test_a_branch_others_began_on_is_not_deleted(data: Strict) -> None:
    make(data, "dev")
    make(data, "sub", "dev")

    with pytest.raises(BranchInUseError, match="branch 'sub'"):
        delete_branch(data.address, "dev", LOCAL)

    delete_branch(data.address, "sub", LOCAL)
    lance.dataset(data.address.uri).tags.create("t1", ("dev", 2))
    with pytest.raises(BranchInUseError, match="tag 't1'"):
        delete_branch(data.address, "dev", LOCAL)
    assert data.on("dev").ids(2) == ["a"]


@pytest.mark.parametrize("nested", ["dev/x", "dev/data", "dev/data/y"])
def test_a_branch_is_deleted_without_those_that_lie_in_its_folder(
    anywhere: Strict, nested: str
) -> None:
    make(anywhere, "dev").append(2, "d")
    inner = make(anywhere, nested)
    inner.append(2, "i")

    delete_branch(anywhere.address, "dev", anywhere.settings)

    assert inner.ids(3) == ["a", "i"]
    assert make(anywhere, "dev").ids(2) == ["a"]


def test_a_folder_without_a_ref_is_told_and_can_be_cleared(anywhere: Strict) -> None:
    dev = make(anywhere, "dev")
    dev.append(2, "d")
    ref = f"{anywhere.address.base}/_refs/branches/dev.json"
    objects_at(anywhere.address.root, anywhere.settings).delete(ref)

    with pytest.raises(UnfinishedBranchError, match="half a branch"):
        make(anywhere, "dev")

    delete_branch(anywhere.address, "dev", anywhere.settings)
    assert make(anywhere, "dev").ids(2) == ["a"]


def test_a_reservation_of_a_killed_process_is_told_and_can_be_cleared(anywhere: Strict) -> None:
    dev = anywhere.on("dev")
    store = objects_at(anywhere.address.root, anywhere.settings)
    assert store.put_new(f"{dev.address.uri}/_reservation", b"")

    with pytest.raises(UnfinishedBranchError):
        make(anywhere, "dev")

    delete_branch(anywhere.address, "dev", anywhere.settings)
    assert make(anywhere, "dev").ids(2) == ["a"]


def test_a_ref_without_a_folder_can_be_deleted(data: Strict) -> None:
    dev = make(data, "dev")
    shutil.rmtree(dev.folder)

    with pytest.raises(BranchExistsError):
        make(data, "dev")

    delete_branch(data.address, "dev", LOCAL)
    assert make(data, "dev").ids(2) == ["a"]


def test_branches_work_below_folders_whose_names_urls_escape(tmp_path: Path) -> None:
    # Lance makes the folder of refs under an escaped name, where most users may not write.
    (tmp_path / "jos%C3%A9").write_text("in the way")
    data = Strict.create(tmp_path / "josé" / "g")
    data.append(1, "a")

    dev = make(data, "dev")
    dev.append(2, "d")
    make(data, "sub", "dev", 3)

    # Lance reads the refs we had to write, and finds the ancestors in them.
    refs = lance.dataset(data.address.uri).branches.list()
    assert {name: ref["parent_version"] for name, ref in refs.items()} == {"dev": 2, "sub": 3}
    written = json.loads((data.folder / "_refs" / "branches" / "sub.json").read_text())
    parent = json.loads((data.folder / "_refs" / "branches" / "dev.json").read_text())
    mapping = written["identifier"]["version_mapping"]
    assert mapping[0] == parent["identifier"]["version_mapping"][0]
    assert [version for version, _ in mapping] == [2, 3]


def test_a_folder_with_a_question_mark_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "what?")
    before = data.files()

    with pytest.raises(UnsupportedError, match="rename the folder"):
        make(data, "dev", None, 1)

    assert data.files() == before


def test_a_branch_of_an_empty_dataset_has_stable_row_ids(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "g")

    dev = make(data, "dev", None, 1)
    dev.append(1, "a", "b")
    sub = make(data, "sub", "dev", 2)
    sub.append(2, "c")

    dataset = lance.dataset(sub.address.uri)
    dataset.validate()
    assert dataset.has_stable_row_ids
    rows = dataset.to_table(columns=["_rowid", "_row_created_at_version"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(0, 2), (1, 2), (2, 3)]


def test_a_branch_without_stable_row_ids_is_left_as_it_is_and_can_be_updated(
    tmp_path: Path,
) -> None:
    # The engine forks empty datasets so, as Lance does.
    data = Strict.create(tmp_path / "g")
    lance.dataset(data.address.uri).create_branch("dev", (None, 1))
    data.on("dev").append(1, "a", "b", age=1)
    sub = make(data, "sub", "dev", 2)
    assert not lance.dataset(sub.address.uri).has_stable_row_ids

    left = delete_offsets(sub.address, 2, 0, [0], LOCAL)
    assert left is not None
    matched = people("a", age=9).append_column("_rowid", pa.array([0], pa.uint64()))
    files = stage_rewritten(sub.address, PEOPLE, [matched], [], LOCAL, 10, 1 << 20)
    sub.commit(2, UpdateChange((), (left,), tuple(files)))

    lance.dataset(sub.address.uri).validate()
    assert {row["id"]: row["age"] for row in sub.table(3).to_pylist()} == {"a": 9, "b": 1}
