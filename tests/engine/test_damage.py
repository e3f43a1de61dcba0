"""What is not a graph, or no longer a whole one, is refused in words; reading never writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    BranchNotFoundError,
    ColumnNotFoundError,
    CommitNotFoundError,
    ConflictingOptionsError,
    DamagedGraphError,
    FormatStampInvalidError,
    FormatStampMissingError,
    FormatTooNewError,
    FormatTooOldError,
    GraphNotFoundError,
    HistoryReclaimedError,
    InvalidFilterError,
    InvalidNameError,
    InvalidOptionError,
    SchemaFilesError,
    StorageError,
    TimestampNotFoundError,
    TypeAmbiguousError,
    TypeNotFoundError,
    VersionNotFoundError,
)
from omnigraph_spark.tables import METADATA_TABLES
from tests.engine.graphs import (
    KNOWS,
    PERSON,
    PERSON_FOLDER,
    SOCIAL,
    add_people,
    ages,
    listing,
    newest_version_file,
    refused,
)
from tests.helpers import golden
from tests.helpers.builder import MANIFEST_SCHEMA, STAMP, GraphBuilder
from tests.helpers.rows import new_ulid

SCHEMA, IR, STATE = "_schema.pg", "_schema.ir.json", "__schema_state.json"
EVERYONE = {"Alice": 30, "Bob": 41, "Carol": 7}


def read_everything(root: Path, branch: str = "main") -> None:
    """Everything a reader may ask of a graph."""
    graph = og.open(str(root), branch=branch, mode="r")
    snapshot = graph.snapshot()
    for key in snapshot.entries:
        snapshot.arrow(key)
        snapshot.arrow(key, columns=[], where="id = 'nobody'")
        snapshot.entity(key, "nobody")
    for table in METADATA_TABLES.values():
        table.read(snapshot._state)
    for commit in graph.history():
        graph.at(commit=commit.id)
    graph.at(timestamp=snapshot.commit.created_at)
    graph.branches()
    graph.refresh()


# -- not a graph ---------------------------------------------------------------------------------


def nothing(root: Path) -> None:
    assert not root.exists()


def an_empty_folder(root: Path) -> None:
    root.mkdir()


def a_file(root: Path) -> None:
    root.write_text("not a graph", encoding="utf-8")


def a_lance_dataset(root: Path) -> None:
    lance.write_dataset(pa.table({"id": ["a"]}), str(root))


def schema_files_alone(root: Path) -> None:
    GraphBuilder.create(root, SOCIAL)
    shutil.rmtree(root / "__manifest")


def a_manifest_without_versions(root: Path) -> None:
    GraphBuilder.create(root, SOCIAL)
    shutil.rmtree(root / "__manifest" / "_versions")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (nothing, "nothing is there"),
        (an_empty_folder, "it has no __manifest"),
        (a_file, "it has no __manifest"),
        (a_lance_dataset, "it has no __manifest"),
        (schema_files_alone, "its creation was interrupted before __manifest"),
        (a_manifest_without_versions, "its creation was interrupted before __manifest"),
    ],
)
def test_what_is_not_a_graph_is_called_so(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    root = tmp_path / "graph"
    make(root)

    with refused(GraphNotFoundError, root, str(root), "is not a graph", reason):
        og.open(str(root))
    with refused(GraphNotFoundError, root, str(root), reason):
        og.open(str(root), branch="dev")


def test_an_unfinished_creation_without_a_stamp_is_refused(tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", SOCIAL, stamp=None)

    with refused(FormatStampMissingError, graph.root, "no format stamp", "create it anew"):
        og.open(str(graph.root))


@pytest.mark.parametrize("mode", ["w", "", "R", "read"])
def test_an_unknown_mode_is_refused_before_anything_is_read(tmp_path: Path, mode: str) -> None:
    with refused(InvalidOptionError, tmp_path, "'mode'", "'r' or 'rw'"):
        og.open(str(tmp_path), mode=mode)


# -- schema files --------------------------------------------------------------------------------


def changed(content: bytes, old: bytes, new: bytes) -> bytes:
    assert old in content
    return content.replace(old, new)


def with_state(**values: Any) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(json.loads(content) | values).encode()


def deeper_than_python_counts(content: bytes) -> bytes:
    return b"[" * 200_000


def test_a_graph_with_whole_schema_files_is_read(social: GraphBuilder) -> None:
    read_everything(social.root)

    assert ages(og.open(str(social.root))) == EVERYONE


@pytest.mark.parametrize("file", [SCHEMA, IR, STATE])
def test_a_missing_schema_file_is_named(social: GraphBuilder, file: str) -> None:
    (social.root / file).unlink()

    with refused(SchemaFilesError, social.root, repr(file), "missing", "restore"):
        og.open(str(social.root))


@pytest.mark.parametrize(
    ("file", "damage", "blamed", "words"),
    [
        (SCHEMA, lambda c: changed(c, b"age: I32?", b"age: I64?"), SCHEMA, ["edited", "restore"]),
        (SCHEMA, lambda c: c + b"node Place { name: String }", SCHEMA, ["edited", "schema apply"]),
        (SCHEMA, lambda c: c + b"node {", SCHEMA, ["line 5", "expected"]),
        (SCHEMA, lambda c: c + b"edge Likes: Person -> Nobody", SCHEMA, ["Nobody"]),
        (SCHEMA, lambda c: b"\xff\xfe" + c, SCHEMA, ["UTF-8"]),
        (SCHEMA, lambda c: b"", SCHEMA, ["edited"]),
        (IR, lambda c: changed(c, b'"Company"', b'"Firm"'), IR, ["hash", STATE]),
        (IR, lambda c: c[:-20], IR, ["not JSON"]),
        (IR, lambda c: b"", IR, ["not JSON"]),
        (IR, lambda c: b"\xff\xfe", IR, ["not JSON"]),
        (IR, deeper_than_python_counts, IR, ["not JSON"]),
        (IR, lambda c: b"[]", IR, ["not a JSON object"]),
        (IR, lambda c: b"{}", IR, ["not a compiled schema"]),
        (IR, lambda c: b'{"nodes": 5}', IR, ["not a compiled schema"]),
        (STATE, with_state(schema_ir_hash="sha256:" + "0" * 64), IR, ["hash", STATE]),
        (STATE, with_state(schema_ir_hash=5), STATE, ["schema_ir_hash"]),
        (STATE, with_state(format_version=2), STATE, ["format_version is 2", "reads 1"]),
        (STATE, with_state(format_version=None), STATE, ["format_version is None", "reads 1"]),
        (STATE, lambda c: b'{"format_version": 1}', STATE, ["schema_ir_hash"]),
        (STATE, lambda c: b"[1]", STATE, ["not a JSON object"]),
        (STATE, lambda c: b"{", STATE, ["not JSON"]),
        (STATE, lambda c: b"\xff\xfe", STATE, ["not JSON"]),
    ],
)
def test_an_edited_schema_file_is_named_with_what_is_wrong(
    social: GraphBuilder,
    file: str,
    damage: Callable[[bytes], bytes],
    blamed: str,
    words: list[str],
) -> None:
    path = social.root / file
    path.write_bytes(damage(path.read_bytes()))

    with refused(SchemaFilesError, social.root, repr(blamed), *words):
        og.open(str(social.root))


def test_how_the_schema_files_are_written_does_not_matter(social: GraphBuilder) -> None:
    source, ir = social.root / SCHEMA, social.root / IR
    source.write_text("// a remark\n" + source.read_text(encoding="utf-8"), encoding="utf-8")
    ir.write_text(json.dumps(json.loads(ir.read_bytes())), encoding="utf-8")

    assert ages(og.open(str(social.root))) == EVERYONE


def test_without_the_derived_files_the_source_counts_while_main_is_the_only_branch(
    social: GraphBuilder,
) -> None:
    (social.root / IR).unlink()
    (social.root / STATE).unlink()
    before = listing(social.root)

    assert ages(og.open(str(social.root))) == EVERYONE
    assert listing(social.root) == before, "a reader regenerates nothing"


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_without_the_derived_files_a_graph_with_a_branch_is_refused(
    social: GraphBuilder, branch: str
) -> None:
    social.create_branch("dev")
    (social.root / IR).unlink()
    (social.root / STATE).unlink()

    with refused(SchemaFilesError, social.root, repr(IR), "missing", "restore"):
        og.open(str(social.root), branch=branch)


# -- the stamp -----------------------------------------------------------------------------------

STAMPS: list[tuple[str | None, type[og.OmnigraphError], list[str]]] = [
    ("0", FormatTooOldError, ["storage format 0", "reads format 4", "export it with the engine"]),
    ("3", FormatTooOldError, ["storage format 3", "reads format 4", "export it with the engine"]),
    ("6", FormatTooNewError, ["storage format 6", "install a newer omnigraph-spark"]),
    ("99", FormatTooNewError, ["storage format 99", "install a newer omnigraph-spark"]),
    (None, FormatStampMissingError, ["no format stamp", "export it with the engine"]),
    ("four", FormatStampInvalidError, ["'four'", "not a number", "restore"]),
    ("", FormatStampInvalidError, ["''", "not a number", "restore"]),
    ("-4", FormatStampInvalidError, ["'-4'", "not a number", "restore"]),
    ("4.0", FormatStampInvalidError, ["'4.0'", "not a number", "restore"]),
    ("٤", FormatStampInvalidError, ["'٤'", "not a number", "restore"]),
    ("9" * 5_000, FormatStampInvalidError, ["not a number", "restore"]),
]


def set_stamp(graph: GraphBuilder, stamp: str | None, branch: str = "main") -> None:
    manifest = graph.manifest(branch)
    if stamp is None:
        manifest.update_schema_metadata({}, replace=True)
    else:
        manifest.update_schema_metadata({STAMP: stamp})


@pytest.mark.parametrize(("stamp", "error", "words"), STAMPS)
def test_only_stamp_4_is_read_and_each_other_says_what_to_do(
    social: GraphBuilder, stamp: str | None, error: type[og.OmnigraphError], words: list[str]
) -> None:
    set_stamp(social, stamp)

    with refused(error, social.root, str(social.root), *words):
        og.open(str(social.root))


@pytest.mark.parametrize(("stamp", "error", "words"), STAMPS)
def test_nothing_else_is_read_before_the_stamp(
    social: GraphBuilder, stamp: str | None, error: type[og.OmnigraphError], words: list[str]
) -> None:
    set_stamp(social, stamp)
    for part in ("nodes", "edges", "__manifest/data", "__manifest/_deletions"):
        shutil.rmtree(social.root / part)
    for file in (SCHEMA, IR, STATE):
        (social.root / file).write_bytes(b"\xff")

    with refused(error, social.root, *words):
        og.open(str(social.root))


def test_a_branch_has_a_stamp_of_its_own(social: GraphBuilder) -> None:
    social.create_branch("dev")
    set_stamp(social, "6", branch="dev")

    with refused(FormatTooNewError, social.root, "storage format 6"):
        og.open(str(social.root), branch="dev")
    assert ages(og.open(str(social.root))) == EVERYONE


# -- the manifest --------------------------------------------------------------------------------


def upsert(graph: GraphBuilder, *rows: dict[str, Any]) -> None:
    """Write rows into the manifest without asking whether they make sense."""
    merge = graph.manifest().merge_insert("object_id")
    merge.when_matched_update_all().when_not_matched_insert_all().use_index(False)
    merge.execute(pa.Table.from_pylist(list(rows), schema=MANIFEST_SCHEMA))


def stored_row(graph: GraphBuilder, **values: Any) -> dict[str, Any]:
    """The manifest row that has these values."""
    [row] = [
        row
        for row in graph.manifest().to_table().to_pylist()
        if all(row[name] == value for name, value in values.items())
    ]
    return dict(row)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": None}, ["has no metadata"]),
        ({"row_count": None}, ["has no row_count"]),
        ({"table_version": None}, ["has no table_version"]),
        ({"metadata": "{"}, ["metadata", "not a JSON object"]),
        ({"metadata": "[]"}, ["metadata", "not a JSON object"]),
        ({"metadata": '{"e_tag":["x"]}'}, ["e_tag"]),
        ({"table_branch": "../../../elsewhere"}, ["branch", "'../../../elsewhere'"]),
        ({"table_branch": "/etc"}, ["branch", "'/etc'"]),
        ({"table_branch": ""}, ["branch", "''"]),
        ({"table_branch": "nobody"}, [f"'{PERSON_FOLDER}/tree/nobody' is missing"]),
    ],
)
def test_an_impossible_pin_is_damage(
    social: GraphBuilder, change: dict[str, Any], words: list[str]
) -> None:
    pin = stored_row(social, object_type="table_version", table_key=PERSON, table_version=3)
    upsert(social, pin | change)

    with refused(DamagedGraphError, social.root, str(social.root), PERSON, *words):
        og.open(str(social.root)).snapshot().arrow(PERSON)


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (None, ["has no location"]),
        ("", ["outside of the graph"]),
        (".", ["outside of the graph"]),
        ("/etc", ["outside of the graph"]),
        ("../social/" + PERSON_FOLDER, ["outside of the graph"]),
        ("nodes/../../elsewhere", ["outside of the graph"]),
        ("s3://bucket/nodes", ["outside of the graph"]),
        ("nodes/nobody", ["'nodes/nobody' is missing"]),
    ],
)
def test_a_dataset_outside_of_the_graph_or_missing_is_damage(
    social: GraphBuilder, location: str | None, words: list[str]
) -> None:
    upsert(social, stored_row(social, object_id=PERSON) | {"location": location})

    with refused(DamagedGraphError, social.root, PERSON, *words):
        og.open(str(social.root)).snapshot().arrow(PERSON)


@pytest.mark.parametrize("key", ["node:Nobody", "evil", "node:", "node:../x", "table:Person"])
def test_a_pin_of_something_that_is_no_type_is_damage(social: GraphBuilder, key: str) -> None:
    pin = stored_row(social, object_type="table_version", table_key=PERSON, table_version=3)
    upsert(social, pin | {"object_id": f"{key}$1", "table_key": key})

    with refused(DamagedGraphError, social.root, key):
        og.open(str(social.root))

    table = stored_row(social, object_id=PERSON)
    upsert(social, table | {"object_id": key, "table_key": key, "location": "nodes/x"})
    if key != "node:Nobody":  # a name the schema does not have is legal: it may have been dropped
        with refused(DamagedGraphError, social.root, key):
            og.open(str(social.root))


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "{",
        "[]",
        "{}",
        "5",
        '{"created_at":null}',
        '{"created_at":"now"}',
        '{"created_at":Infinity}',
        '{"created_at":1e300}',
        '{"created_at":99999999999999999999999}',
    ],
)
def test_a_commit_that_cannot_be_read_is_damage_wherever_it_is_met(
    social: GraphBuilder, metadata: str | None
) -> None:
    head = og.open(str(social.root)).snapshot().commit
    upsert(social, stored_row(social, object_id=head.id) | {"metadata": metadata})

    with refused(DamagedGraphError, social.root, head.id):
        og.open(str(social.root))


def test_a_damaged_commit_of_the_past_does_not_hide_the_newest_snapshot(
    social: GraphBuilder,
) -> None:
    past = og.open(str(social.root)).history()[1]
    upsert(social, stored_row(social, object_id=past.id) | {"metadata": "{}"})

    graph = og.open(str(social.root))

    assert ages(graph) == EVERYONE
    for ask in (
        graph.history,
        lambda: graph.at(commit=past.id),
        lambda: graph.at(timestamp="2026-01-01"),
    ):
        with refused(DamagedGraphError, social.root, past.id):
            ask()


def test_a_manifest_without_commits_or_columns_is_damage(social: GraphBuilder) -> None:
    social.manifest().delete("object_type = 'graph_commit'")
    with refused(DamagedGraphError, social.root, "no graph commit"):
        og.open(str(social.root))

    social.manifest().drop_columns(["row_count"])
    with refused(DamagedGraphError, social.root, "no column 'row_count'"):
        og.open(str(social.root))


def test_a_manifest_with_columns_of_another_type_is_damage(social: GraphBuilder) -> None:
    rows = social.manifest().to_table()
    at = rows.schema.get_field_index("table_key")
    large = rows.set_column(at, "table_key", rows["table_key"].cast(pa.large_string()))
    lance.write_dataset(large, str(social.root / "__manifest"), mode="overwrite")
    set_stamp(social, "4")

    with refused(DamagedGraphError, social.root, "'table_key'", "large_string", "string"):
        og.open(str(social.root))


def test_rows_of_a_kind_not_known_yet_are_skipped(social: GraphBuilder) -> None:
    upsert(social, {"object_id": "future", "object_type": "future_kind", "table_key": ""})

    assert ages(og.open(str(social.root))) == EVERYONE


def test_commits_that_name_each_other_as_parents_do_not_hang_a_reader(
    social: GraphBuilder,
) -> None:
    graph = og.open(str(social.root))
    newest, older, _ = graph.history()
    circle = {"parent_commit_id": newest.id, "created_at": older.created_at_us}
    upsert(social, stored_row(social, object_id=older.id) | {"metadata": json.dumps(circle)})

    with refused(TimestampNotFoundError, social.root, "no commit at or before"):
        graph.at(timestamp="2020-01-01")


# -- files ---------------------------------------------------------------------------------------


def test_a_missing_dataset_is_named_by_type_and_place(social: GraphBuilder) -> None:
    shutil.rmtree(social.root / PERSON_FOLDER)
    snapshot = og.open(str(social.root)).snapshot()

    assert snapshot.rows(PERSON) == 3, "the manifest still tells"
    with refused(DamagedGraphError, social.root, PERSON, repr(PERSON_FOLDER), "missing"):
        snapshot.arrow(PERSON)
    assert snapshot.arrow(KNOWS).num_rows == 1, "the other types are whole"


def test_a_missing_data_file_is_named(social: GraphBuilder) -> None:
    [file, _] = sorted((social.root / PERSON_FOLDER / "data").iterdir())
    file.unlink()
    snapshot = og.open(str(social.root)).snapshot()

    with refused(DamagedGraphError, social.root, PERSON, "Not found", file.name):
        snapshot.arrow(PERSON)


def test_a_missing_data_file_of_the_manifest_is_named(social: GraphBuilder) -> None:
    for file in (social.root / "__manifest" / "data").iterdir():
        file.unlink()

    with refused(DamagedGraphError, social.root, "__manifest", ".lance"):
        og.open(str(social.root))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda content: b"",
    "cut in half": lambda content: content[: len(content) // 2],
    "one byte short": lambda content: content[:-1],
    "zeros, as after a power cut": lambda content: bytes(len(content)),
    "another file": lambda content: b"another file " * 100,
    "garbled, so that Lance panics": lambda c: bytes(b ^ 0xFF for b in c[:-16]) + c[-16:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lance_manifest_of_the_manifest_is_damage(
    social: GraphBuilder, damage: str
) -> None:
    file = newest_version_file(social.root / "__manifest")
    file.write_bytes(DAMAGES[damage](file.read_bytes()))

    with refused(DamagedGraphError, social.root, str(social.root), "__manifest"):
        og.open(str(social.root))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lance_manifest_of_a_type_is_damage(social: GraphBuilder, damage: str) -> None:
    file = newest_version_file(social.root / PERSON_FOLDER)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))

    with refused(DamagedGraphError, social.root, str(social.root), PERSON):
        og.open(str(social.root)).snapshot().arrow(PERSON)


@pytest.mark.parametrize("damage", ["emptied", "cut in half", "another file"])
def test_a_damaged_data_file_is_damage(social: GraphBuilder, damage: str) -> None:
    for file in (social.root / PERSON_FOLDER / "data").iterdir():
        file.write_bytes(DAMAGES[damage](file.read_bytes()))

    with refused(DamagedGraphError, social.root, str(social.root), PERSON):
        og.open(str(social.root)).snapshot().arrow(PERSON)


def test_a_reclaimed_version_is_named_with_branch_type_and_version(social: GraphBuilder) -> None:
    social.create_branch("keep")
    add_people(social, Dave=1)
    graph = og.open(str(social.root))
    lance.dataset(str(social.root / PERSON_FOLDER)).cleanup_old_versions(
        retain_versions=1, error_if_tagged_old_versions=False
    )

    assert ages(graph) == EVERYONE | {"Dave": 1}
    words = ["version reclaimed", "dataset version 3", PERSON, "cleanup", "newer snapshot"]
    with refused(HistoryReclaimedError, social.root, "'keep'", *words):
        graph.at(branch="keep").arrow(PERSON)
    with refused(HistoryReclaimedError, social.root, "'main'", *words):
        graph.at(version=5).entity(PERSON, "Alice")
    assert graph.at(version=5).rows(PERSON) == 3


def test_the_engines_own_cleanup_leaves_a_branch_that_says_version_reclaimed(
    tmp_path: Path,
) -> None:
    root = golden.unpack(golden.RECLAIMED, tmp_path)
    snapshot = og.open(str(root), branch="keep").snapshot()
    lost = {
        key
        for key, entry in snapshot.entries.items()
        if entry.dataset_version not in dataset_versions(root / entry.path)
    }
    assert lost

    for key in lost:
        words = ("version reclaimed", "'keep'", key, str(snapshot.entries[key].dataset_version))
        with refused(HistoryReclaimedError, root, *words):
            snapshot.arrow(key)


def dataset_versions(folder: Path) -> set[int]:
    return {(1 << 64) - 1 - int(file.stem) for file in (folder / "_versions").glob("*.manifest")}


# -- names that do not exist ---------------------------------------------------------------------


def test_an_unknown_branch_is_answered_with_the_branches_there_are(social: GraphBuilder) -> None:
    social.create_branch("dev")

    with refused(BranchNotFoundError, social.root, "'nobody'", "this graph has dev, main"):
        og.open(str(social.root), branch="nobody")
    graph = og.open(str(social.root))
    for ask in (
        lambda: graph.at(branch="nobody"),
        lambda: graph.at(branch="nobody", version=1),
        lambda: graph.at(branch="nobody", timestamp="2026-01-01"),
        lambda: graph.as_branch("nobody"),
        lambda: graph.snapshot(og.Ref.branch("nobody")),
    ):
        with refused(BranchNotFoundError, social.root, "'nobody'", "this graph has dev, main"):
            ask()


def test_the_folder_of_a_refused_branch_name_is_no_branch(social: GraphBuilder) -> None:
    social.create_branch("dev")
    (social.root / "__manifest" / "_refs" / "branches" / "dev.json").unlink()

    with refused(BranchNotFoundError, social.root, "'dev'", "this graph has main"):
        og.open(str(social.root), branch="dev")
    assert [branch.name for branch in og.open(str(social.root)).branches()] == ["main"]


def test_a_branch_ref_that_cannot_be_read_is_named(social: GraphBuilder) -> None:
    social.create_branch("dev")
    file = social.root / "__manifest" / "_refs" / "branches" / "dev.json"

    for content in (b"", b"{", b"[]", b"{}", b"\xff"):
        file.write_bytes(content)
        with refused(StorageError, social.root, "permanent", "dev.json", "not a branch"):
            og.open(str(social.root), branch="dev")
        assert ages(og.open(str(social.root))) == EVERYONE


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Nobody", "known are edge:Knows, node:Company, node:Person"),
        ("person", "did you mean 'node:Person'?"),
        ("node:Knows", "did you mean 'edge:Knows'?"),
        ("edge:Person", "did you mean 'node:Person'?"),
        ("", "known are"),
        (":", "known are"),
        ("node:Person' or '1'='1", "did you mean 'node:Person'?"),
        ("../__manifest", "known are"),
        (PERSON_FOLDER, "known are"),
        ("node:Person\0", "did you mean 'node:Person'?"),
        ("node:Pérson", "did you mean 'node:Person'?"),
    ],
)
def test_an_unknown_type_is_answered_with_the_likely_one_or_all(
    social_root: Path, name: str, hint: str
) -> None:
    snapshot = og.open(str(social_root)).snapshot()

    for ask in (snapshot.arrow, snapshot.rows, lambda type_: snapshot.entity(type_, "Alice")):
        with refused(TypeNotFoundError, social_root, repr(name), hint):
            ask(name)


def test_a_bare_name_of_a_node_and_an_edge_type_must_say_which(tmp_path: Path) -> None:
    schema = "node Link { url: String @key }\nedge Links: Link -> Link\n"
    graph = GraphBuilder.create(tmp_path / "graph", schema)
    edge = stored_row(graph, object_id="edge:Links")
    pin = stored_row(graph, object_type="table_version", table_key="edge:Links")
    upsert(
        graph,
        edge | {"object_id": "edge:Link", "table_key": "edge:Link"},
        pin | {"object_id": "edge:Link$1", "table_key": "edge:Link"},
    )
    snapshot = og.open(str(graph.root)).snapshot()

    with refused(TypeAmbiguousError, graph.root, "'node:Link' or 'edge:Link'"):
        snapshot.arrow("Link")
    assert snapshot.arrow("edge:Link").column_names == ["id", "src", "dst"]


@pytest.mark.parametrize(
    ("column", "hint"),
    [
        ("nobody", "known are id, age, name"),
        ("Age", "did you mean 'age'?"),
        ("`age`", "did you mean 'age'?"),
        ("age`; drop", "known are"),
        ("age, name", "did you mean 'name'?"),
        ("*", "known are"),
        ("", "known are"),
        ("_rowid", "known are"),
        ("age + 1", "did you mean 'age'?"),
    ],
)
def test_an_unknown_column_is_answered_with_the_likely_one_or_all(
    social_root: Path, column: str, hint: str
) -> None:
    snapshot = og.open(str(social_root)).snapshot()

    with refused(ColumnNotFoundError, social_root, PERSON, repr(column), hint):
        snapshot.arrow(PERSON, columns=["id", column])


def test_an_unknown_commit_version_or_time_is_answered_with_what_there_is(
    social_root: Path,
) -> None:
    graph = og.open(str(social_root))
    stranger = new_ulid()

    with refused(CommitNotFoundError, social_root, repr(stranger), "no branch of this graph"):
        graph.at(commit=stranger)
    for version in (6, 99, 2**64, 2**80):
        with refused(VersionNotFoundError, social_root, f"version {version};", "newest is 5"):
            graph.at(version=version)
    with refused(TimestampNotFoundError, social_root, "1999-12-31", "first commit was made at"):
        graph.at(timestamp="1999-12-31")


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "/",
        "..",
        ".",
        "../main",
        "a/../b",
        "a//b",
        "/main",
        "main/",
        "a b",
        "a\\b",
        "a'b",
        'a"b',
        "a;b",
        "a\nb",
        "main\n",
        "a\0b",
        "a%2Fb",
        "x.lock",
        "a?b",
        "a*b",
        "__schema_apply_lock__",
    ],
)
def test_a_branch_name_that_could_mean_a_path_never_reaches_storage(
    social_root: Path, name: str
) -> None:
    graph = og.open(str(social_root))

    with refused(InvalidNameError, social_root, "branch name", repr(name)):
        og.open(str(social_root / "nowhere"), branch=name)
    for ask in (og.Ref.branch, graph.as_branch, lambda name: graph.at(branch=name)):
        with refused(InvalidNameError, social_root, "branch name", repr(name)):
            ask(name)


@pytest.mark.parametrize(
    "commit",
    ["", "HEAD", "main", "01M7H9HTBYP3Y9T01G8JF1JW8", "01m7h9htbyp3y9t01g8jf1jw87", "' or ''='",
     "../../__manifest/_versions", "01M7H9HTBYP3Y9T01G8JF1JW87\n", "ILOU" * 6 + "AA"],
)  # fmt: skip
def test_a_commit_id_is_a_ulid_or_refused(social_root: Path, commit: str) -> None:
    with refused(InvalidNameError, social_root, "commit id", repr(commit), "ULID"):
        og.open(str(social_root)).at(commit=commit)


def test_a_version_or_time_that_cannot_be_one_is_refused(social_root: Path) -> None:
    graph = og.open(str(social_root))

    for version in (0, -1, True):
        with refused(InvalidNameError, social_root, repr(str(version)), "above zero"):
            graph.at(version=version)
    for timestamp in ("", "yesterday", "2026-13-01", "12", "' or 1=1"):
        with refused(InvalidNameError, social_root, repr(timestamp), "ISO 8601"):
            graph.at(timestamp=timestamp)


def test_two_ways_to_name_a_snapshot_are_one_too_many(social_root: Path) -> None:
    graph = og.open(str(social_root))
    commit = graph.snapshot().commit.id

    with refused(ConflictingOptionsError, social_root, "'commit'", "'version'"):
        graph.at(commit=commit, version=4)
    with refused(ConflictingOptionsError, social_root, "'version'", "'timestamp'"):
        graph.at(version=4, timestamp="2026-01-01")
    with refused(ConflictingOptionsError, social_root, "'commit'", "'branch'"):
        graph.at(commit=commit, branch="main")


# -- filters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("", ["empty"]),
        ("  \n", ["empty"]),
        ("age > = 1", ["expression"]),
        ("age >", ["expression"]),
        ("(age > 1", ["parenthesis"]),
        ("age > 1)", ["parenthesis"]),
        ("age > 1) or (1 = 1", ["parenthesis"]),
        ("nobody = 1", ["nobody"]),
        ("`AGE` = 1", ["AGE"]),
        ("age", ["boolean"]),
        ("age + 1", ["boolean"]),
        ("1", ["boolean"]),
        ("'true'", ["boolean"]),
        ("age = 'thirty'", ["Int32"]),
        ("name > 5 and", ["expression"]),
        ("age > 1; delete from t", ["';'"]),
        ("age > 1 -- and more", ["comments"]),
        ("age > 1 /* and more */", ["comments"]),
        ("\"name\" = 'Bob'", ["double quotes", "backticks"]),
        ('name = "Bob"', ["double quotes"]),
        ("name = 'Bob", ["not closed"]),
        ("`name = 'Bob'", ["not closed"]),
        ("name = 'Bob\0", ["not closed"]),
        ("age in (select 1)", ["not supported"]),
        ("exists (select 1)", ["not supported"]),
        ("(select true)", ["not supported"]),
        ("select 1", ["select"]),
        ("age > 1 limit 1", ["limit"]),
        ("age > 1 order by name", ["order"]),
        ("age > 1 group by name", ["group"]),
        ("age > 1 union select 1", ["union"]),
        ("age > 1, age < 3", [","]),
        ("age > 1 name = 'Bob'", ["name"]),
        ("age = ?", ["?"]),
        ("age = $1", ["$"]),
        ("age = :one", [":"]),
        ("name = n'Bob'", ["n'"]),
        ("nobody(age) = 1", ["nobody"]),
        ("count(*) > 1", ["count"]),
        ("age / 0 = 1", ["zero"]),
        ("regexp_like(name, '(')", ["regex"]),
    ],
)
def test_a_filter_that_is_no_condition_on_the_columns_is_refused(
    social_root: Path, where: str, words: list[str]
) -> None:
    snapshot = og.open(str(social_root)).snapshot()

    with refused(InvalidFilterError, social_root, repr(where)):
        snapshot.arrow(PERSON, where=where)
    with pytest.raises(InvalidFilterError) as caught:
        snapshot.arrow(PERSON, columns=[], where=where, limit=1)
    reason = caught.value.reason.lower()
    assert [word for word in words if word.lower() not in reason] == [], reason
    assert "\n" not in reason
    assert ".rs:" not in reason


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("name = 'Bob'", {"Bob"}),
        ("`name` = 'Bob' and (age > 40)", {"Bob"}),
        ("(age > 40) or (age < 10)", {"Bob", "Carol"}),
        ("name = 'Bob' or name = ''';--'", {"Bob"}),
        ("name like '%o%'", {"Bob", "Carol"}),
        ("name in ('Bob', '/*', '*/', '\"', '`', ';', '(')", {"Bob"}),
        ("age between 7 and 30", {"Alice", "Carol"}),
        ("age is not null and not (age = 7)", {"Alice", "Bob"}),
        ("true", {"Alice", "Bob", "Carol"}),
        ("false", set()),
    ],
)
def test_a_filter_that_only_looks_dangerous_is_evaluated(
    social_root: Path, where: str, names: set[str]
) -> None:
    found = og.open(str(social_root)).snapshot().arrow(PERSON, where=where)

    assert set(found["name"].to_pylist()) == names


STRANGE_IDS = [
    "O'Neill",
    "''",
    "'",
    "\\",
    "\\'",
    "back\\slash\\",
    "a' or '1'='1",
    "a'; drop table people; --",
    "/* comment */",
    '"quoted"',
    "`ticks`",
    "%",
    "_",
    "$1",
    "?",
    ":x",
    "line\nbreak",
    "tab\t",
    " space ",
    "",
    "(",
    "nul\0l",
    "Zoë",
    "Zoe\u0308",
    "雪だるま☃",
    "🧑‍🚀",
    "\u202eright to left",
    "NULL",
    "true",
    "x" * 10_000,
]


def test_an_entity_is_found_by_exactly_its_id_whatever_the_id(social: GraphBuilder) -> None:
    social.write({PERSON: [{"name": id_, "age": n} for n, id_ in enumerate(STRANGE_IDS, 100)]})
    social.create_index(PERSON, "id")
    social.publish()
    snapshot = og.open(str(social.root)).snapshot()

    found = {id_: snapshot.entity(PERSON, id_) for id_ in STRANGE_IDS}

    assert {id_: row and row["age"] for id_, row in found.items()} == {
        id_: number for number, id_ in enumerate(STRANGE_IDS, 100)
    }
    for absent in ("nobody", "alice", "Alice ", "Zoe", "' or 1=1 --", "\\\\"):
        assert snapshot.entity(PERSON, absent) is None


# -- reading never writes ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_reading_leaves_every_file_as_it_was(social: GraphBuilder, mode: str) -> None:
    social.create_branch("dev")
    add_people(social, "dev", Dave=1)
    social.create_branch("dev-sub", source="dev")
    before = listing(social.root)

    for branch in ("main", "dev", "dev-sub"):
        og.open(str(social.root), branch=branch, mode=mode)
        read_everything(social.root, branch)

    assert listing(social.root) == before


@pytest.mark.parametrize("case", ["branches", "crashed-two-sidecars", "crashed-apply-staged"])
def test_reading_what_the_engine_wrote_leaves_every_file_as_it_was(
    tmp_path: Path, case: str
) -> None:
    root = golden.unpack(case, tmp_path)
    before = listing(root)

    for branch in og.open(str(root), mode="r").branches():
        read_everything(root, branch.name)

    assert listing(root) == before
