"""The engine and we write to one graph in turns: after every step both read the same rows."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark import failpoints as points
from omnigraph_spark.errors import (
    ConflictError,
    GraphExistsError,
    InvalidNameError,
    SchemaApplyInProgressError,
)
from omnigraph_spark.names import SCHEMA_APPLY_LOCK
from tests.helpers.crashes import crashing
from tests.helpers.engine import engine_export, engine_json, run_engine
from tests.helpers.golden import GOLDEN

pytestmark = pytest.mark.engine

INPUT = GOLDEN / "rich" / "input"


@dataclass(frozen=True)
class Shared:
    """One graph, seen by both."""

    graph: og.Graph
    folder: Path

    @property
    def root(self) -> Path:
        return Path(self.graph.root)

    def load(self, mode: str, *records: Mapping[str, Any], branch: str = "main") -> None:
        """Let the engine load records."""
        data = self.folder / "records.jsonl"
        data.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        args = ("load", self.root, "--data", data, "--mode", mode, "--branch", branch)
        run_engine(*args, check=True)

    def query(self, text: str) -> list[dict[str, Any]]:
        """Ask the engine."""
        answer = engine_json("query", "--store", self.root, "-e", f"query q() {{ {text} }}")
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def check(self, *, repair: bool = True) -> None:
        """Compare what both read on every branch; no dataset is ahead of its pin."""
        for branch in self.graph.branches():
            ours = self.graph.as_branch(branch.name)
            path = self.folder / "ours.jsonl"
            ours.export_jsonl(path)
            theirs = run_engine("export", self.root, "--branch", branch.name, check=True)
            assert path.read_text(encoding="utf-8") == theirs.stdout, branch.name
        if repair:
            tables = engine_json("repair", self.root)["tables"]
            assert {table["classification"] for table in tables} == {"no_drift"}

    def check_pins(self) -> None:
        """Compare versions and row counts of every type."""
        self.graph.refresh()
        tables = engine_json("snapshot", self.root)["tables"]
        assert {
            table["table_key"]: (table["table_version"], table["table_branch"], table["row_count"])
            for table in tables
        } == {
            key: (entry.dataset_version, entry.dataset_branch, entry.rows)
            for key, entry in self.graph.entries.items()
        }

    def rows(self, type: str) -> dict[str, dict[str, Any]]:
        """Our rows of a type by id, at the newest commit."""
        table = self.graph.refresh().snapshot().arrow(type, blobs="bytes")
        return {row["id"]: row for row in table.to_pylist()}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of every type and constraint kind, created and filled here."""
    root = tmp_path_factory.mktemp("original") / "g"
    og.create(root, INPUT / "schema.pg", actor="ours").load_jsonl(INPUT / "rich.jsonl")
    return root


@pytest.fixture
def shared(filled: Path, tmp_path: Path) -> Shared:
    """A copy of one's own."""
    return Shared(og.open(shutil.copytree(filled, tmp_path / "g"), actor="ours"), tmp_path)


def node(type: str, **data: Any) -> dict[str, Any]:
    return {"type": type, "data": data}


def edge(type: str, src: str, dst: str, **data: Any) -> dict[str, Any]:
    return {"edge": type, "from": src, "to": dst, "data": data}


def everything(shared: Shared, turn: int) -> pa.Table:
    """A row of every property type: the engine's own example under another name."""
    full = shared.graph.refresh().snapshot().arrow("Everything", where="slug = 'full'")
    for name, value in (("slug", f"e{turn}"), ("id", f"e{turn}")):
        at = full.schema.get_field_index(name)
        full = full.set_column(at, full.schema.field(at), pa.array([value]))
    return full


