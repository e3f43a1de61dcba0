"""Small merges are left to Lance and large ones taken apart: rows, row ids and receipts agree."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark.errors import DamagedGraphError, StorageError
from omnigraph_spark.storage import blob_values
from omnigraph_spark.storage.rewriting import stage_merge, stage_rewritten
from omnigraph_spark.writing import preparing, stored_rows, upserting
from tests.engine.writing import (
    COMPANY,
    PERSON,
    assert_whole,
    data_files,
    edges,
    files,
    ids,
    people,
    transact,
)
from tests.helpers.golden import unpack

pytestmark = pytest.mark.slow

SCHEMA = """
node Doc {
    slug: String @key
    size: I64?
    score: F64?
    day: Date?
    words: [String]?
    mood: Vector(2)?
    payload: Blob?
}
"""
COLUMNS: dict[str, pa.DataType] = {
    "slug": pa.string(),
    "size": pa.int64(),
    "score": pa.float64(),
    "day": pa.date32(),
    "words": pa.list_(pa.string()),
    "mood": pa.list_(pa.float32()),
    "payload": pa.binary(),
}
DOC = pa.schema(COLUMNS)
Row = Mapping[str, Any]


@contextmanager
def taken_apart() -> Iterator[None]:
    """Let every merge be a large one."""
    with patch.object(preparing, "SMALL_MERGE_ROWS", 0):
        yield


def state_of(graph: og.Graph, type: str) -> tuple[dict[str, Row], dict[str, int]]:
    """The rows of a type by id, and their row ids."""
    rows = graph.refresh().snapshot().arrow(type, blobs="bytes").to_pylist()
    entry = graph.snapshot().entries[type]
    folder = Path(graph.root, entry.path)
    if entry.dataset_branch is not None:
        folder = folder / "tree" / entry.dataset_branch
    dataset = lance.dataset(str(folder), version=entry.dataset_version)
    dataset.validate()
    found = dataset.to_table(columns=["id", "_rowid"]).to_pylist()
    assert len(rows) == len(found) == entry.rows
    return {row["id"]: row for row in rows}, {row["id"]: row["_rowid"] for row in found}


SLUGS = st.integers(0, 19).map(lambda number: f"d{number:02}")
#: Numbers that 32-bit floats hold exactly.
FLOATS = st.integers(-1000, 1000).map(lambda number: number / 8)
DOCS = st.fixed_dictionaries(
    {
        "slug": SLUGS,
        "size": st.none() | st.integers(-(2**63), 2**63 - 1),
        "score": st.none() | FLOATS,
        "words": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
        "mood": st.none() | st.lists(FLOATS, min_size=2, max_size=2),
        # Empty ones are looked at elsewhere.
        "payload": st.none() | st.binary(min_size=1, max_size=80),
    }
)


def documents(min_size: int = 0) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(DOCS, unique_by=lambda row: str(row["slug"]), min_size=min_size, max_size=12)


NUMBERS = itertools.count()


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    target=documents(),
    deleted=st.sets(SLUGS, max_size=6),
    source=documents(min_size=1),
    rows_per_file=st.integers(1, 5),
)
def test_both_ways_to_merge_give_the_same_rows_with_the_same_row_ids(
    tmp_path: Path,
    target: list[dict[str, Any]],
    deleted: set[str],
    source: list[dict[str, Any]],
    rows_per_file: int,
) -> None:
    root = tmp_path / f"small{next(NUMBERS)}"
    small = og.create(root, SCHEMA)
    small.write(pa.Table.from_pylist(target, DOC), "Doc", max_rows_per_file=rows_per_file)
    small.delete("Doc", ids=sorted(deleted))
    before, kept = state_of(small, "node:Doc")
    large = og.open(shutil.copytree(root, root.with_name(f"large{next(NUMBERS)}")))
    rows = pa.Table.from_pylist(source, DOC)

    one = small.write(rows, "Doc", mode="merge", max_rows_per_file=rows_per_file)
    with taken_apart():
        other = large.write(rows, "Doc", mode="merge", max_rows_per_file=rows_per_file)

    assert one is not None
    assert other is not None
    assert one.changes == other.changes
    after, row_ids = state_of(small, "node:Doc")
    assert state_of(large, "node:Doc")[0] == after
    new = {row["slug"]: {"id": row["slug"], "day": None, **row} for row in source}
    assert after == before | new
    for graph in (small, large):
        _, row_ids = state_of(graph, "node:Doc")
        assert {id_: row_ids[id_] for id_ in kept} == kept
        assert len(set(row_ids.values())) == len(row_ids)
        unnamed = data_files(Path(graph.root)) - named_files(graph)
        assert unnamed == set(), "what was staged is gone"


OTHER_COLUMNS = [name for name in COLUMNS if name != "slug"]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    target=documents(),
    deleted=st.sets(SLUGS, max_size=6),
    source=documents(min_size=1),
    columns=st.lists(st.sampled_from(OTHER_COLUMNS), min_size=1, max_size=4, unique=True),
    rows_per_file=st.integers(1, 5),
    portion=st.integers(1, 5),
)
def test_a_merge_of_some_columns_gives_what_one_of_completed_rows_gives(
    tmp_path: Path,
    target: list[dict[str, Any]],
    deleted: set[str],
    source: list[dict[str, Any]],
    columns: list[str],
    rows_per_file: int,
    portion: int,
) -> None:
    """The rows are completed by hand for Lance's own merge, which replaces them whole."""
    root = tmp_path / f"some{next(NUMBERS)}"
    some = og.create(root, SCHEMA)
    some.write(pa.Table.from_pylist(target, DOC), "Doc", max_rows_per_file=rows_per_file)
    some.delete("Doc", ids=sorted(deleted))
    before, kept = state_of(some, "node:Doc")
    whole = og.open(shutil.copytree(root, root.with_name(f"whole{next(NUMBERS)}")))
    # The key is given, so that rows may be new: what else they lack is null.
    columns = ["slug", *columns]
    rows = pa.Table.from_pylist(source, DOC).select(columns)
    nothing = dict.fromkeys(COLUMNS)
    complete = [
        {name: {**nothing, **before.get(row["slug"], {}), **row}[name] for name in COLUMNS}
        for row in rows.to_pylist()
    ]

    one = whole.write(pa.Table.from_pylist(complete, DOC), "Doc", mode="merge")
    with patch.object(stored_rows, "_PORTION_ROWS", portion):
        other = some.write(
            rows, "Doc", mode="merge", merge_columns=columns, max_rows_per_file=rows_per_file
        )

    assert one is not None
    assert other is not None
    assert other.changes == one.changes
    after, row_ids = state_of(some, "node:Doc")
    assert after == state_of(whole, "node:Doc")[0]
    assert {id_: row_ids[id_] for id_ in kept} == kept
    assert len(set(row_ids.values())) == len(row_ids)
    unnamed = data_files(Path(some.root)) - named_files(some)
    assert unnamed == set(), "what was staged is gone"


