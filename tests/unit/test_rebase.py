"""Branches of a moved graph: only the places named in their manifests change, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import lance
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark.storage.rebase import rebase_manifest, resolve_base
from tests.helpers.builder import GraphBuilder

BASE_PATHS, PATH = 18, 4


# -- a second, plain protobuf writer -----------------------------------------------------------


def varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low]) if not high else bytes([low | 0x80]) + varint(high)


def delimited(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def fixed(number: int, content: bytes) -> bytes:
    return varint(number << 3 | {8: 1, 4: 5}[len(content)]) + content


def base_path(id_: int, path: str, name: str = "") -> bytes:
    """One entry of `base_paths`: id, name, whether it is a dataset root, path."""
    named = delimited(2, name.encode()) if name else b""
    entry = number_field(1, id_) + named + number_field(3, 1) + delimited(PATH, path.encode())
    return delimited(BASE_PATHS, entry)


NUMBERS = st.integers(1, (1 << 29) - 1).filter(lambda number: number != BASE_PATHS)
FIELD = st.one_of(
    st.builds(number_field, NUMBERS, st.integers(0, (1 << 64) - 1)),
    st.builds(delimited, NUMBERS, st.binary(max_size=300)),
    st.builds(fixed, NUMBERS, st.binary(min_size=8, max_size=8)),
    st.builds(fixed, NUMBERS, st.binary(min_size=4, max_size=4)),
)
FIELDS = st.lists(FIELD, max_size=6).map(b"".join)
PATHS = st.text(st.sampled_from("/abcé%:名 "), min_size=1, max_size=200)


@given(FIELDS, st.lists(st.tuples(st.integers(0, 300), PATHS, PATHS), max_size=4), FIELDS)
def test_a_manifest_without_moved_bases_stays_byte_for_byte(
    before: bytes, bases: list[tuple[int, str, str]], after: bytes
) -> None:
    manifest = before + b"".join(base_path(*base) for base in bases) + after
    assert rebase_manifest(manifest, {}) == manifest


@given(
    FIELDS,
    st.lists(st.tuples(st.integers(0, 300), PATHS, PATHS), min_size=1, max_size=4),
    FIELDS,
    st.dictionaries(PATHS, PATHS, max_size=2),
    st.data(),
)
def test_only_the_paths_of_bases_change_whatever_their_length(
    before: bytes,
    bases: list[tuple[int, str, str]],
    after: bytes,
    others: dict[str, str],
    data: st.DataObject,
) -> None:
    old = data.draw(st.sampled_from([path for _, path, _ in bases]))
    moved = {**others, old: data.draw(PATHS)}
    manifest = before + b"".join(base_path(*base) for base in bases) + after
    now = [base_path(id_, moved.get(path, path), name) for id_, path, name in bases]
    assert rebase_manifest(manifest, moved) == before + b"".join(now) + after


@given(st.integers(0, 20_000))
def test_moving_there_and_back_gives_the_same_bytes(longer: int) -> None:
    old, new = "/old/g/__manifest", "/" + "n" * longer + "/__manifest"
    manifest = number_field(1, 7) + base_path(1, old) + delimited(2, b"rest")
    there = rebase_manifest(manifest, {old: new})
    assert there != manifest
    assert rebase_manifest(there, {new: old}) == manifest


def test_a_path_elsewhere_in_the_manifest_is_not_touched() -> None:
    elsewhere = delimited(2, b"/old/g") + delimited(BASE_PATHS, delimited(2, b"/old/g"))
    assert rebase_manifest(elsewhere, {"/old/g": "/new"}) == elsewhere


def test_an_empty_manifest_is_empty() -> None:
    assert rebase_manifest(b"", {"/a": "/b"}) == b""


# -- where a base lies now ---------------------------------------------------------------------

ROOT, PERSON = "/new/place/g", "nodes/40d76f1f51639ec0"


@pytest.mark.parametrize(
    ("written", "now"),
    [
        ("/old/g/{path}", "{root}/{path}"),
        ("/old/g/{path}/tree/dev", "{root}/{path}/tree/dev"),
        ("/old/g/{path}/tree/team/x", "{root}/{path}/tree/team/x"),
        ("g/{path}", "{root}/{path}"),
        ("{path}", "{root}/{path}"),
        ("./g/{path}/tree/dev", "{root}/{path}/tree/dev"),
        ("file:///old/g/{path}", "{root}/{path}"),
        ("s3://bucket/g/{path}/tree/dev", "{root}/{path}/tree/dev"),
        ("/old/g/{path}/", "{root}/{path}"),
        # Already there.
        ("{root}/{path}", "{root}/{path}"),
        ("{root}/{path}/tree/dev", "{root}/{path}/tree/dev"),
        # Branches named like the dataset.
        ("/old/g/{path}/tree/{path}", "{root}/{path}/tree/{path}"),
        ("/old/g/{path}/tree/a/{path}", "{root}/{path}/tree/a/{path}"),
        ("/old/g/{path}/tree/{path}_dev", "{root}/{path}/tree/{path}_dev"),
        ("{root}/{path}/tree/{path}", "{root}/{path}/tree/{path}"),
        # None of this dataset's folders.
        ("/old/g/edges/602a25a3bd0b455b", "/old/g/edges/602a25a3bd0b455b"),
        ("/old/g/x{path}", "/old/g/x{path}"),
        ("/old/g/{path}x", "/old/g/{path}x"),
        ("/old/g/{path}/data", "/old/g/{path}/data"),
        ("s3://elsewhere/blobs", "s3://elsewhere/blobs"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("path", [PERSON, "__manifest"])
@pytest.mark.parametrize("root", [ROOT, "s3://bucket/moved", "/__manifest/tree/g"])
def test_a_base_is_looked_for_below_its_dataset_as_it_lies_now(
    written: str, now: str, path: str, root: str
) -> None:
    resolved = resolve_base(written.format(root=root, path=path), f"{root}/{path}", path)
    assert resolved == now.format(root=root, path=path)


@given(
    st.lists(st.text("abc.", min_size=1, max_size=3), max_size=4).map("/".join),
    st.none() | st.lists(st.text("abc.", min_size=1, max_size=3), min_size=1).map("/".join),
)
def test_every_base_of_a_moved_dataset_is_found_and_then_stays(
    old_root: str, branch: str | None
) -> None:
    below = "" if branch is None else f"/tree/{branch}"
    now = resolve_base(f"/{old_root}/{PERSON}{below}", f"{ROOT}/{PERSON}", PERSON)
    assert now == f"{ROOT}/{PERSON}{below}"
    assert resolve_base(now, f"{ROOT}/{PERSON}", PERSON) == now


# -- real manifests ----------------------------------------------------------------------------

SCHEMA = "node Person { name: String @key }"


def people(root: Path, branch: str) -> list[str]:
    rows = og.open(str(root), branch).snapshot().arrow("Person", ["id"]).to_pylist()
    return sorted(row["id"] for row in rows)


def graph_with_branches(root: Path, names: Iterable[str]) -> GraphBuilder:
    """A graph where each branch forks the one before it and adds a person of its name."""
    graph = GraphBuilder.create(root, SCHEMA)
    graph.write({"node:Person": [{"name": "main"}]})
    source = "main"
    for name in names:
        graph.create_branch(name, source=source)
        graph.write({"node:Person": [{"name": name}]}, branch=name)
        source = name
    return graph


def test_a_real_branch_manifest_names_its_new_place_and_is_else_unchanged(tmp_path: Path) -> None:
    graph = graph_with_branches(tmp_path / "g", ["dev", "dev-sub"])
    dataset = lance.dataset(f"{graph.root}/__manifest/tree/dev-sub")
    stored = dataset._ds.serialized_manifest()
    bases = [base.path for base in dataset.base_paths().values()]
    assert sorted(bases) == [f"{graph.root}/__manifest", f"{graph.root}/__manifest/tree/dev"]
    for root in ("/x", f"{graph.root}-moved-to-a-much-longer-place{'y' * 200}"):
        moved = {base: base.replace(str(graph.root), root) for base in bases}
        rebased = rebase_manifest(stored, moved)
        assert rebased != stored
        assert all(new.encode() in rebased for new in moved.values())
        assert not any(delimited(PATH, old.encode()) in rebased for old in bases)
        back = {new: old for old, new in moved.items()}
        assert rebase_manifest(rebased, back) == stored


@pytest.mark.parametrize("place", ["x", "a/much/longer/place/than/before", "name with space"])
def test_a_moved_graph_is_read_on_every_branch(place: str, tmp_path: Path) -> None:
    graph_with_branches(tmp_path / "g", ["dev", "team/x", "sub"])
    moved = tmp_path / place
    moved.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "g").rename(moved)
    assert people(moved, "main") == ["main"]
    assert people(moved, "dev") == ["dev", "main"]
    assert people(moved, "team/x") == ["dev", "main", "team/x"]
    assert people(moved, "sub") == ["dev", "main", "sub", "team/x"]


@pytest.mark.parametrize("name", ["__manifest", "a/__manifest", "__manifest_dev", PERSON])
def test_branches_named_like_a_dataset_are_read_in_place_and_moved(
    name: str, tmp_path: Path
) -> None:
    graph_with_branches(tmp_path / "g", [name, "sub"])
    assert people(tmp_path / "g", "sub") == sorted(["main", name, "sub"])
    moved = (tmp_path / "g").rename(tmp_path / "moved")
    assert people(moved, name) == sorted(["main", name])
    assert people(moved, "sub") == sorted(["main", name, "sub"])


def test_a_copy_reads_its_own_files_and_not_those_it_was_copied_from(tmp_path: Path) -> None:
    graph = graph_with_branches(tmp_path / "g", ["dev"])
    copied = tmp_path / "copy"
    (tmp_path / "g").rename(copied)
    # Where the graph was, another one lies now; its branch has the same versions.
    graph_with_branches(graph.root, ["dev"]).write({"node:Person": [{"name": "x"}]}, branch="dev")
    assert people(copied, "dev") == ["dev", "main"]
    assert people(graph.root, "dev") == ["dev", "main", "x"]