def write_all_modes(shared: Shared, turn: int) -> None:
    """Our turn: append to every type, merge, merge some columns, overwrite, delete; check each."""
    graph, name = shared.graph, f"p{turn}"
    with graph.transaction() as tx:
        people = {
            "name": [name, f"{name}x"],
            "email": [f"{name}@x", f"{name}x@x"],
            "level": ["low", "mid"],
            "age": [turn, None],
            "note": [f"n{turn}", None],
            "tags": [["a", None], []],
            "created": pa.array([dt.datetime(1969, 12, 31, 23, 59), None], pa.timestamp("ms")),
        }
        tx.append("Person", pa.table(people))
        size = pa.array([2**64 - 1 - turn], pa.uint64())
        tx.append("Company", pa.table({"name": [f"c{turn}"], "size": size}))
        tx.append("Everything", everything(shared, turn))
        docs = {
            "slug": [f"doc{turn}", f"doc{turn}x"],
            "title": ["The quick brown fox", "nothing"],
            "payload": [b"\0\xff" * (turn + 1), None],
            "embedding": [[1.0, 0.5, turn], None],
        }
        tx.append("Doc", pa.table(docs))
        at = pa.array([dt.datetime(2024, 1, 1, turn)], pa.timestamp("ms"))
        tx.append("Reading", pa.table({"sensor": ["ours"], "at": at, "value": [float(turn)]}))
        tx.append("Place", pa.table({"region": ["eu"], "code": [f"P{turn}"]}))
        tx.append("Knows", edges(name, "Alice", f"{name}-k"))
        tx.append("WorksAt", edges(name, f"c{turn}", f"{name}-w"))
        tx.append("Mentions", edges(f"doc{turn}", name, f"{name}-m"))
        located = edges(f"c{turn}", f"P{turn}", f"{name}-l").append_column(
            "primary", pa.array([True])
        )
        tx.append("LocatedIn", located)
    shared.check()

    alice = pa.table(
        {"name": ["Alice"], "email": [f"alice{turn}@x"], "level": ["high"], "age": [turn]}
    )
    graph.write(alice, "Person", mode="merge")
    some = pa.table({"slug": ["d1", "d3"], "title": [f"title {turn}"] * 2})
    graph.write(some, "Doc", mode="merge", merge_columns=["title"])
    shared.check()

    graph.write(edges("d1", name, f"{name}-only"), "Mentions", mode="overwrite")
    shared.check(repair=False)
    graph.delete("Person", ids=[f"{name}x"])
    graph.delete("Knows", where="weight > 100")
    graph.delete("Doc", where=f"slug = 'doc{turn}x'")
    shared.check()
    shared.check_pins()

    # By index, where the engine has built one.
    found = shared.query('match { $p: Person { name: "Alice" } } return { $p.age, $p.email }')
    assert found == [{"p.age": turn, "p.email": f"alice{turn}@x"}]
    found = shared.query(
        f'match {{ $p: Person {{ name: "{name}" }} $p knows $f }} return {{ $f.name }}'
    )
    assert found == [{"f.name": "Alice"}]


def edges(src: str, dst: str, id: str) -> pa.Table:
    return pa.table({"id": [id], "src": [src], "dst": [dst]})


def test_both_write_in_turns_and_read_the_same(shared: Shared) -> None:
    shared.check()
    shared.check_pins()
    assert len(engine_export(shared.root)) == 20

    write_all_modes(shared, 0)
    shared.load(
        "append",
        node("Person", name="Theirs", email="theirs@x", level="mid", age=7, tags=["t"]),
        node("Doc", slug="theirs", title="fox", payload="base64:AQID", embedding=[0, 0, 1]),
        edge("Knows", "Theirs", "p0", since="2020-01-01", weight=0.25),
    )
    shared.check()
    assert shared.rows("Doc")["theirs"]["payload"] == b"\1\2\3"

    write_all_modes(shared, 1)
    shared.load(
        "merge",
        node("Person", name="Alice", email="alice@theirs", level="low", note="merged"),
        node("Person", name="p1", email="p1@theirs", level="high"),
        node("Company", name="c1", size=99),
    )
    shared.check()
    assert shared.rows("Person")["p1"]["email"] == "p1@theirs"

    write_all_modes(shared, 2)
    shared.load("overwrite", node("Reading", id="r", sensor="theirs", at="2025-01-01T00:00:00Z"))
    shared.check()
    assert list(shared.rows("Reading")) == ["r"]

    write_all_modes(shared, 3)
    graph = shared.graph
    graph.write(edges("p2", "p3", "on-ours"), "Knows", branch="ours", create_from="main")
    run_engine("branch", "create", "--uri", shared.root, "theirs", check=True)
    shared.load("merge", node("Company", name="Acme", founded="2001-01-01"), branch="theirs")
    graph.write(edges("Bob", "c0", "on-theirs"), "WorksAt", branch="theirs")
    shared.check()
    for branch in ("ours", "theirs"):
        merged = engine_json("branch", "merge", "--uri", shared.root, branch)
        assert merged["outcome"] in ("fast_forward", "merged")
        shared.check()
    assert "on-ours" in shared.rows("Knows")
    assert "on-theirs" in shared.rows("WorksAt")
    for branch in ("ours", "theirs"):
        graph.delete_branch(branch)

    write_all_modes(shared, 4)
    optimized = engine_json("optimize", shared.root)["tables"]
    assert any(table["committed"] for table in optimized)
    shared.check()

    again = pa.table({"name": ["Alice"], "email": ["alice@ours"], "level": ["low"]})
    graph.write(again, "Person", mode="merge")
    graph.delete("Person", ids=["p0"])
    shared.check()
    assert len(graph.refresh().history()) > 30

    schema = shared.folder / "later.pg"
    rich = (INPUT / "schema.pg").read_text(encoding="utf-8")
    schema.write_text(f"{rich}\nnode Later {{ name: String @key }}\n", encoding="utf-8")
    run_engine("schema", "apply", shared.root, "--schema", schema, check=True)
    shared.check()
    write_all_modes(shared, 5)
    graph.refresh().write(pa.table({"name": ["ours"]}), "Later")
    shared.load("merge", node("Later", name="theirs"))
    shared.check()
    shared.check_pins()
    assert set(shared.rows("Later")) == {"ours", "theirs"}


