"""Creating graphs: what the engine makes of them, what is in the way, and who wins a race."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph_spark as og
from omnigraph_spark.create import create_graph
from omnigraph_spark.errors import (
    GraphExistsError,
    OutcomeUnknownError,
    SchemaRuleError,
    SchemaSyntaxError,
    StorageError,
)
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.publish import publish
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.storage.settings import StorageSettings
from tests.engine.graphs import PERSON, SOCIAL, listing, refused
from tests.engine.race_work import create_one, intent, manifest_of
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder
from tests.helpers.engine import engine_export, engine_json, run_engine
from tests.helpers.racers import Racers
from tests.helpers.s3 import S3Server

SETTINGS = StorageSettings()
#: The module: the package has a function of the same name.
create = importlib.import_module("omnigraph_spark.create")
RICH = (golden.GOLDEN / "rich" / "input" / "schema.pg").read_text(encoding="utf-8")
SCHEMA_FILES = ("_schema.pg", "_schema.ir.json", "__schema_state.json")


def files_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


# -- what is made ----------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [RICH, SOCIAL, ""], ids=["rich", "social", "empty"])
def test_a_new_graph_has_every_type_and_no_row(schema: str, tmp_path: Path) -> None:
    root = tmp_path / "new" / "graph"
    commit = create_graph(str(root), schema, SETTINGS)
    graph = og.open(str(root))
    declared = parse_schema(schema)
    assert graph.schema == declared
    assert set(graph.entries) == {str(entity.type_key) for entity in declared.types()}
    assert {(e.rows, e.dataset_version) for e in graph.entries.values()} <= {(0, 1)}
    assert graph.history() == [commit]
    assert (commit.parent_id, commit.actor, commit.manifest_version) == (None, None, 1)
    for entity in declared.types():
        dataset = lance.dataset(str(root / graph.entries[str(entity.type_key)].path))
        assert dataset.schema.names == arrow_schema(entity).names
        assert (dataset.data_storage_version, dataset.has_stable_row_ids) == ("2.2", True)


def test_a_new_graph_is_stamped_in_its_first_version(tmp_path: Path) -> None:
    create_graph(str(tmp_path / "g"), SOCIAL, SETTINGS)
    manifest = lance.dataset(str(tmp_path / "g" / "__manifest"), version=1)
    assert manifest.latest_version == 1
    assert manifest.schema_metadata == {"omnigraph:internal_schema_version": "4"}
    key = manifest.schema.field("object_id").metadata
    assert key == {b"lance-schema:unenforced-primary-key": b"true"}
    assert (manifest.data_storage_version, manifest.has_stable_row_ids) == ("2.2", True)


def test_genesis_rows_are_those_of_the_engine(tmp_path: Path) -> None:
    """The same rows in the same order of kinds as in the golden graph, but for ids and times."""
    theirs, ours = golden.unpack("empty", tmp_path), tmp_path / "ours"
    create_graph(str(ours), (theirs / "_schema.pg").read_text(encoding="utf-8"), SETTINGS)

    def rows(root: Path) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = lance.dataset(str(root / "__manifest")).to_table().to_pylist()
        for row in found:
            detail = json.loads(row["metadata"] or "{}")
            row["metadata"] = list(detail)
            if "manifest_path" in detail:
                # Below the root, which differs; size, tag and time differ as well.
                row["metadata"].append(detail["manifest_path"].split(root.name)[-1])
                assert re.fullmatch("[0-9a-f]+-[0-9a-f]+-[0-9a-f]+", detail["e_tag"])
            if row["object_type"] == "graph_commit":
                row["object_id"] = "commit"
        return found

    def by_name(root: Path) -> list[dict[str, Any]]:
        return sorted(rows(root), key=lambda row: str(row["object_id"]))

    def kinds(root: Path) -> list[str]:
        return [row["object_type"] for row in rows(root)]

    assert by_name(ours) == by_name(theirs)
    assert kinds(ours) == kinds(theirs)
    for name in SCHEMA_FILES:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()


def test_the_schema_is_kept_byte_for_byte(tmp_path: Path) -> None:
    text = "// Zoë\r\n\tnode A { n: I32? }  \r\n\r\n"
    create_graph(str(tmp_path / "g"), text, SETTINGS)
    assert (tmp_path / "g" / "_schema.pg").read_bytes() == text.encode()
    assert [entity.name for entity in og.open(str(tmp_path / "g")).schema.types()] == ["A"]


def test_a_new_graph_takes_commits_and_compactions(tmp_path: Path) -> None:
    root = tmp_path / "g"
    first = create_graph(str(root), SOCIAL, SETTINGS)
    commit = publish(manifest_of(root), "main", [], {PERSON: 1}, intent())
    assert (commit.parent_id, commit.manifest_version) == (first.id, 2)
    GraphBuilder.open(root).write({PERSON: [{"name": "Alice", "age": 30}]})
    assert og.open(str(root)).snapshot().rows(PERSON) == 1


def test_a_graph_is_created_on_an_object_store(s3: S3Server) -> None:
    root = f"s3://{s3.make_bucket()}/graphs/social"
    settings = StorageSettings.resolve(s3.storage_options)
    commit = create_graph(root, SOCIAL, settings)
    graph = og.open(root, storage=s3.storage_options)
    assert graph.history() == [commit]
    manifest = Manifest(root, settings)
    publish(manifest, "main", [], {PERSON: 1}, intent(), if_head=commit.id)
    with pytest.raises(GraphExistsError, match="a graph is there already"):
        create_graph(root, SOCIAL, settings)
    rows = manifest.open_version("main", 1, manifest.newest()).table(["metadata"])
    details = [json.loads(text) for text in rows.column("metadata").to_pylist() if text]
    paths = [detail["manifest_path"] for detail in details if "manifest_path" in detail]
    assert len(paths) == 3
    assert all(re.match("graphs/social/(nodes|edges)/", path) for path in paths)


# -- what is in the way ----------------------------------------------------------------------------


def test_an_existing_graph_is_refused_and_left_alone(social: GraphBuilder) -> None:
    with refused(GraphExistsError, social.root, "a graph is there already"):
        create_graph(str(social.root), SOCIAL, SETTINGS)


def keep_only(root: Path, *names: str) -> None:
    for path in root.iterdir():
        if path.name not in names:
            path.rename(root.parent / path.name)


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (["_schema.pg"], ("_schema.pg without _schema.ir.json", "__manifest", "interrupted")),
        (list(SCHEMA_FILES), ("__schema_state.json without __manifest",)),
        ([*SCHEMA_FILES, "nodes", "edges"], ("without __manifest",)),
        (["__manifest"], ("__manifest without _schema.pg",)),
        (["_schema.pg", "__manifest"], ("_schema.pg, __manifest without _schema.ir.json",)),
        (["nodes"], ("nodes/", "node:", "belongs")),
        (["__recovery"], ("unfinished write", "01M7H9Q3M4TGY6NZG1D1C373DC")),
    ],
)
def test_a_part_of_a_graph_is_refused_and_left_alone(
    left: list[str], words: tuple[str, ...], social: GraphBuilder
) -> None:
    (social.root / "__recovery").mkdir()
    (social.root / "__recovery" / "01M7H9Q3M4TGY6NZG1D1C373DC.json").write_text("{}")
    keep_only(social.root, *left)
    with refused(GraphExistsError, social.root, *words):
        create_graph(str(social.root), SOCIAL, SETTINGS)


def test_other_files_are_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "nodes").mkdir()
    create_graph(str(tmp_path), SOCIAL, SETTINGS)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert og.open(str(tmp_path)).snapshot().rows(PERSON) == 0


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("node Person { name }", SchemaSyntaxError),
        ("node A { x: I32 x: I32 }", SchemaRuleError),
        ("node A { id: String }", SchemaRuleError),
        ("node A { x: I32 } edge E: A -> A { src: String }", SchemaRuleError),
        ("node A { _rowid: I64 }", SchemaRuleError),
    ],
)
def test_a_wrong_schema_is_refused_before_anything_is_written(
    schema: str, error: type[og.OmnigraphError], tmp_path: Path
) -> None:
    with refused(error, tmp_path):
        create_graph(str(tmp_path / "g"), schema, SETTINGS)


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g").write_text("a file")
    with refused(StorageError, tmp_path):
        create_graph(str(tmp_path / "g"), SOCIAL, SETTINGS)


# -- what fails on the way -------------------------------------------------------------------------


class Failing:
    """Fails at the n-th call of a function, before or after doing its work."""

    def __init__(self, real: Callable[..., Any], at: int, *, after: bool = False) -> None:
        self.real, self.at, self.after, self.calls = real, at, after, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls == self.at and not self.after:
            raise StorageError("unknown", "", "disk full")
        done = self.real(*args)
        if self.calls == self.at:
            raise StorageError("unknown", "", "answer lost")
        return done


@pytest.mark.parametrize("step", ["create_dataset", "create_manifest"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_failed_creation_takes_back_what_it_made(
    step: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "mine.txt").write_text("not a dataset")
    failing = Failing(getattr(create, step), 1 if step == "create_manifest" else at)
    with monkeypatch.context() as patch:
        patch.setattr(create, step, failing)
        with pytest.raises(StorageError, match="disk full"):
            create_graph(str(tmp_path), SOCIAL, SETTINGS)
    assert files_below(tmp_path) == {"nodes/mine.txt"}
    create_graph(str(tmp_path), SOCIAL, SETTINGS)
    assert og.open(str(tmp_path)).snapshot().rows(PERSON) == 0


def test_a_failed_creation_leaves_the_dataset_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    create_graph(str(other), SOCIAL, SETTINGS)
    real = create.create_dataset

    def intrude(address: Any, *args: Any) -> Any:
        if "edges" in address.path:
            (tmp_path / "g" / "edges").mkdir(exist_ok=True)
            (other / address.path).rename(tmp_path / "g" / address.path)
        return real(address, *args)

    monkeypatch.setattr(create, "create_dataset", intrude)
    with pytest.raises(GraphExistsError, match="a dataset at 'edges/"):
        create_graph(str(tmp_path / "g"), SOCIAL, SETTINGS)
    left = files_below(tmp_path / "g")
    assert left
    assert all(name.startswith("edges/") for name in left)


def test_a_last_step_whose_answer_was_lost_is_a_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create, "create_manifest", Failing(create.create_manifest, 1, after=True))
    commit = create_graph(str(tmp_path / "g"), SOCIAL, SETTINGS)
    assert og.open(str(tmp_path / "g")).history() == [commit]


def test_on_an_object_store_a_last_step_in_doubt_keeps_the_rest(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"s3://{s3.make_bucket()}/g"
    settings = StorageSettings.resolve(s3.storage_options)
    late: list[Callable[[], None]] = []

    def give_up(*args: Any) -> None:
        late.append(lambda: real(*args))
        raise StorageError("unknown", root, "timed out")

    real = create.create_manifest
    monkeypatch.setattr(create, "create_manifest", give_up)
    with pytest.raises(OutcomeUnknownError) as caught:
        create_graph(root, SOCIAL, settings)
    late[0]()
    (commit,) = og.open(root, storage=s3.storage_options).history()
    assert commit.id == caught.value.commit


# -- races -----------------------------------------------------------------------------------------


def test_of_two_creators_one_wins_and_the_other_harms_nothing(
    tmp_path: Path, racers: Racers
) -> None:
    rounds = 20
    args = (str(tmp_path), SOCIAL)
    ours, theirs = racers.run(create_one, args, args, rounds=rounds)
    for number, answers in enumerate(zip(ours, theirs, strict=True)):
        (winner,) = [answer for answer in answers if answer != GraphExistsError.code]
        graph = og.open(str(tmp_path / f"g{number}"))
        assert [commit.id for commit in graph.history()] == [winner]
        assert set(graph.entries) == {"node:Person", "node:Company", "edge:Knows"}
        publish(manifest_of(graph.root), "main", [], {PERSON: 1}, intent(), if_head=winner)


# -- the released engine ---------------------------------------------------------------------------


@pytest.mark.engine
def test_the_engine_uses_a_new_rich_graph_as_its_own(tmp_path: Path) -> None:
    root = tmp_path / "g"
    commit = create_graph(str(root), RICH, SETTINGS)
    listed = engine_json("commit", "list", root)["commits"]
    assert [entry["graph_commit_id"] for entry in listed] == [commit.id]
    tables = engine_json("snapshot", root)["tables"]
    assert {table["table_key"] for table in tables} == set(og.open(str(root)).entries)
    assert engine_export(root) == []
    repaired = engine_json("repair", root)
    assert {table["classification"] for table in repaired["tables"]} == {"no_drift"}
    data = next((golden.GOLDEN / "rich" / "input").glob("*.jsonl"))
    run_engine("load", root, "--data", data, "--mode", "append", check=True)
    run_engine("branch", "create", "--uri", root, "dev", check=True)
    expected = golden.Expected("rich").snapshot()["tables"]
    rows = {table["table_key"]: table["row_count"] for table in expected}
    for branch in ("main", "dev"):
        graph = og.open(str(root), branch=branch)
        assert {key: entry.rows for key, entry in graph.entries.items()} == rows
    assert len(engine_export(root, "dev")) == sum(rows.values())
    # And we write on after the engine, it after us.
    head = graph.history(1)[0]
    publish(manifest_of(root), "main", [], {}, intent(), if_head=head.id)
    person = next(row for row in engine_export(root) if row.get("type") == "Person")
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps(person))
    run_engine("load", root, "--data", more, "--mode", "merge", "--branch", "dev", check=True)
    assert {t["classification"] for t in engine_json("repair", root)["tables"]} == {"no_drift"}


@pytest.mark.engine
def test_the_engine_uses_a_new_graph_without_types(tmp_path: Path) -> None:
    root = tmp_path / "g"
    create_graph(str(root), "", SETTINGS)
    assert engine_json("snapshot", root)["tables"] == []
    assert engine_export(root) == []
    run_engine("branch", "create", "--uri", root, "dev", check=True)
    assert engine_json("branch", "list", "--uri", root)["branches"] == ["dev", "main"]
    run_engine("branch", "delete", "--uri", root, "dev", check=True)
    schema = tmp_path / "next.pg"
    schema.write_text("node Person { name: String @key }")
    run_engine("schema", "apply", root, "--schema", schema, check=True)
    data = tmp_path / "data.jsonl"
    data.write_text('{"type":"Person","data":{"name":"Alice"}}\n')
    run_engine("load", root, "--data", data, "--mode", "append", check=True)
    assert og.open(str(root)).snapshot().rows(PERSON) == 1


@pytest.mark.engine
def test_the_engine_refuses_to_create_where_we_did_and_we_where_it_did(tmp_path: Path) -> None:
    schema = tmp_path / "schema.pg"
    schema.write_text(SOCIAL)
    create_graph(str(tmp_path / "ours"), SOCIAL, SETTINGS)
    before = listing(tmp_path / "ours")
    answer = run_engine("init", "--schema", schema, tmp_path / "ours")
    assert answer.returncode != 0
    assert "already initialized" in answer.stderr
    assert listing(tmp_path / "ours") == before
    run_engine("init", "--schema", schema, tmp_path / "theirs", check=True)
    with refused(GraphExistsError, tmp_path / "theirs"):
        create_graph(str(tmp_path / "theirs"), SOCIAL, SETTINGS)
