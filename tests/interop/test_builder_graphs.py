"""What `GraphBuilder` writes is a graph to the released engine: it reads, extends and merges it."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.builder import GraphBuilder, Pin
from tests.helpers.engine import engine_export, engine_json, run_engine

pytestmark = pytest.mark.engine

SOCIAL = """
node Person { name: String @key age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company { title: String? }
"""

EVERY_TYPE = """
node Thing {
    slug: String @key
    flag: Bool
    small: I32
    large: I64
    natural: U32
    huge: U64
    single: F32
    double: F64
    day: Date
    time: DateTime
    colour: enum(red, blue)
    vector: Vector(2)
    payload: Blob?
    words: [String]
    times: [DateTime]?
    days: [Date]?
    absent: String?
}
"""


@pytest.fixture
def social(tmp_path: Path) -> GraphBuilder:
    graph = GraphBuilder.create(tmp_path / "social", SOCIAL)
    graph.write(
        {
            "node:Person": [{"name": "Alice", "age": 30}, {"name": "Bob"}],
            "node:Company": [{"name": "Acme"}],
            "edge:Knows": [
                {"id": "k1", "src": "Alice", "dst": "Bob", "since": dt.date(2020, 5, 5)}
            ],
            "edge:WorksAt": [{"id": "w1", "src": "Alice", "dst": "Acme", "title": "Engineer"}],
        },
        actor="act-builder",
    )
    return graph


def engine_pins(graph: GraphBuilder, branch: str = "main") -> dict[str, Pin]:
    tables = engine_json("snapshot", graph.root, "--branch", branch)["tables"]
    return {
        table["table_key"]: Pin(
            table["table_key"],
            table["table_path"],
            table["table_version"],
            table["row_count"],
            table["table_branch"],
        )
        for table in tables
    }


def people(graph: GraphBuilder, branch: str = "main") -> dict[str, int | None]:
    rows = engine_export(graph.root, branch)
    return {row["data"]["name"]: row["data"]["age"] for row in rows if row.get("type") == "Person"}


def assert_no_drift(graph: GraphBuilder) -> None:
    report = engine_json("repair", graph.root)["tables"]
    assert {table["table_key"]: table["classification"] for table in report} == dict.fromkeys(
        graph.entries(), "no_drift"
    )


def load(graph: GraphBuilder, rows: list[dict[str, Any]], tmp_path: Path, branch: str) -> None:
    data = tmp_path / "more.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    run_engine(
        "load", graph.root, "--data", data, "--mode", "merge", "--branch", branch, check=True
    )


@pytest.mark.parametrize("e_tags", [True, False], ids=["with tags", "without tags"])
def test_the_engine_reads_an_empty_graph(tmp_path: Path, e_tags: bool) -> None:
    graph = GraphBuilder.create(tmp_path / "empty", SOCIAL, e_tags=e_tags)

    assert engine_pins(graph) == graph.entries()
    assert engine_export(graph.root) == []
    [genesis] = engine_json("commit", "list", graph.root)["commits"]
    assert (genesis["manifest_version"], genesis["parent_commit_id"]) == (1, None)


def test_the_engine_reads_every_row_and_pin(social: GraphBuilder) -> None:
    assert engine_export(social.root) == [
        {
            "edge": "Knows",
            "from": "Alice",
            "to": "Bob",
            "data": {"id": "k1", "since": (dt.date(2020, 5, 5) - dt.date(1970, 1, 1)).days},
        },
        {
            "edge": "WorksAt",
            "from": "Alice",
            "to": "Acme",
            "data": {"id": "w1", "title": "Engineer"},
        },
        {"type": "Company", "data": {"id": "Acme", "name": "Acme"}},
        {"type": "Person", "data": {"id": "Alice", "age": 30, "name": "Alice"}},
        {"type": "Person", "data": {"id": "Bob", "age": None, "name": "Bob"}},
    ]
    assert engine_pins(social) == social.entries()
    assert_no_drift(social)


def test_the_engine_reads_every_type_of_value(tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "things", EVERY_TYPE)
    thing = {
        "slug": "t1",
        "flag": True,
        "small": -(2**31),
        "large": 2**63 - 1,
        "natural": 2**32 - 1,
        "huge": 2**64 - 1,
        "single": 0.1,
        "double": 1e300,
        "day": dt.date(1969, 12, 31),
        "time": dt.datetime(2026, 6, 11, 12, 34, 56, 789_000, tzinfo=dt.UTC),
        "colour": "red",
        "vector": [0.5, -1.5],
        "payload": b"\x00\xff",
        "words": ["a", None],
        "times": [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
        "days": [dt.date(1970, 1, 2), None],
    }
    graph.write({"node:Thing": [thing, thing | {"slug": "t2", "payload": None, "times": None}]})

    first, second = (row["data"] for row in engine_export(graph.root))

    assert first == {
        "id": "t1",
        "absent": None,
        "colour": "red",
        "day": -1,
        "days": [1, None],
        "double": 1e300,
        "flag": True,
        "huge": 2**64 - 1,
        "large": 2**63 - 1,
        "natural": 2**32 - 1,
        "payload": "base64:AP8=",
        "single": 0.10000000149011612,
        "slug": "t1",
        "small": -(2**31),
        "time": "2026-06-11T12:34:56.789",
        "times": ["1970-01-01T00:00:00"],
        "vector": [0.5, -1.5],
        "words": ["a", None],
    }
    assert second == first | {"id": "t2", "slug": "t2", "payload": None, "times": None}


def test_the_engine_follows_updates_deletes_overwrites_and_compaction(social: GraphBuilder) -> None:
    social.merge("node:Person", [{"name": "Bob", "age": 41}, {"name": "Carol", "age": 7}])
    social.publish()
    assert people(social) == {"Alice": 30, "Bob": 41, "Carol": 7}

    social.delete("node:Person", "id = 'Carol'")
    social.compact("node:Person")
    social.publish()
    assert people(social) == {"Alice": 30, "Bob": 41}

    social.overwrite("edge:WorksAt", [])
    social.create_index("node:Person", "id")
    social.publish()
    assert engine_pins(social) == social.entries()
    assert social.entries()["edge:WorksAt"].rows == 0
    assert_no_drift(social)


def test_the_engine_lists_the_commits_with_parents_and_actors(social: GraphBuilder) -> None:
    empty = social.publish(actor="act-nothing")

    genesis, write, last = engine_json("commit", "list", social.root)["commits"]

    assert write["parent_commit_id"] == genesis["graph_commit_id"]
    assert last["parent_commit_id"] == write["graph_commit_id"]
    assert last["graph_commit_id"] == empty
    assert [write["actor_id"], last["actor_id"]] == ["act-builder", "act-nothing"]
    assert [write["manifest_version"], last["manifest_version"]] == [4, 5]


def test_the_engine_loads_on_top_of_many_fragments_and_a_compacted_manifest(
    social: GraphBuilder, tmp_path: Path
) -> None:
    many = [{"name": f"person {number:03}", "age": number} for number in range(100)]
    social.write({"node:Person": many}, max_rows_per_file=10)
    social.compact_manifest()

    load(social, [{"type": "Person", "data": {"name": "Alice", "age": 31}}], tmp_path, "main")

    assert people(social) == {"Alice": 31, "Bob": None} | {p["name"]: p["age"] for p in many}
    assert engine_pins(social) == social.entries()
    assert_no_drift(social)


def test_the_builder_writes_on_after_the_engine(social: GraphBuilder, tmp_path: Path) -> None:
    load(social, [{"type": "Person", "data": {"name": "Carol", "age": 1}}], tmp_path, "main")

    GraphBuilder.open(social.root).write({"node:Person": [{"name": "Dave", "age": 2}]})

    assert people(social) == {"Alice": 30, "Bob": None, "Carol": 1, "Dave": 2}
    assert_no_drift(social)


def test_the_engine_reads_writes_and_merges_branches_of_branches(
    social: GraphBuilder, tmp_path: Path
) -> None:
    social.create_index("node:Person", "id")
    social.publish()
    social.create_branch("team/x")
    social.write({"node:Person": [{"name": "Carol", "age": 1}]}, branch="team/x")
    social.create_branch("sub", source="team/x")
    social.write({"node:Person": [{"name": "Dave", "age": 2}]}, branch="sub")

    assert engine_json("branch", "list", "--uri", social.root)["branches"] == [
        "main",
        "sub",
        "team/x",
    ]
    assert people(social) == {"Alice": 30, "Bob": None}
    assert people(social, "team/x") == {"Alice": 30, "Bob": None, "Carol": 1}
    assert people(social, "sub") == {"Alice": 30, "Bob": None, "Carol": 1, "Dave": 2}
    for branch in ("main", "team/x", "sub"):
        assert engine_pins(social, branch) == social.entries(branch)
    assert social.entries("sub")["node:Person"].branch == "sub"
    assert social.entries("sub")["node:Company"].branch is None

    load(social, [{"type": "Person", "data": {"name": "Dave", "age": 3}}], tmp_path, "sub")
    merged = engine_json("branch", "merge", "--uri", social.root, "sub")

    assert merged["outcome"] == "fast_forward"
    assert people(social) == {"Alice": 30, "Bob": None, "Carol": 1, "Dave": 3}


def test_the_engine_does_not_see_a_type_under_a_tombstone(social: GraphBuilder) -> None:
    social.publish(tombstones=["edge:Knows"])

    assert sorted(engine_pins(social)) == ["edge:WorksAt", "node:Company", "node:Person"]
    assert engine_pins(social) == social.entries()


@pytest.mark.parametrize("stamp", [None, "3", "5", "four"])
def test_the_engine_refuses_any_other_stamp(tmp_path: Path, stamp: str | None) -> None:
    graph = GraphBuilder.create(tmp_path / "stamped", SOCIAL, stamp=stamp)

    refused = run_engine("snapshot", graph.root)

    assert refused.returncode == 1
    assert "v4" in refused.stderr