EVOLVED = """
node Person { name: String @key  age: I32?  nick: String? }
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""


def test_a_schema_that_the_engine_changed_is_written_here(tmp_path: Path) -> None:
    before = "node Person { name: String @key  age: I32? } edge Knows: Person -> Person"
    graph = og.create(tmp_path / "g", before)
    shared = Shared(graph, tmp_path)
    graph.write(pa.table({"name": ["Ann", "Bob"], "age": [30, 41]}), "Person")
    graph.write(edges("Ann", "Bob", "k1"), "Knows")
    text = tmp_path / "evolved.pg"
    text.write_text(EVOLVED, encoding="utf-8")

    stale = graph.transaction()
    stale.append("Person", pa.table({"name": ["Stale"]}))
    with pytest.raises(ConflictError, match="schema of node:Person was changed"), stale:
        run_engine("schema", "apply", shared.root, "--schema", text, check=True)
    shared.check()

    with graph.transaction() as tx:
        tx.merge("Person", pa.table({"name": ["Ann", "Cid"], "nick": ["A", None]}))
        tx.append("City", pa.table({"name": ["Ulm"]}))
        tx.append("LivesIn", edges("Cid", "Ulm", "l1"))
    knows = edges("Cid", "Ann", "k2").append_column("since", pa.array([dt.date(2020, 1, 1)]))
    graph.write(knows, "Knows")
    graph.delete("Person", where="nick = 'A'")
    shared.check()
    shared.check_pins()
    shared.load("merge", node("Person", name="Bob", nick="B"), edge("LivesIn", "Bob", "Ulm"))
    shared.check()
    assert shared.rows("Person")["Bob"]["nick"] == "B"


def test_a_schema_change_that_is_under_way_stops_our_writes(tmp_path: Path) -> None:
    """RS-31: the lock that the engine takes, and leaves behind when it dies (15.9)."""
    graph = og.create(tmp_path / "g", "node Person { name: String @key }")
    manifest = lance.dataset(str(tmp_path / "g" / "__manifest"))
    manifest.create_branch(SCHEMA_APPLY_LOCK)
    with pytest.raises(SchemaApplyInProgressError):
        graph.write(pa.table({"name": ["Ann"]}), "Person")
    refused = run_engine("load", graph.root, "--data", "/dev/null", "--mode", "append")
    assert "schema apply is in progress" in refused.stderr
    assert [branch.name for branch in graph.branches()] == ["main"]
    manifest.branches.delete(SCHEMA_APPLY_LOCK)
    graph.write(pa.table({"name": ["Ann"]}), "Person")
    Shared(graph, tmp_path).check()


def test_half_a_lock_that_a_release_left_is_taken_away_before_the_next_schema_change(
    tmp_path: Path,
) -> None:
    graph = og.create(tmp_path / "g", "node Person { name: String @key }")
    lance.dataset(str(tmp_path / "g" / "__manifest")).create_branch(SCHEMA_APPLY_LOCK)
    with crashing(points.BRANCH_UNNAMED):
        graph.release_schema_lock()
    text = tmp_path / "evolved.pg"
    text.write_text(EVOLVED, encoding="utf-8")
    apply = ("schema", "apply", graph.root, "--schema", text)
    assert run_engine(*apply).returncode != 0
    assert graph.release_schema_lock()
    run_engine(*apply, check=True)
    assert "node:City" in og.open(graph.root).entries


# -- defects of the engine that are not ours -------------------------------------------------------


def files(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def test_creating_a_graph_where_one_is_leaves_it_as_it_is(shared: Shared) -> None:
    """15.6: the engine's `init --force` deletes the schema files; there is no force here."""
    before = files(shared.root)
    for schema in (INPUT / "schema.pg", "node Other { name: String @key }"):
        with pytest.raises(GraphExistsError):
            og.create(shared.root, schema)
    assert files(shared.root) == before
    shared.check()


