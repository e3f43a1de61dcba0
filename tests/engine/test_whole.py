"""A version never names a file whose end is missing: what it names is known and looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.appended import Beginnings, fragments_after
from omnigraph_spark.storage.datasets import DatasetAddress, probe_version, version_file
from omnigraph_spark.storage.fence import AppendChange, commit_fenced
from omnigraph_spark.storage.local_objects import LocalObjects
from omnigraph_spark.storage.rewriting import stage_delete
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import stage_batches
from omnigraph_spark.storage.whole import _message, new_files

LOCAL = StorageSettings()
FOLDERS = ("data", "_deletions", "_indices", "_transactions")
ROWS = pa.table({"id": [f"r{n}" for n in range(300)], "text": [f"word {n}" for n in range(300)]})

Step = Callable[[lance.LanceDataset], object]
#: Every kind of file that a version names.
STEPS: dict[str, Step] = {
    "append": lambda ds: ds.insert(ROWS.slice(0, 3)),
    "delete a few": lambda ds: ds.delete("id in ('r1', 'r2')"),
    "delete many": lambda ds: ds.delete("id like 'r1%' or id like 'r2%'"),
    "btree": lambda ds: ds.create_scalar_index("id", "BTREE"),
    "inverted": lambda ds: ds.create_scalar_index("text", "INVERTED"),
    "merge": lambda ds: ds.merge_insert("id").when_matched_update_all().execute(ROWS.slice(200, 5)),
    "compact": lambda ds: ds.optimize.compact_files(),
}


def made(folder: Path, **options: object) -> lance.LanceDataset:
    return lance.write_dataset(ROWS, str(folder), enable_stable_row_ids=True, **options)


def files(folder: Path) -> set[str]:
    found = (path for name in FOLDERS for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in found}


@pytest.mark.parametrize("branch", [None, "dev"])
def test_every_file_that_comes_with_a_version_is_known(tmp_path: Path, branch: str | None) -> None:
    dataset = made(tmp_path / "d", data_storage_version="2.2")
    if branch:
        dataset = dataset.create_branch(branch)
    address = DatasetAddress(str(tmp_path), "d", branch)
    folder, store, beginnings = Path(address.uri), LocalObjects(), Beginnings()
    for step in STEPS.values():
        before, old = files(folder), dataset.version
        step(lance.dataset(address.uri))
        dataset = lance.dataset(address.uri)
        manifests = [store.read(version_file(address, v)) or b"" for v in (dataset.version, old)]
        named = new_files(*manifests)
        # The same files where what both manifests begin with is passed over.
        messages = [_message(manifest) for manifest in manifests]
        shared = beginnings.shared(address.uri, *messages)
        assert new_files(*manifests, shared) == named
        beginnings.keep(address.uri, messages[0], shared)
        # A compaction reserves numbers in a version of its own, with a transaction of its own.
        come, paths = files(folder) - before, {file.path for file in named}
        assert paths <= come
        assert {path.partition("/")[0] for path in come - paths} <= {"_transactions"}
        assert sum(path.startswith("_transactions/") for path in paths) == 1
        for file in named:
            size, ending = store.ending(str(folder / file.path), len(file.ending))
            assert ending == file.ending
            assert file.size_bytes in (0, size)


@pytest.mark.parametrize("bytes_left", [0, 5])
@pytest.mark.parametrize("what", ["rows", "deletions"])
def test_a_version_with_a_file_cut_short_is_refused_and_nothing_lands(
    tmp_path: Path, what: str, bytes_left: int
) -> None:
    made(tmp_path / "d", data_storage_version="2.2")
    address, before = DatasetAddress(str(tmp_path), "d"), files(tmp_path / "d")
    if what == "rows":
        batches = ROWS.slice(0, 2).to_batches()
        staged = stage_batches(address, batches, ROWS.schema, LOCAL, 1000, 1 << 20)
        change = AppendChange(tuple(staged))
    else:
        change = stage_delete(address, 1, "id = 'r7'", LOCAL)
    [new] = files(tmp_path / "d") - before
    path = tmp_path / "d" / new
    path.write_bytes(path.read_bytes()[:bytes_left])
    with pytest.raises(StorageError, match="its end was not written") as refused:
        commit_fenced(address, 1, change, LOCAL, "01234567-0123-0123-0123-0123456789ab", {})
    assert refused.value.target == str(path)
    assert probe_version(address, LOCAL).number == 1
    assert lance.dataset(address.uri).count_rows() == len(ROWS)


def test_of_a_manifest_that_grew_only_the_new_fragments_are_looked_at(tmp_path: Path) -> None:
    dataset = made(tmp_path / "d", max_rows_per_file=50)
    beginnings = Beginnings()
    ids, end = fragments_after(bytes(dataset._ds.serialized_manifest()), 0)
    assert ids == [*range(6)]
    beginnings.keep("d", bytes(dataset._ds.serialized_manifest()), 0)
    dataset.insert(ROWS.slice(0, 3))
    grown = bytes(dataset._ds.serialized_manifest())
    assert beginnings.shared("d", grown) == end
    assert fragments_after(grown, end)[0] == [6]
    dataset.delete("id = 'r1'")
    assert beginnings.shared("d", grown, bytes(dataset._ds.serialized_manifest())) == 0
