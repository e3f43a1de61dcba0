"""Updates and deletes: both ways to merge agree, row ids stay, indexes go on telling the truth."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph_spark.storage.blob_values import stored_batches
from omnigraph_spark.storage.datasets import DatasetAddress, open_dataset
from omnigraph_spark.storage.fence import AppendChange, UpdateChange
from omnigraph_spark.storage.rewriting import (
    ROW_ADDRESS,
    ROW_ID,
    delete_offsets,
    discard_change,
    stage_delete,
    stage_merge,
    stage_rewritten,
)
from tests.helpers.golden import Expected, unpack
from tests.helpers.s3 import S3Server
from tests.helpers.strict import LOCAL, PEOPLE, StorageSettings, Strict, people

BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
DOCUMENTS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("payload", BLOB, True, {"ARROW:extension:name": "lance.blob.v2"}),
    ]
)


def merge_by_hand(data: Strict, version: int, source: pa.Table, portions: int = 2) -> UpdateChange:
    """What many machines do: match, mark deleted fragment by fragment, rewrite in portions."""
    dataset = open_dataset(data.address, version, data.settings)
    numbers = [fragment.id for fragment in dataset.fragments()]
    targets = {
        row["id"]: row
        for batch in dataset.batches(numbers, ["id", ROW_ID, ROW_ADDRESS])
        for row in batch.to_pylist()
    }
    found = [row for row in source.to_pylist() if row["id"] in targets]
    new = [row for row in source.to_pylist() if row["id"] not in targets]

    updated, removed = [], []
    addresses = sorted(targets[row["id"]][ROW_ADDRESS] for row in found)
    for number, of_fragment in itertools.groupby(addresses, lambda address: address >> 32):
        offsets = [address & 0xFFFFFFFF for address in of_fragment]
        left = delete_offsets(data.address, version, number, offsets, data.settings)
        if left is None:
            removed.append(number)
        else:
            updated.append(left)

    files = []
    with_ids = source.schema.append(pa.field(ROW_ID, pa.uint64()))
    for portion in range(portions):
        matched = [row | {ROW_ID: targets[row["id"]][ROW_ID]} for row in found[portion::portions]]
        files += stage_rewritten(
            data.address,
            source.schema,
            pa.Table.from_pylist(matched, with_ids).to_batches(max_chunksize=3),
            pa.Table.from_pylist(new[portion::portions], source.schema).to_batches(),
            data.settings,
            max_rows_per_file=4,
            max_bytes_per_file=1 << 20,
        )
    return UpdateChange(tuple(removed), tuple(updated), tuple(files))


@dataclass(frozen=True)
class State:
    """All that tells two versions apart: values, and what Lance knows of each row."""

    ages: Mapping[str, int]
    row_ids: Mapping[str, int]
    created: Mapping[str, int]
    updated: Mapping[str, int]

    @classmethod
    def of(cls, data: Strict, version: int) -> State:
        dataset = lance.dataset(data.address.uri, version=version)
        dataset.validate()
        columns = ["id", "age", ROW_ID, "_row_created_at_version", "_row_last_updated_at_version"]
        rows = dataset.to_table(columns=columns).to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return cls(*({row["id"]: row[name] for row in rows} for name in columns[1:]))


def answers(
    data: Strict, version: int, column: str, values: set[object]
) -> dict[object, list[str]]:
    """What a filter on a column finds, which an index of it answers."""
    dataset = lance.dataset(data.address.uri, version=version)
    found = {}
    for value in values:
        where = f"{column} = {value!r}"
        found[value] = sorted(dataset.to_table(columns=["id"], filter=where)["id"].to_pylist())
    return found


IDS = st.integers(0, 24).map(lambda number: f"k{number:02}")
FOLDERS = itertools.count()


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    target=st.lists(IDS, unique=True, max_size=20),
    deleted=st.sets(IDS, max_size=5),
    source=st.lists(IDS, unique=True, max_size=20),
    indexed=st.booleans(),
    again=st.booleans(),
)
def test_a_merge_by_lance_and_one_by_hand_give_the_same_rows_with_the_same_row_ids(
    tmp_path: Path,
    target: list[str],
    deleted: set[str],
    source: list[str],
    indexed: bool,
    again: bool,
) -> None:
    data = Strict.create(tmp_path / f"g{next(FOLDERS)}")
    version = 1
    if target:
        data.commit(1, AppendChange(data.stage(people(*target, age=1), max_rows=6)))
        version = 2
    gone = ", ".join(f"'{id_}'" for id_ in deleted) or "''"
    if delete := stage_delete(data.address, version, f"id in ({gone})", LOCAL):
        version = data.commit(version, delete).number
    if indexed and target:
        dataset = lance.dataset(data.address.uri)
        dataset.create_scalar_index("age", "BTREE")
        dataset.create_scalar_index("id", "BTREE")
        version = dataset.version
    if again and target:
        # Rows that were moved once are moved again.
        some = pa.Table.from_batches([people(*target[::2], age=2)])
        version = data.commit(version, stage_merge(data.address, version, some, LOCAL)[0]).number
    before = State.of(data, version)
    rows = pa.Table.from_batches([people(*source, age=9)])
    by_hand = data.fork("hand", version)

    change, inserted, updated = stage_merge(data.address, version, rows, LOCAL)
    data.commit(version, change)
    by_hand.commit(version, merge_by_hand(by_hand, version, rows))

    result, other = State.of(data, version + 1), State.of(by_hand, version + 1)
    matched = set(source) & set(before.ages)
    assert result.ages == before.ages | dict.fromkeys(source, 9) == other.ages
    assert (inserted, updated) == (len(source) - len(matched), len(matched))
    for state in (result, other):
        assert {id_: state.row_ids[id_] for id_ in before.ages} == before.row_ids
        assert set(before.row_ids.values()).isdisjoint(
            state.row_ids[id_] for id_ in set(source) - matched
        )
    assert result.created == other.created
    assert result.updated == other.updated
    assert {id_ for id_, at in result.updated.items() if at == version + 1} == set(source)
    for own in (data, by_hand):
        ages = answers(own, version + 1, "age", {1, 2, 9})
        assert ages[9] == sorted(source)
        assert ages[1] == sorted(id_ for id_, age in result.ages.items() if age == 1)
        ids = answers(own, version + 1, "id", {*source, *target})
        assert {id_: found for id_, found in ids.items() if found} == {
            id_: [id_] for id_ in result.ages
        }


@pytest.fixture
def data(tmp_path: Path) -> Strict:
    """A dataset of six rows in two fragments, at version 2."""
    made = Strict.create(tmp_path / "g")
    made.commit(1, AppendChange(made.stage(people(*"abcdef", age=1), max_rows=3)))
    return made


def addresses(data: Strict, version: int, *ids: str) -> pa.Array[pa.UInt64Scalar]:
    table = data.table(version, "id", ROW_ADDRESS)
    wanted = [row[ROW_ADDRESS] for row in table.to_pylist() if row["id"] in ids]
    return pa.array(wanted, pa.uint64())


@pytest.mark.parametrize("branch", [None, "dev"])
@pytest.mark.parametrize("by_address", [False, True])
def test_rows_are_deleted_by_filter_and_by_address(
    data: Strict, branch: str | None, by_address: bool
) -> None:
    own = data.fork(branch, 2) if branch else data
    matched = addresses(own, 2, "a", "e", "f") if by_address else "id in ('a', 'e', 'f')"

    change = stage_delete(own.address, 2, matched, LOCAL)
    assert change is not None
    landed = own.commit(2, pickle.loads(pickle.dumps(change)))

    assert change.rows == 3
    assert own.ids(landed.number) == ["b", "c", "d"]
    lance.dataset(own.address.uri).validate()
    assert data.ids(2) == [*"abcdef"]


def test_a_fragment_without_rows_goes_and_the_others_keep_theirs(data: Strict) -> None:
    change = stage_delete(data.address, 2, "id <= 'd'", LOCAL)
    assert change is not None

    assert change.removed_fragment_ids == (0,)
    assert len(change.updated_fragments) == 1
    data.commit(2, change)
    assert data.ids(3) == ["e", "f"]


@pytest.mark.parametrize("matched", ["id = 'nobody'", pa.array([], pa.uint64())])
def test_nothing_to_delete_is_no_change(data: Strict, matched: str) -> None:
    before = data.files()

    assert stage_delete(data.address, 2, matched, LOCAL) is None
    assert data.files() == before


def test_a_filter_deletes_on_a_branch_whose_indexes_lance_cannot_find(
    golden_in_place: Iterator[Path],
) -> None:
    # The engine's fork of a fork: see the guard of the same name.
    root = golden_in_place("branches")  # type: ignore[operator]
    fork = DatasetAddress(str(root), "nodes/40d76f1f51639ec0", "src2")

    change = stage_delete(fork, 6, "id = 'Alice'", LOCAL)

    assert change is not None
    assert change.rows == 1


def test_discarding_a_change_deletes_what_it_brought_and_nothing_else(data: Strict) -> None:
    changes = [
        stage_merge(data.address, 2, pa.Table.from_batches([people("a", "n")]), LOCAL)[0],
        stage_delete(data.address, 2, "id = 'b'", LOCAL),
        merge_by_hand(data, 2, pa.Table.from_batches([people("c", "d", "m")])),
    ]
    staged = data.files()
    landed = data.commit(2, changes.pop(0))  # type: ignore[arg-type]
    committed = data.files()

    for change in changes:
        assert change is not None
        discard_change(data.address, change, LOCAL)

    assert data.ids(landed.number) == [*"abcdef", "n"]
    gone = committed - data.files()
    assert len(gone) == 1 + 2 + 2, "a deletion file; two more, and a file for each portion"
    assert gone < staged


def test_a_merge_of_nothing_changes_nothing(data: Strict) -> None:
    change, inserted, updated = stage_merge(data.address, 2, PEOPLE.empty_table(), LOCAL)

    assert (inserted, updated) == (0, 0)
    data.commit(2, change)
    assert data.ids(3) == [*"abcdef"]


def documents(**payloads: object) -> pa.Table:
    arrays = [pa.array(payloads), pa.array(payloads.values(), BLOB)]
    return pa.Table.from_arrays(arrays, schema=DOCUMENTS)


def stored(data: Strict, version: int) -> dict[str, object]:
    dataset = open_dataset(data.address, version, LOCAL)
    numbers = [fragment.id for fragment in dataset.fragments()]
    batches = stored_batches(dataset, numbers, ["id", "payload"], zeros_are_null=False)
    return {row["id"]: row["payload"] for batch in batches for row in batch.to_pylist()}


def test_blobs_of_both_kinds_are_merged(tmp_path: Path) -> None:
    data = Strict.create(tmp_path / "g", schema=DOCUMENTS)
    inline, photo = {"data": b"new", "uri": None}, {"data": None, "uri": "file:///photo.jpg"}
    first = documents(a={"data": b"old", "uri": None}, b=inline, c=None, d=photo)
    data.commit(1, AppendChange(data.stage(*first.to_batches())))
    row_ids = data.table(2, "id", ROW_ID)

    change, *counts = stage_merge(data.address, 2, documents(a=inline, n=None), LOCAL)
    data.commit(2, change)
    assert counts == [1, 1]
    assert stored(data, 3) == {"a": inline, "b": inline, "c": None, "d": photo, "n": None}

    # Lance's own merge refuses addresses of files outside of the dataset.
    change, *counts = stage_merge(data.address, 3, documents(m=photo, c=photo, b=None), LOCAL)
    data.commit(3, change)
    assert counts == [1, 2]
    assert stored(data, 4) == {
        "a": inline,
        "b": None,
        "c": photo,
        "d": photo,
        "n": None,
        "m": photo,
    }
    now = dict(zip(*data.table(4, "id", ROW_ID).to_pydict().values(), strict=True))
    for row in row_ids.to_pylist():
        assert now[row["id"]] == row[ROW_ID]
    lance.dataset(data.address.uri).validate()


def test_the_engines_null_blobs_are_null_when_they_are_read_to_be_written_again(
    tmp_path: Path,
) -> None:
    root = unpack("rich", tmp_path)
    pinned = Expected("rich").tables()["main"]["node:Doc"]
    dataset = open_dataset(DatasetAddress(str(root), pinned["path"]), pinned["version"], LOCAL)
    numbers = [fragment.id for fragment in dataset.fragments()]

    batches = stored_batches(dataset, numbers, ["id", "payload"], zeros_are_null=True)

    payloads = {row["id"]: row["payload"] for batch in batches for row in batch.to_pylist()}
    assert payloads["d2"] is None
    assert any(payload and payload["data"] for payload in payloads.values())


def test_merges_and_deletes_work_on_s3(s3: S3Server) -> None:
    on_s3 = StorageSettings.resolve(s3.storage_options, {})
    data = Strict.create(f"s3://{s3.make_bucket()}/g", on_s3)
    data.append(1, "a", "b", "c", age=1)
    rows = pa.Table.from_batches([people("b", "n", age=9)])

    data.commit(2, stage_merge(data.address, 2, rows, on_s3)[0])
    data.commit(3, merge_by_hand(data, 3, pa.Table.from_batches([people("a", "m", age=8)])))
    delete = stage_delete(data.address, 4, "age = 9", on_s3)
    assert delete is not None
    data.commit(4, delete)

    assert {row["id"]: row["age"] for row in data.table(5).to_pylist()} == {"a": 8, "c": 1, "m": 8}
    discard_change(data.address, delete, on_s3)
