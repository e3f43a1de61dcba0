"""The behaviours of Lance we rely on, each pinned: an upgrade turns red here first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset

from tests.helpers import golden

ID = pa.field("id", pa.utf8(), nullable=False)
KEYED_ID = pa.field("id", pa.utf8(), False, {"lance-schema:unenforced-primary-key": "true"})
AGE = pa.field("age", pa.int32())
PEOPLE = pa.schema((ID, AGE))


def people(*ids: str) -> pa.Table:
    return pa.table({"id": list(ids), "age": range(len(ids))}, schema=PEOPLE)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A dataset of five rows in two fragments, the first of which lost its row `b`."""
    uri = str(tmp_path / "people")
    dataset = lance.write_dataset(
        people("a", "b", "c", "d", "e"),
        uri,
        data_storage_version="2.2",
        enable_stable_row_ids=True,
        max_rows_per_file=3,
    )
    dataset.delete("id = 'b'")
    return uri


def ids(dataset: LanceDataset, **scan: object) -> list[str]:
    read: list[str] = dataset.scanner(columns=["id"], **scan).to_table()["id"].to_pylist()
    return read


def test_a_branch_opens_by_its_tree_folder_at_an_exact_version(uri: str) -> None:
    lance.dataset(uri).create_branch("team/x")
    lance.write_dataset(people("f"), f"{uri}/tree/team/x", mode="append")
    lance.write_dataset(people("g"), f"{uri}/tree/team/x", mode="append")
    lance.write_dataset(people("z"), uri, mode="append")
    forked_at = 2

    at = {
        version: ids(lance.dataset(f"{uri}/tree/team/x", version=version))
        for version in (forked_at, forked_at + 1, forked_at + 2)
    }

    assert at[forked_at] == ["a", "c", "d", "e"]
    assert at[forked_at + 1] == ["a", "c", "d", "e", "f"]
    assert at[forked_at + 2] == ["a", "c", "d", "e", "f", "g"]
    assert ids(lance.dataset(uri, version=forked_at + 1)) == ["a", "c", "d", "e", "z"]


def test_base_paths_name_the_parent_dataset_as_its_opener_spelled_it(uri: str) -> None:
    branch = lance.dataset(uri).create_branch("dev")
    lance.dataset(uri).create_branch("sub", ("dev", branch.version))

    assert lance.dataset(uri).base_paths() == {}
    [base] = lance.dataset(f"{uri}/tree/dev").base_paths().values()
    assert (base.id, base.name, base.path, base.is_dataset_root) == (0, None, uri, True)
    of_sub = lance.dataset(f"{uri}/tree/sub").base_paths()
    assert {number: base.path for number, base in of_sub.items()} == {
        0: uri,
        1: f"{uri}/tree/dev",
    }
    files = [f.metadata.files[0].base_id for f in lance.dataset(f"{uri}/tree/dev").get_fragments()]
    assert files == [0, 0], "files of the parent carry its base, own files carry none"


def test_a_moved_branch_reads_through_a_manifest_patched_in_memory(uri: str) -> None:
    lance.dataset(uri).create_branch("dev")
    Path(uri).rename(moved := uri.replace("people", "elpoep"))
    branch = lance.dataset(f"{moved}/tree/dev")
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        branch.to_table()

    patched = branch._ds.serialized_manifest().replace(uri.encode(), moved.encode())
    rebased = LanceDataset(f"{moved}/tree/dev", version=branch.version, serialized_manifest=patched)

    assert [base.path for base in rebased.base_paths().values()] == [moved]
    assert ids(rebased) == ["a", "c", "d", "e"]


def test_two_upserts_of_one_primary_key_have_one_winner(tmp_path: Path) -> None:
    schema = pa.schema((KEYED_ID, AGE))
    uri = str(tmp_path / "keyed")
    lance.write_dataset(
        people("a").cast(schema), uri, data_storage_version="2.2", enable_stable_row_ids=True
    )
    first, second = lance.dataset(uri), lance.dataset(uri)

    def upsert(dataset: LanceDataset, *keys: str) -> None:
        merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.conflict_retries(0).use_index(False).execute(people(*keys).cast(schema))

    upsert(first, "head", "b")
    with pytest.raises(OSError, match="Too many concurrent writers"):
        upsert(second, "head", "c")
    assert sorted(ids(lance.dataset(uri))) == ["a", "b", "head"]