def test_a_name_that_is_refused_leaves_nothing_in_the_way_of_others(tmp_path: Path) -> None:
    """15.7: Lance makes the folder before it looks at the name."""
    graph = og.create(tmp_path / "g", "node Person { name: String @key }")
    before = files(tmp_path / "g")
    rows = pa.table({"name": ["Ann"]})
    for name in ("a//b", "/a", "a/", "a/b/", "a..b", "a b", "x.lock", "a\\b", ""):
        with pytest.raises(InvalidNameError):
            graph.write(rows, "Person", branch=name, create_from="main")
        with pytest.raises(InvalidNameError):
            graph.create_branch(name)
    assert files(tmp_path / "g") == before
    graph.write(rows, "Person", branch="a/b", create_from="main")
    assert [row["data"] for row in engine_export(tmp_path / "g", "a/b")] == [
        {"id": "Ann", "name": "Ann"}
    ]


def test_a_write_without_a_change_makes_no_version_that_cannot_be_merged(shared: Shared) -> None:
    """15.4: the engine can never merge a branch with a version of a type that changed no row."""
    graph = shared.graph
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    assert dev.write(pa.table({"name": pa.array([], pa.string())}), "Company", mode="merge") is None
    assert dev.delete("Company", ids=["Nobody"]) is None
    assert dev.delete("Company", where="size < 0") is None
    graph.write(graph.snapshot().arrow("Mentions").slice(0, 0), "Mentions", mode="overwrite")
    dev.write(edges("Bob", "Globex", "w9"), "WorksAt")
    owned = {key for key, entry in dev.entries.items() if entry.dataset_branch == "dev"}
    assert owned == {"edge:WorksAt"}
    assert engine_json("branch", "merge", "--uri", shared.root, "dev")["outcome"] == "merged"
    shared.check()


def test_a_branch_of_a_branch_is_written_here_and_merged_there(shared: Shared) -> None:
    """15.3: forks of forks made here have indexes that can be found."""
    shared.load("merge", node("Company", name="Indexed"))
    graph = shared.graph
    rows = pa.table({"name": ["One"]})
    graph.write(rows, "Company", branch="dev", create_from="main")
    rows = pa.table({"name": ["Indexed", "Two"], "note": ["again", None]})
    graph.write(rows, "Company", mode="merge", branch="dev/sub", create_from="dev")
    shared.load("merge", node("Company", name="One", note="theirs"), branch="dev/sub")
    shared.check()
    for source, target in (("dev/sub", "dev"), ("dev", "main")):
        engine_json("branch", "merge", "--uri", shared.root, source, "--into", target)
        shared.check()
    assert set(shared.rows("Company")) == {"Acme", "Globex", "Indexed", "One", "Two"}


def test_nothing_here_takes_versions_away_that_history_or_a_branch_reads(shared: Shared) -> None:
    """15.1 and 15.2 are defects of a cleanup, and there is none here: what other works keep."""
    graph = shared.graph
    graph.create_branch("keep")
    graph.create_branch("gone")
    graph.write(pa.table({"name": ["g"]}), "Company", branch="gone")
    commits = graph.history()
    for turn in range(5):
        graph.write(pa.table({"name": [f"c{turn}"]}), "Company")
    graph.refresh().optimize()
    graph.delete_branch("gone")
    keep = graph.as_branch("keep")
    assert len(keep.snapshot().arrow("Company")) == 2
    for commit in commits:
        at = graph.at(commit=commit.id)
        assert len(at.arrow("Company")) == at.rows("Company")
    shared.check()


def without_order(records: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(record, sort_keys=True) for record in records)


def test_a_graph_made_here_and_one_made_there_hold_the_same(shared: Shared, tmp_path: Path) -> None:
    """The same records in, the same records out; made ids differ."""
    theirs = tmp_path / "theirs"
    run_engine("init", "--schema", INPUT / "schema.pg", theirs, check=True)
    args = ("load", theirs, "--data", INPUT / "rich.jsonl", "--mode", "append")
    run_engine(*args, check=True)

    def known(root: Path) -> list[str]:
        records = engine_export(root)
        for record in records:
            if len(record["data"]["id"]) == 26:
                record["data"]["id"] = "made"
        return without_order(records)

    assert known(shared.root) == known(theirs)
