"""The strict commit: one exact winner, three outcomes, and nothing left of the others."""

from __future__ import annotations

import errno
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import omnigraph_spark.storage
from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.fence import (
    AppendChange,
    Change,
    FenceInDoubtError,
    FenceRefusedError,
    LandedVersion,
    OverwriteChange,
    UpdateChange,
    head_version,
    landed_version,
)
from omnigraph_spark.storage.local_objects import LocalObjects
from omnigraph_spark.storage.objects import IN_DOUBT, Stat
from omnigraph_spark.storage.rewriting import stage_delete, stage_merge
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.versions import transaction_id
from tests.helpers.racers import waiting_racers
from tests.helpers.s3 import S3Server
from tests.helpers.strict import PEOPLE, Strict, at_once, overtaken, people, race_to_append


@pytest.fixture
def data(tmp_path: Path) -> Strict:
    """A dataset whose version 2 holds a, b and c."""
    made = Strict.create(tmp_path / "g")
    made.append(1, "a", "b", "c")
    return made


def prepared(data: Strict, kind: str, version: int) -> Change:
    """A change of each kind, made for a version."""
    match kind:
        case "append":
            return AppendChange(data.stage(people("n")))
        case "overwrite":
            return OverwriteChange(PEOPLE, data.stage(people("n"), as_given=True))
        case "delete":
            delete = stage_delete(data.address, version, "id = 'b'", data.settings)
            assert delete is not None
            return delete
    table = pa.Table.from_batches([people("b", "n", age=9)])
    return stage_merge(data.address, version, table, data.settings)[0]


KINDS = {
    "append": ["a", "b", "c", "n"],
    "overwrite": ["n"],
    "delete": ["a", "c"],
    "merge": ["a", "b", "c", "n"],
}


# -- landing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("branch", [None, "team/x"])
def test_a_change_becomes_the_next_version_with_its_uuid_and_its_properties(
    data: Strict, kind: str, branch: str | None
) -> None:
    own = data.fork(branch, 2) if branch else data
    uuid = str(uuid4())

    landed = own.commit(2, prepared(own, kind, 2), uuid)

    assert landed.number == 3
    assert own.ids(3) == KINDS[kind]
    assert own.ids(2) == ["a", "b", "c"]
    head = head_version(own.address, own.settings)
    assert head is not None
    assert head.number == 3
    dataset = lance.dataset(own.address.uri)
    dataset.validate()
    assert (dataset.version, dataset.has_stable_row_ids) == (3, True)
    transaction = dataset.read_transaction(3)
    assert (transaction.uuid, transaction.read_version) == (uuid, 2)
    assert transaction.transaction_properties == {"by": "test"}
    assert transaction_id(own.address, 3, own.settings) == uuid
    assert transaction_id(own.address, 4, own.settings) is None
    if branch:
        assert data.ids(2) == ["a", "b", "c"]
        assert transaction_id(data.address, 3, data.settings) is None


@pytest.mark.parametrize("branch", [None, "team/x"])
def test_what_is_recorded_of_a_version_is_what_the_engine_records(
    data: Strict, branch: str | None
) -> None:
    own = data.fork(branch, 2) if branch else data

    landed = own.append(2, "n")

    file = own.folder / "_versions" / f"{2**64 - 1 - 3:020d}.manifest"
    stat = file.stat()
    assert landed == LandedVersion(
        number=3,
        manifest_path=str(file).lstrip("/"),
        manifest_size=stat.st_size,
        e_tag=f"{stat.st_ino:x}-{stat.st_mtime_ns // 1_000:x}-{stat.st_size:x}",
    )
    assert landed == landed_version(own.address, 3, own.settings)
    with pytest.raises(StorageError, match="no version 4"):
        landed_version(own.address, 4, own.settings)


def test_a_version_on_s3_is_recorded_with_its_key_and_the_tag_as_s3_spells_it(
    s3: S3Server,
) -> None:
    bucket = s3.make_bucket()
    data = Strict.create(f"s3://{bucket}/g", StorageSettings.resolve(s3.storage_options, {}))

    landed = data.append(1, "a")

    key = f"g/nodes/p/_versions/{2**64 - 1 - 2:020d}.manifest"
    head = s3.client().head_object(Bucket=bucket, Key=key)
    assert landed == LandedVersion(2, key, head["ContentLength"], head["ETag"])
    assert landed.e_tag.startswith('"')
    assert landed == landed_version(data.address, 2, data.settings)


