"""The tables about a graph say of the golden graphs what the engine and Lance say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import HistoryReclaimedError, InvalidOptionError
from omnigraph_spark.tables import METADATA_TABLES, metadata_table
from tests.engine.graphs import KNOWS, PERSON, add_people, refused
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder
from tests.helpers.golden import Expected

Opened = Callable[..., og.Graph]
Rows = list[dict[str, Any]]

#: The many branches of `conflicts` differ in rows, not in what the tables show of them.
READABLE = [
    (case, branch)
    for case in golden.intact_cases()
    for branch in Expected(case).branches()[: 3 if case == "conflicts" else None]
    if (case, branch) != (golden.RECLAIMED, "keep")
]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    roots: dict[str, Path] = {}

    def open_case(case: str, branch: str = "main") -> og.Graph:
        if case not in roots:
            roots[case] = golden.unpack(case, tmp_path_factory.mktemp("tables"))
        return og.open(str(roots[case]), branch=branch)

    return open_case


def read(table: str, graph: og.Graph | og.Snapshot) -> Rows:
    snapshot = graph.snapshot() if isinstance(graph, og.Graph) else graph
    found = METADATA_TABLES[table].read(snapshot._state)
    assert found.schema == METADATA_TABLES[table].schema
    return found.to_pylist()


def only(rows: Rows, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def of(rows: Rows, type_key: str) -> Rows:
    return [row for row in rows if row["type_key"] == type_key]


# -- commits, branches, entries -------------------------------------------------------------------


@pytest.mark.parametrize(("case", "branch"), [*READABLE, (golden.RECLAIMED, "keep")])
def test_commits_are_the_engines_newest_first(opened: Opened, case: str, branch: str) -> None:
    table = METADATA_TABLES["commits"].read(opened(case, branch).snapshot()._state)
    at = table.schema.get_field_index("created_at")
    rows = table.set_column(at, "created_at", table["created_at"].cast(pa.int64())).to_pylist()

    assert rows == [
        {
            "id": commit["graph_commit_id"],
            "branch": commit["manifest_branch"] or "main",
            "manifest_version": commit["manifest_version"],
            "parent_id": commit["parent_commit_id"],
            "merged_parent_id": commit["merged_parent_commit_id"],
            "actor": commit["actor_id"],
            "created_at": commit["created_at"],
        }
        for commit in reversed(Expected(case).commits(branch))
    ]


@pytest.mark.parametrize("case", golden.intact_cases())
def test_branches_are_the_engines_with_heads_and_own_types(opened: Opened, case: str) -> None:
    expected = Expected(case)

    rows = read("branches", opened(case))

    assert only(rows, "name", "head", "manifest_version") == [
        (
            name,
            expected.commits(name)[-1]["graph_commit_id"],
            expected.snapshot(name)["manifest_version"],
        )
        for name in expected.branches()
    ]
    for row in rows:
        tables = expected.snapshot(row["name"])["tables"]
        own = [t["table_key"] for t in tables if t["table_branch"] == row["name"]]
        assert row["forked_types"] == own
        assert (row["parent"] is None) == (row["name"] == "main")


def test_branches_know_their_parents_and_age(opened: Opened) -> None:
    rows = {row["name"]: row for row in read("branches", opened("branches"))}

    parents = {name: row["parent"] for name, row in rows.items()}
    assert parents["feature-sub"] == "feature"
    assert parents["src2"] not in (None, "main")
    assert parents["team/x"] == "main"
    for name, parent in parents.items():
        if parent is not None:
            assert rows[name]["created_at"] >= rows[parent]["created_at"].replace(microsecond=0)


@pytest.mark.parametrize("table", ["branches", "commits"])
def test_every_branch_gives_the_same_list_of_branches_but_its_own_commits(
    opened: Opened, table: str
) -> None:
    main, feature = (read(table, opened("branches", name)) for name in ("main", "feature"))

    assert (main == feature) == (table == "branches")


@pytest.mark.parametrize(("case", "branch"), READABLE)
def test_entries_are_the_engines_pins_with_fragments_and_bytes(
    opened: Opened, case: str, branch: str
) -> None:
    graph = opened(case, branch)
    tables = Expected(case).tables()[branch]

    rows = read("entries", graph)

    names = ("type_key", "path", "dataset_branch", "dataset_version", "rows", "fragments")
    assert only(rows, *names) == [
        (key, table["path"], table["branch"], table["version"], table["rows"], table["fragments"])
        for key, table in sorted(tables.items())
    ]
    fragments = read("fragments", graph)
    for row in rows:
        mine = of(fragments, row["type_key"])
        assert len(mine) == row["fragments"]
        assert sum(fragment["rows"] for fragment in mine) == row["rows"]
        assert sum(fragment["size_bytes"] for fragment in mine) == row["bytes"]
        assert (row["bytes"] > 0) == (row["fragments"] > 0)


@pytest.mark.parametrize(("case", "branch"), READABLE)
def test_indexes_are_those_lance_lists(opened: Opened, case: str, branch: str) -> None:
    rows = read("indexes", opened(case, branch))

    for key, table in Expected(case).tables()[branch].items():
        listed = sorted(map(json.loads, table["indices"]), key=lambda index: str(index["name"]))
        mine = of(rows, key)
        assert only(mine, "name", "columns", "kind") == [
            (index["name"], index["cols"], index["type"]) for index in listed
        ]
        for row in mine:
            assert row["fragments_total"] == table["fragments"]
            assert 0 <= row["fragments_covered"] <= row["fragments_total"]
            whole = row["fragments_covered"] == row["fragments_total"]
            assert (row["rows_not_covered"] == 0) == whole


def test_a_table_of_a_reclaimed_version_says_so_and_the_others_still_read(opened: Opened) -> None:
    graph = opened(golden.RECLAIMED, "keep")

    with refused(HistoryReclaimedError, Path(graph.root), "version reclaimed", "'keep'"):
        read("fragments", graph)
    assert len(read("commits", graph)) == len(Expected(golden.RECLAIMED).commits("keep"))
    assert [row["name"] for row in read("branches", graph)] == ["keep", "main"]
    assert read("types", graph)


# -- the schema ----------------------------------------------------------------------------------


def test_types_tell_what_the_schema_says_of_them(opened: Opened) -> None:
    rows = {row["type_key"]: row for row in read("types", opened("rich"))}

    assert list(rows) == sorted(Expected("rich").tables()["main"])
    assert rows["node:Person"] == {
        "type_key": "node:Person",
        "kind": "node",
        "name": "Person",
        "from_type": None,
        "to_type": None,
        "key": ["name"],
        "card_min": None,
        "card_max": None,
        "implements": ["Named", "Stamped"],
        "row_count": 3,
        "description": "A human being",
    }
    assert rows["edge:Knows"] == {
        "type_key": "edge:Knows",
        "kind": "edge",
        "name": "Knows",
        "from_type": "Person",
        "to_type": "Person",
        "key": [],
        "card_min": 0,
        "card_max": 3,
        "implements": [],
        "row_count": 3,
        "description": "Acquaintance",
    }
    assert rows["node:Place"]["key"] == ["code", "region"]
    assert (rows["edge:LocatedIn"]["card_min"], rows["edge:LocatedIn"]["card_max"]) == (0, None)


def test_properties_are_the_stored_columns_with_what_the_schema_adds(opened: Opened) -> None:
    rows = read("properties", opened("rich"))

    for key, table in Expected("rich").tables()["main"].items():
        mine = of(rows, key)
        stored = [text.partition(": ") for text in table["schema"]]
        assert only(mine, "property", "nullable") == [
            (name, not type_.endswith(" not null")) for name, _, type_ in stored
        ]
        assert [row["position"] for row in mine] == list(range(len(stored)))
    facts = {(row["type_key"], row["property"]): row for row in rows}
    types = {
        property_: (row["declared_type"], row["spark_type"])
        for (key, property_), row in facts.items()
        if key == "node:Everything"
    }
    assert types["p_enum"] == ("enum(alpha-1, mid_2, zeta)", "string")
    assert types["p_u64"] == ("U64", "decimal(20,0)")
    assert types["o_datetime"] == ("DateTime?", "timestamp")
    assert types["l_u32"] == ("[U32]?", "array<bigint>")
    assert types["p_vector"] == ("Vector(4)", "array<float>")
    assert facts["node:Everything", "p_vector"]["vector_dimension"] == 4
    assert facts["node:Everything", "p_enum"]["enum_values"] == ["alpha-1", "mid_2", "zeta"]
    assert facts["node:Doc", "embedding"]["embed_source"] == "body"
    assert facts["node:Doc", "title"]["description"] == "Shown in lists"
    assert facts["node:Doc", "payload"]["spark_type"].startswith("struct<kind:string")
    assert [p for (key, p), row in facts.items() if key == "node:Place" and row["key"]] == [
        "code",
        "region",
    ]


def test_constraints_are_those_of_the_schema(opened: Opened) -> None:
    rows = read("constraints", opened("rich"))

    names = ("kind", "properties", "min", "max", "pattern")
    assert sorted(only(of(rows, "node:Person"), *names), key=str) == sorted(
        [
            ("check", ["email"], None, None, "^[^@]+@[^@]+$"),
            ("index", ["age"], None, None, None),
            ("index", ["created"], None, None, None),
            ("index", ["level"], None, None, None),
            ("key", ["name"], None, None, None),
            ("range", ["age"], "0", "150", None),
            ("range", ["score"], "0.5", "99.5", None),
            ("unique", ["email"], None, None, None),
            ("unique", ["level", "note"], None, None, None),
        ],
        key=str,
    )
    assert ("card", ["src"], "0", "3", None) in only(of(rows, "edge:Knows"), *names)
    assert of(rows, "edge:Mentions") == []


def test_old_snapshots_list_the_types_and_columns_they_had(opened: Opened) -> None:
    graph = opened("schema-evolved")
    before, after = graph.at(version=6), graph.snapshot()

    assert {"node:Company", "node:Tag"} <= {row["type_key"] for row in read("types", before)}
    assert "node:Label" in {row["type_key"] for row in read("types", after)}
    columns = {
        name: [row["property"] for row in of(read("properties", snapshot), PERSON)]
        for name, snapshot in {"before": before, "after": after}.items()
    }
    assert columns == {
        "before": ["id", "age", "city", "name", "nick"],
        "after": ["id", "age", "name", "town"],
    }
    [dropped] = of(read("types", before), "node:Company")
    assert (dropped["kind"], dropped["key"], dropped["description"]) == ("node", [], None)


# -- while a graph changes -----------------------------------------------------------------------


def test_tables_are_as_of_their_snapshot(social: GraphBuilder) -> None:
    graph = og.open(str(social.root))
    names = ["commits", "entries", "types", "properties", "fragments", "indexes"]
    before = {name: read(name, graph) for name in names}

    social.create_index(PERSON, "id")
    social.delete(PERSON, "name = 'Bob'")
    social.publish()
    add_people(social, Dave=1)

    assert {name: read(name, graph) for name in names} == before
    graph.refresh()
    assert only(of(read("fragments", graph), PERSON), "rows", "deleted_rows") == [
        (1, 1),
        (1, 0),
        (1, 0),
    ]
    coverage = ("name", "kind", "fragments_covered", "fragments_total", "rows_not_covered")
    assert only(read("indexes", graph), *coverage) == [("id_idx", "BTree", 2, 3, 1)]
    [entry] = of(read("entries", graph), PERSON)
    assert (entry["rows"], entry["fragments"], entry["dataset_version"]) == (3, 3, 6)


def test_a_graph_without_rows_has_tables_too(social: GraphBuilder) -> None:
    snapshot = og.open(str(social.root)).at(version=1)

    assert only(read("entries", snapshot), "rows", "bytes", "fragments") == [(0, 0, 0)] * 3
    assert read("fragments", snapshot) == read("indexes", snapshot) == []
    assert len(read("commits", snapshot)) == 1
    assert of(read("properties", snapshot), KNOWS)


def test_a_schema_without_types_has_empty_tables(tmp_path: Path) -> None:
    graph = og.open(str(GraphBuilder.create(tmp_path / "graph", "").root))

    lengths = {name: len(read(name, graph)) for name in METADATA_TABLES}

    assert {name for name, length in lengths.items() if length} == {"commits", "branches"}


def test_an_unknown_table_is_answered_with_the_likely_one(tmp_path: Path) -> None:
    assert metadata_table("Commits") is METADATA_TABLES["commits"]
    with refused(InvalidOptionError, tmp_path, "'commit'", "'commits', or one of"):
        metadata_table("commit")
    with refused(InvalidOptionError, tmp_path, "'x; drop'", "one of commits, branches"):
        metadata_table("x; drop")