def named_files(graph: og.Graph) -> set[str]:
    """The data files that any version of a type names."""
    named = set()
    for entry in graph.entries.values():
        dataset = lance.dataset(str(Path(graph.root, entry.path)))
        for version in dataset.versions():
            for fragment in dataset.checkout_version(version["version"]).get_fragments():
                named |= {f"{entry.path}/data/{file.path}" for file in fragment.data_files()}
    return named


# -- cases -----------------------------------------------------------------------------------------


@pytest.fixture(params=["small", "large"])
def either(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take both ways, one after the other."""
    if request.param == "small":
        yield
    else:
        with taken_apart():
            yield


@pytest.mark.usefixtures("either")
def test_many_types_are_merged_in_one_commit(graph: og.Graph) -> None:
    commit = transact(
        graph,
        lambda tx: tx.merge("Person", people(Ann=1, Dan=2)),
        lambda tx: tx.merge("Company", pa.table({"name": ["Acme", "Globex"]})),
        lambda tx: tx.merge("Knows", edges(k1="Dan-Dan", k9="Ann-Dan")),
    )
    assert commit is not None
    assert {
        key: (change.inserted, change.updated, change.rows)
        for key, change in commit.changes.items()
    } == {PERSON: (1, 1, 4), COMPANY: (1, 1, 3), "edge:Knows": (1, 1, 4)}
    assert_whole(graph)


@pytest.mark.usefixtures("either")
def test_the_first_merge_on_a_branch_keeps_row_ids_and_main(graph: og.Graph) -> None:
    main = state_of(graph, PERSON)
    graph.write(people(Ann=1, Dan=2), "Person", mode="merge", branch="dev", create_from="main")
    dev = graph.as_branch("dev")
    rows, row_ids = state_of(dev, PERSON)
    assert {name: row["age"] for name, row in rows.items()} == {
        "Ann": 1,
        "Bob": 41,
        "Cid": None,
        "Dan": 2,
    }
    assert {name: row_ids[name] for name in main[1]} == main[1]
    assert state_of(graph, PERSON) == main
    # A second level, and the same rows again.
    dev.write(people(Ann=3, Eve=4), "Person", mode="merge", branch="dev/sub", create_from="dev")
    sub = graph.as_branch("dev/sub")
    assert state_of(sub, PERSON)[1].items() >= row_ids.items()
    assert state_of(dev, PERSON) == (rows, row_ids)
    assert_whole(sub)


@pytest.mark.usefixtures("either")
def test_rows_are_merged_again_and_again(graph: og.Graph) -> None:
    _, row_ids = state_of(graph, PERSON)
    for age in range(4):
        graph.write(people(Ann=age, Bob=age, Cid=age), "Person", mode="merge", max_rows_per_file=1)
    rows, now = state_of(graph, PERSON)
    assert {row["age"] for row in rows.values()} == {3}
    assert now == row_ids


@pytest.mark.usefixtures("either")
def test_a_merge_into_nothing_only_inserts(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", SCHEMA)
    commit = graph.write(pa.table({"slug": ["a", "b"]}), "Doc", mode="merge")
    assert commit is not None
    assert (commit.changes["node:Doc"].inserted, commit.changes["node:Doc"].updated) == (2, 0)
    graph.write(pa.table({"slug": ["b", "c"], "payload": [b"y", b"x"]}), "Doc", mode="merge")
    assert ids(graph, "Doc") == ["a", "b", "c"]
    assert state_of(graph, "node:Doc")[0]["b"]["payload"] == b"y"


@pytest.mark.usefixtures("either")
def test_no_name_of_a_property_is_in_the_way_of_a_merge(tmp_path: Path) -> None:
    names = ["file", "fragment", "place", "_place", "row_id", "_row_id", "incoming", "c0"]
    text = "\n".join(f"{name}: String?" for name in names)
    graph = og.create(tmp_path / "g", f"node Doc {{ slug: String @key\n{text}\nblob: Blob? }}")
    rows = {"slug": ["a", "b"], "blob": [b"1", b"2"], **{name: [name, "x"] for name in names}}
    graph.write(pa.table(rows), "Doc")
    graph.write(pa.table({**rows, "file": ["F", None]}), "Doc", mode="merge")
    graph.write(pa.table({"id": ["b"], "_place": ["P"]}), "Doc", "merge", ["_place"])
    found = state_of(graph, "node:Doc")[0]
    same = {name: name for name in names}
    assert found["a"] == {"id": "a", "slug": "a", "blob": b"1", **same, "file": "F"}
    assert (found["b"]["_place"], found["b"]["file"], found["b"]["c0"]) == ("P", None, "x")


def test_what_is_large_is_decided_by_rows_and_by_bytes(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[str] = []
    for name in ("stage_merge", "merge_by_file"):
        real = getattr(preparing, name)

        def taken(*args: Any, name: str = name, real: Any = real) -> Any:
            ways.append(name)
            return real(*args)

        monkeypatch.setattr(preparing, name, taken)
    graph.write(people(Ann=1, Bob=2), "Person", mode="merge")
    monkeypatch.setattr(preparing, "SMALL_MERGE_ROWS", 2)
    graph.write(people(Ann=2, Bob=2), "Person", mode="merge")
    graph.write(people(Ann=3, Bob=2, Cid=3), "Person", mode="merge")
    monkeypatch.setattr(preparing, "SMALL_MERGE_BYTES", 10)
    graph.write(people(Ann=4), "Person", mode="merge")
    assert ways == ["stage_merge", "stage_merge", "merge_by_file", "merge_by_file"]


def test_a_large_merge_that_fails_half_way_leaves_nothing(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    def second_fails(*args: Any) -> Any:
        if next(calls) == 1:
            raise StorageError("transient", "there", "busy")
        return stage_rewritten(*args)

    before = files(Path(graph.root))
    monkeypatch.setattr(upserting, "stage_rewritten", second_fails)
    with taken_apart(), pytest.raises(StorageError, match="busy"):
        graph.write(people(Ann=1, Bob=2, Dan=3), "Person", mode="merge", max_rows_per_file=1)
    assert files(Path(graph.root)) == before


def test_a_second_type_that_fails_takes_the_first_with_it(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    def second_fails(*args: Any) -> Any:
        if next(calls) == 1:
            raise StorageError("transient", "there", "busy")
        return stage_merge(*args)

    before = files(Path(graph.root))
    monkeypatch.setattr(preparing, "stage_merge", second_fails)
    with pytest.raises(StorageError, match="busy"):
        transact(
            graph,
            lambda tx: tx.merge("Person", people(Ann=1)),
            lambda tx: tx.merge("Company", pa.table({"name": ["Acme"]})),
        )
    assert files(Path(graph.root)) == before


# -- what the engine wrote -------------------------------------------------------------------------


@pytest.mark.usefixtures("either")
def test_rows_of_the_engine_are_merged_whole(tmp_path: Path) -> None:
    graph = og.open(unpack("rich", tmp_path))
    for entity in graph.schema.types():
        key = str(entity.type_key)
        rows, row_ids = state_of(graph, key)
        everything = graph.snapshot().arrow(key, blobs="bytes")
        commit = graph.write(everything, key, mode="merge")
        if not rows:
            assert commit is None
            continue
        assert commit is not None
        change = commit.changes[key]
        assert (change.inserted, change.updated) == (0, len(rows))
        assert state_of(graph, key) == (rows, row_ids)


def test_a_merge_of_one_column_leaves_the_engines_other_columns_alone(tmp_path: Path) -> None:
    graph = og.open(unpack("rich", tmp_path))
    rows, row_ids = state_of(graph, "node:Doc")
    some = pa.table({"id": list(rows), "title": [f"new {id_}" for id_ in rows]})
    graph.write(some, "Doc", mode="merge", merge_columns=["title"])
    expected = {id_: {**row, "title": f"new {id_}"} for id_, row in rows.items()}
    assert state_of(graph, "node:Doc") == (expected, row_ids)


def test_of_rows_with_large_blobs_few_are_held_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.create(tmp_path / "g", SCHEMA)
    slugs = [f"d{number}" for number in range(8)]
    payloads = [bytes([number]) * 1000 for number in range(8)]
    graph.write(pa.table({"slug": slugs, "payload": payloads}), "Doc")
    before, row_ids = state_of(graph, "node:Doc")
    held: list[int] = []
    real = blob_values._values

    def counted(*args: Any) -> Any:
        values = real(*args)
        held.append(len(values))
        return values

    monkeypatch.setattr(blob_values, "_PORTION_BYTES", 3000)
    monkeypatch.setattr(blob_values, "_values", counted)
    sizes = pa.table({"id": slugs[::-1], "size": range(8)})
    graph.write_back(sizes, "Doc", columns=["size"])
    assert held == [3, 3, 2]
    monkeypatch.undo()
    expected = {slug: {**before[slug], "size": 7 - at} for at, slug in enumerate(slugs)}
    assert state_of(graph, "node:Doc") == (expected, row_ids)


def test_bytes_of_blobs_beside_their_file_count_for_what_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lance's own merge holds all of them in memory."""
    graph = og.create(tmp_path / "g", SCHEMA)
    rows = pa.table({"slug": ["a", "b"], "payload": [bytes(200_000), bytes(300_000)]})
    graph.write(rows, "Doc")
    monkeypatch.setattr(preparing, "SMALL_MERGE_BYTES", 400_000)
    with patch.object(preparing, "stage_merge") as whole:
        graph.write(rows, "Doc", mode="merge")
    assert not whole.called
    with patch.object(preparing, "merge_by_file") as by_file:
        graph.write(rows.slice(1), "Doc", mode="merge")
    assert not by_file.called
    assert {id_: len(row["payload"]) for id_, row in state_of(graph, "node:Doc")[0].items()} == {
        "a": 200_000,
        "b": 300_000,
    }


@pytest.mark.parametrize(
    "columns", [None, ["slug", "payload", "size"]], ids=["whole", "some columns"]
)
def test_of_merged_rows_with_large_blobs_few_are_held_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: list[str] | None
) -> None:
    graph = og.create(tmp_path / "g", SCHEMA)
    slugs = [f"d{number}" for number in range(8)]
    words = [["kept", slug] for slug in slugs]
    graph.write(pa.table({"slug": slugs, "words": words, "payload": [b"old"] * 8}), "Doc")
    before, row_ids = state_of(graph, "node:Doc")
    steps: list[str] = []
    values, rewritten = blob_values._values, stage_rewritten

    def read(*args: Any) -> Any:
        steps.append("read")
        return values(*args)

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            steps.append("write")
            yield batch

    def noted(address: Any, schema: Any, matched: Any, inserts: Any, *more: Any) -> Any:
        return rewritten(address, schema, written(matched), written(inserts), *more)

    monkeypatch.setattr(blob_values, "_PORTION_BYTES", 2500)
    monkeypatch.setattr(blob_values, "_values", read)
    monkeypatch.setattr(upserting, "stage_rewritten", noted)
    payloads = [None if number == 5 else bytes([number]) * 1000 for number in range(9)]
    new = pa.table({"slug": [*slugs[::-1], "new"], "size": range(9), "payload": payloads})
    with taken_apart():
        graph.write(new, "Doc", mode="merge", merge_columns=columns)
    # Of a merge of some columns also the stored blobs would be read, were there any of others.
    assert steps == ["read", "write"] * 5
    monkeypatch.undo()
    after, new_ids = state_of(graph, "node:Doc")
    assert {id_: new_ids[id_] for id_ in row_ids} == row_ids
    for row in new.to_pylist():
        kept = before.get(row["slug"], {}).get("words") if columns else None
        assert after[row["slug"]] == {
            **dict.fromkeys(after["new"]),
            **row,
            "id": row["slug"],
            "words": kept,
        }


def test_a_row_that_cannot_be_found_again_fails_the_merge(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(Path(graph.root))
    take = lance.LanceDataset._take_rows

    def without_last(self: Any, row_ids: Any, columns: Any) -> Any:
        return take(self, row_ids[:-1], columns)

    monkeypatch.setattr(lance.LanceDataset, "_take_rows", without_last)
    with pytest.raises(DamagedGraphError, match="1 rows of node:Person"):
        graph.write(people(Ann=1, Bob=2), "Person", mode="merge", merge_columns=["age"])
    assert files(Path(graph.root)) == before