def test_a_commit_on_a_branch_that_was_moved_tells_the_new_place(
    data: Strict, tmp_path: Path
) -> None:
    data.fork("dev", 2).append(2, "d")
    (tmp_path / "g").rename(tmp_path / "moved")
    moved = Strict(DatasetAddress(str(tmp_path / "moved"), "nodes/p", "dev"))

    moved.append(3, "e")

    # Lance alone reads it: the base it names is where the files are.
    assert lance.dataset(moved.address.uri).count_rows() == 5


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("branch", [None, "dev"])
def test_a_refused_commit_leaves_nothing_but_its_data_files(
    data: Strict, kind: str, late: bool, branch: str | None
) -> None:
    own = data.fork(branch, 2) if branch else data
    change = prepared(own, kind, 2)
    if not late:
        own.append(2, "other")
    before = own.files()
    uuid = str(uuid4())

    with overtaken(own) if late else nullcontext(), pytest.raises(FenceRefusedError) as refused:
        own.commit(2, change, uuid)

    assert refused.value.found_version == 3
    new = own.files() - before
    assert not any(uuid in name for name in new), new
    versions = [name for name in own.files() if name.startswith("_versions/")]
    assert sorted(name for name in versions if ".manifest" in name) == [
        f"_versions/{2**64 - 1 - number:020d}.manifest"
        for number in ((3, 2) if branch else (3, 2, 1))
    ]
    assert own.ids(3) == ["a", "b", "c", "other"]
    # What was staged is still there: an append lands on the new version as it is.
    if kind == "append":
        assert own.commit(3, change).number == 4
        assert own.ids(4) == ["a", "b", "c", "n", "other"]


@pytest.mark.parametrize("base", [1, 9])
def test_a_base_that_is_not_the_newest_version_is_refused(data: Strict, base: int) -> None:
    change = prepared(data, "append", 2)

    with pytest.raises(FenceRefusedError, match=f"is at version 2, not at {base}"):
        data.commit(base, change)


def test_a_dataset_that_is_not_there_is_refused(data: Strict, tmp_path: Path) -> None:
    change = prepared(data, "append", 2)
    missing = Strict(DatasetAddress(str(tmp_path / "missing"), "nodes/p"))

    with pytest.raises(FenceRefusedError) as refused:
        missing.commit(1, change)

    assert refused.value.found_version is None
    assert not missing.folder.exists()


def test_a_merge_lands_only_on_the_version_it_was_made_for(data: Strict) -> None:
    merge = prepared(data, "merge", 2)
    data.append(2, "other")

    with pytest.raises(ValueError, match="a merge of version 2 cannot land on 3"):
        data.commit(3, merge)


def test_files_whose_columns_are_numbered_for_another_schema_are_refused(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "g")
    data.append(1, "a")
    dataset = lance.dataset(data.address.uri)
    dataset.drop_columns(["age"])
    dataset.add_columns({"age": "cast(7 as bigint)"})
    version = dataset.version

    # Lance would take the rows of the old age for those of the new one, and say nothing.
    own, given = data.stage(people("m", age=4)), data.stage(people("n", age=5), as_given=True)
    for wrong in (OverwriteChange(PEOPLE, own), AppendChange(given), UpdateChange((), (), given)):
        with pytest.raises(StorageError, match="numbered for another schema"):
            data.commit(version, wrong)

    data.commit(version, AppendChange(own))
    assert data.table(version + 1).to_pylist() == [{"id": "a", "age": 7}, {"id": "m", "age": 4}]
    data.commit(version + 1, OverwriteChange(PEOPLE, given))
    assert data.table(version + 2).to_pylist() == [{"id": "n", "age": 5}]