def test_a_missing_version_or_dataset_is_a_value_error_that_says_not_found(uri: str) -> None:
    with pytest.raises(
        ValueError, match=r"Dataset at path .*/_versions/99\.manifest was not found"
    ):
        lance.dataset(uri, version=99)
    with pytest.raises(ValueError, match=r"Dataset at path .*/nobody was not found"):
        lance.dataset(uri.replace("people", "nobody"))
    with pytest.raises(ValueError, match=r"Dataset at path .*/_versions/1\.manifest was not found"):
        lance.dataset(uri.replace("people", "nobody"), version=1)


def test_a_missing_data_file_is_an_arrow_error_that_says_not_found(uri: str) -> None:
    fragment = lance.dataset(uri).get_fragments()[1]
    (Path(uri) / "data" / fragment.metadata.files[0].path).unlink()

    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        lance.dataset(uri).to_table()


def test_index_segments_tell_which_base_they_lie_in(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_branch("dev")
    lance.dataset(f"{uri}/tree/dev").create_scalar_index("age", "BTREE")

    described = {index.name: index for index in lance.dataset(f"{uri}/tree/dev").describe_indices()}

    assert described["id_idx"].field_names == ["id"]
    assert [segment.base_id for segment in described["id_idx"].segments] == [0]
    assert [segment.base_id for segment in described["age_idx"].segments] == [None]


def test_fragments_tell_rows_deletions_and_bytes_without_a_scan(uri: str) -> None:
    fragments = lance.dataset(uri).get_fragments()

    assert [fragment.physical_rows for fragment in fragments] == [3, 2]
    assert [fragment.metadata.physical_rows for fragment in fragments] == [3, 2]
    assert [fragment.num_deletions for fragment in fragments] == [1, 0]
    assert [fragment.metadata.num_deletions for fragment in fragments] == [1, 0]
    for fragment in fragments:
        [file] = fragment.metadata.files
        assert file.file_size_bytes == (Path(uri) / "data" / file.path).stat().st_size


def test_limit_and_offset_over_chosen_fragments_count_live_rows(uri: str) -> None:
    dataset = lance.dataset(uri)
    first, second = dataset.get_fragments()

    assert ids(dataset, fragments=[first]) == ["a", "c"]
    assert ids(dataset, fragments=[first], offset=1, limit=1) == ["c"]
    assert ids(dataset, fragments=[first], offset=2, limit=5) == []
    assert ids(dataset, fragments=[first, second], offset=1, limit=2) == ["c", "d"]
    assert ids(dataset, fragments=[second], limit=1) == ["d"]


def test_double_quotes_make_a_text_and_backticks_a_column(uri: str) -> None:
    dataset = lance.dataset(uri)

    assert ids(dataset, filter='id = "a"') == ["a"]
    assert ids(dataset, filter="\"id\" = 'a'") == []
    assert ids(dataset, filter="`id` = 'a'") == ["a"]


def test_a_filter_on_an_unknown_column_or_bad_text_is_an_error_before_any_row(uri: str) -> None:
    dataset = lance.dataset(uri)

    with pytest.raises(ValueError, match="nobody"):
        ids(dataset, filter="nobody = 1")
    with pytest.raises(ValueError, match="sql parser error"):
        ids(dataset, filter="age = = 1")


def test_system_columns_come_by_name(uri: str) -> None:
    columns = ["id", "_rowid", "_rowaddr", "_row_created_at_version"]

    rows = lance.dataset(uri).scanner(columns=columns).to_table()

    assert rows.column_names == columns
    assert rows["_rowid"].to_pylist() == [0, 2, 3, 4]
    assert rows["_row_created_at_version"].to_pylist() == [1, 1, 1, 1]


def test_a_day_with_its_time_of_day_survives_as_date64(tmp_path: Path) -> None:
    milliseconds = pa.array([-1, 0, 1_767_225_600_123], pa.int64())
    table = pa.table({"at": milliseconds.cast(pa.date64())})
    dataset = lance.write_dataset(table, str(tmp_path / "times"), data_storage_version="2.2")

    assert dataset.to_table()["at"].cast(pa.int64()).to_pylist() == milliseconds.to_pylist()


def test_a_hand_made_blob_column_gives_its_bytes_back(tmp_path: Path) -> None:
    children = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.utf8())])
    field = pa.field("b", children, True, {"ARROW:extension:name": "lance.blob.v2"})
    values = [{"data": b"one", "uri": None}, None, {"data": b"three", "uri": None}]
    table = pa.Table.from_arrays([pa.array(values, children)], schema=pa.schema([field]))
    dataset = lance.write_dataset(table, str(tmp_path / "blobs"), data_storage_version="2.2")

    read = dataset.scanner(columns=["b"], blob_handling="all_binary").to_table()

    assert read["b"].to_pylist() == [b"one", None, b"three"]