def test_a_disk_without_hard_links_is_told_what_it_lacks(
    data: Strict, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = prepared(data, "append", 2)
    before = data.files()

    def refuse(*_: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match="hard links"):
        data.commit(2, change)
    assert data.files() == before


def test_a_failure_of_lance_that_is_no_race_is_told_as_what_it_is(data: Strict) -> None:
    before = data.files()
    [file] = data.stage(people("n"))
    fragment = json.loads(file.fragment) | {"row_id_meta": {"Inline": [255]}}
    broken = AppendChange((type(file)(file.path, json.dumps(fragment), 1, 1),))

    with pytest.raises(StorageError):
        data.commit(2, broken)

    assert {name for name in data.files() - before if not name.startswith("data/")} == set()


# -- lost answers --------------------------------------------------------------------------------


@pytest.fixture
def losing_answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Let the storage lose its answer to the request that takes a version."""
    place = LocalObjects.place

    def lose(before: Callable[[str, str], object]) -> None:
        def silent(store: LocalObjects, source: str, target: str) -> Stat | None:
            monkeypatch.undo()
            before(source, target)
            raise StorageError(IN_DOUBT, target, "read timeout")

        monkeypatch.setattr(LocalObjects, "place", silent)

    yield lose
    assert LocalObjects.place is place


def test_a_lost_answer_of_a_commit_that_landed_is_found_by_its_uuid(
    data: Strict, losing_answers: Callable[..., None]
) -> None:
    change = prepared(data, "append", 2)
    losing_answers(os.link)

    landed = data.commit(2, change)

    assert landed == landed_version(data.address, 3, data.settings)
    assert data.ids(3) == ["a", "b", "c", "n"]


def test_a_lost_answer_of_a_commit_that_lost_is_a_refusal(
    data: Strict, losing_answers: Callable[..., None]
) -> None:
    change = prepared(data, "append", 2)
    losing_answers(lambda *_: data.append(2, "other"))

    with pytest.raises(FenceRefusedError) as refused:
        data.commit(2, change)

    assert refused.value.found_version == 3
    assert data.ids(3) == ["a", "b", "c", "other"]


def test_a_lost_answer_without_a_version_stays_in_doubt(
    data: Strict, losing_answers: Callable[..., None]
) -> None:
    change = prepared(data, "append", 2)
    losing_answers(lambda *_: None)

    # The request may still be on its way.
    with pytest.raises(FenceInDoubtError, match="version 3") as doubt:
        data.commit(2, change)

    assert doubt.value.version == 3


# -- races ---------------------------------------------------------------------------------------


def winners(data: Strict, base: int, racers: int) -> int:
    """Let threads append on the same version; count those that landed."""

    def append(number: int) -> bool:
        try:
            return data.append(base, f"{base}-{number}").number == base + 1
        except FenceRefusedError:
            return False

    return sum(at_once(lambda number=number: append(number) for number in range(racers)))


@pytest.mark.slow
@pytest.mark.parametrize(("branch", "rounds"), [(None, 30), ("team/x", 10)])
def test_of_four_threads_one_lands(data: Strict, branch: str | None, rounds: int) -> None:
    own = data.fork(branch, 2) if branch else data

    for base in range(2, 2 + rounds):
        assert winners(own, base, racers=4) == 1

    assert len(own.ids(2 + rounds)) == 3 + rounds
    lance.dataset(own.address.uri).validate()


@pytest.mark.slow
def test_of_four_processes_one_lands(data: Strict) -> None:
    rounds = 30
    with waiting_racers(4) as racers:
        won = racers.run(race_to_append, *[(data.address, 2)] * 4, rounds=rounds)

    assert [sum(answers) for answers in zip(*won, strict=True)] == [1] * rounds
    assert len(data.ids(2 + rounds)) == 3 + rounds
    names = [name for name in data.files() if name.startswith(("_versions", "_transactions"))]
    # One of each for every version, and Lance's hint: nothing of the 90 that were refused.
    assert len(names) == 2 * (2 + rounds) + 1


@pytest.mark.parametrize("branch", [None, "dev"])
def test_on_s3_one_of_three_lands(s3: S3Server, branch: str | None) -> None:
    rounds = 8 if branch is None else 2
    bucket = s3.make_bucket()
    data = Strict.create(f"s3://{bucket}/g", StorageSettings.resolve(s3.storage_options, {}))
    own = data.fork(branch, 1) if branch else data

    for base in range(1, 1 + rounds):
        assert winners(own, base, racers=3) == 1

    assert len(own.ids(1 + rounds)) == rounds
    listed = s3.client().list_objects_v2(Bucket=bucket, Prefix="g/nodes/p/")["Contents"]
    staged = [found["Key"] for found in listed if ".manifest-" in found["Key"]]
    assert staged == []


# -- what others see -----------------------------------------------------------------------------


@pytest.mark.parametrize("hint", ['{"version":1}', None, "{", '{"version":99}'])
def test_the_newest_version_is_found_whatever_the_hint_says(data: Strict, hint: str | None) -> None:
    path = data.folder / "_versions" / "latest_version_hint.json"
    assert json.loads(path.read_text()) == {"version": 2}, "Lance keeps its hint up to date"
    if hint is None:
        path.unlink()
    else:
        path.write_text(hint)

    assert lance.dataset(data.address.uri).version == 2
    assert data.append(2, "n").number == 3
    assert lance.dataset(data.address.uri).version == 3


def test_a_manifest_that_a_killed_commit_left_is_nobodys_version(data: Strict) -> None:
    versions = data.folder / "_versions"
    newest = versions / f"{2**64 - 1 - 2:020d}.manifest"
    for number in (3, 4):
        name = f"{2**64 - 1 - number:020d}.manifest-{uuid4()}"
        (versions / name).write_bytes(newest.read_bytes())

    head = head_version(data.address, data.settings)
    assert head is not None
    assert head.number == 2
    assert lance.dataset(data.address.uri).version == 2
    assert data.append(2, "n").number == 3


REFUSED = """
import errno, os, sys
from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.fence import AppendChange, FenceRefusedError
from tests.helpers.strict import Strict, overtaken, people

def refuse(*_):
    raise OSError(errno.EPERM, "no")

data = Strict.create(sys.argv[1])
change = AppendChange(data.stage(people("n")))
try:
    with overtaken(data):
        data.commit(1, change)
except FenceRefusedError:
    print("refused")
os.link = refuse
try:
    data.commit(2, change)
except StorageError:
    print("failed")
"""


@pytest.mark.slow
def test_commits_that_fail_print_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LANCE_LOG"}
    done = subprocess.run(
        # The package comes first, as in a user's program.
        [sys.executable, "-c", f"import omnigraph_spark.storage{REFUSED}", tmp_path / "g"],
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    assert done.stdout == "refused\nfailed\n"
    assert done.stderr == ""


def test_what_a_user_wants_to_see_of_lance_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_LOG", "debug")
    importlib.reload(omnigraph_spark.storage)
    assert os.environ["LANCE_LOG"] == "debug"

    monkeypatch.delenv("LANCE_LOG")
    importlib.reload(omnigraph_spark.storage)
    assert os.environ["LANCE_LOG"] == "error"