def test_only_the_descriptor_tells_a_null_blob_of_the_engine_from_an_empty_one(
    tmp_path: Path,
) -> None:
    root = golden.unpack("rich", tmp_path)
    doc = golden.Expected("rich").tables()["main"]["node:Doc"]
    dataset = lance.dataset(f"{root}/{doc['path']}", version=doc["version"])
    null_blob = {"columns": ["payload"], "filter": "id = 'd2'"}

    descriptors = dataset.scanner(**null_blob).to_table()["payload"].to_pylist()
    read = dataset.scanner(**null_blob, blob_handling="all_binary").to_table()["payload"]

    assert descriptors == [{"kind": 0, "position": 0, "size": 0, "blob_id": 0, "blob_uri": ""}]
    assert read.to_pylist() == [b""]


def test_the_stamp_and_the_config_are_read_without_rows(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.update_config({"table_version_management": "true"})
    dataset.update_schema_metadata({"omnigraph:internal_schema_version": "4"})

    reopened = lance.dataset(uri)

    assert reopened.schema.metadata == {b"omnigraph:internal_schema_version": b"4"}
    assert reopened.config() == {"table_version_management": "true"}


def test_the_engines_broken_second_level_fork_reads_without_its_index(
    golden_in_place: Callable[[str], Path],
) -> None:
    # Lance 7 looks for the inherited index of a fork of a fork in the parent branch's folder.
    root = golden_in_place("branches")
    fork = lance.dataset(f"{root}/nodes/40d76f1f51639ec0/tree/src2", version=6)
    bases = {number: base.path for number, base in fork.base_paths().items()}
    [index] = [index for index in fork.describe_indices() if index.name == "id_idx"]
    [segment] = index.segments
    assert bases[segment.base_id].endswith("/tree/feature")
    assert not Path(bases[segment.base_id], "_indices", segment.uuid).exists()

    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        ids(fork, filter="id = 'Alice'")
    assert ids(fork, filter="id = 'Alice'", use_scalar_index=False) == ["Alice"]


def test_branch_refs_are_files_named_after_the_percent_encoded_branch(uri: str) -> None:
    lance.dataset(uri).create_branch("team/x")

    [ref] = (Path(uri) / "_refs" / "branches").iterdir()

    assert ref.name == "team%2Fx.json"
    content = json.loads(ref.read_text(encoding="utf-8"))
    assert (content["parentBranch"], content["parentVersion"]) == (None, 2)
    assert set(lance.dataset(uri).branches.list()) == {"team/x"}


def test_rows_are_taken_by_their_stable_ids_in_the_order_asked_for(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.merge_insert("id").when_matched_update_all().execute(people("c"))
    found = dataset.to_table(columns=["id", "_rowid"]).to_pylist()
    row_ids = {row["id"]: row["_rowid"] for row in found}
    asked = pa.array([row_ids[id_] for id_ in ("e", "c", "a")], pa.uint64())
    assert dataset._take_rows(asked, ["id"])["id"].to_pylist() == ["e", "c", "a"]
    # A row that is gone is passed over: whoever asks has to count.
    gone = pa.array([row_ids["a"], 1], pa.uint64())
    assert dataset._take_rows(gone, ["id"])["id"].to_pylist() == ["a"]
