"""What the jar asks: each question has an answer that fits, and an error is an answer too."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType
from pyspark_omnigraph.procedures import PROCEDURES

import omnigraph_spark as og
from tests.helpers.builder import GraphBuilder
from tests.helpers.sources import source

SCHEMA = """
node Person { name: String @key  email: String? @unique }
edge Knows: Person -> Person
"""


@pytest.fixture
def graph(tmp_path: Path) -> GraphBuilder:
    built = GraphBuilder.create(tmp_path / "graph", SCHEMA)
    knows = {"id": "k", "src": "ann", "dst": "ann"}
    built.write({"node:Person": [{"name": "ann"}], "edge:Knows": [knows]})
    return built


def ask(graph: GraphBuilder, question: str, arguments: Any, **options: str) -> dict[str, Any]:
    asked = {"__call": question, "__args": json.dumps(arguments), **options}
    [field] = source(graph.root, **asked).schema().fields
    answer: dict[str, Any] = json.loads(field.metadata["answer"])
    return answer


def called(graph: GraphBuilder, name: str, **arguments: Any) -> dict[str, Any]:
    asked = {"namespace": ["system"], "name": name, "arguments": arguments}
    answer: dict[str, Any] = ask(graph, "call_procedure", asked, __catalog="og", actor="me")["ok"]
    rows = pa.ipc.open_stream(b64decode(answer["rows"])).read_all().to_pylist()
    return {**answer, "rows": [tuple(row.values()) for row in rows]}


def test_every_procedure_is_described_with_types_that_spark_reads(graph: GraphBuilder) -> None:
    described = ask(graph, "describe_procedures", {"namespace": ["System"]})["ok"]
    assert [each["name"] for each in described] == list(PROCEDURES)
    for each in described:
        assert StructType.fromJson(json.loads(each["result"])).names
        optional = [parameter["default"] is not None for parameter in each["parameters"]]
        assert optional == sorted(optional), "what is required comes first"


def test_rows_of_a_procedure_have_the_columns_that_were_described(graph: GraphBuilder) -> None:
    defaults = {
        "create_branch": {"branch": "dev", "from_branch": "main", "if_not_exists": False},
        "preview_merge": {"source": "dev", "target": "main"},
        "merge_branch": {"source": "dev", "target": "main", "delete_source": True},
        "delete_branch": {"branch": "dev", "if_exists": True},
        "diff": {"from_ref": "version:1", "to_ref": "main"},
        "set_actor": {"actor": "you"},
        "recover": {"dry_run": False},
        "repair": {"dry_run": True, "force": False},
        "optimize": {},
        "build_indexes": {},
    }
    for name, arguments in defaults.items():
        for row in called(graph, name, **arguments)["rows"]:
            assert len(row) == len(PROCEDURES[name].result), name


def test_what_a_procedure_leaves_to_the_session_is_in_its_answer(graph: GraphBuilder) -> None:
    assert called(graph, "set_actor", actor="you") == {
        "rows": [("me", "you")],
        "session": {"actor": "you"},
    }


def test_a_snapshot_that_a_catalog_names_is_the_one_of_its_tables(graph: GraphBuilder) -> None:
    asked = {"namespace": ["nodes"], "table": "Person"}
    head = ask(graph, "load_table", asked, __catalog="og")["ok"]
    assert not head["pinned"]
    there = ask(graph, "load_table", asked, __catalog="og", version=str(head["version"]))["ok"]
    assert (there["version"], there["pinned"]) == (head["version"], True)


def test_a_table_is_described_with_what_is_unique_and_what_it_points_to(
    graph: GraphBuilder,
) -> None:
    person = ask(graph, "load_table", {"namespace": ["nodes"], "table": "Person"})["ok"]
    assert [(each["name"], each["columns"]) for each in person["constraints"]] == [
        ("id", ["id"]),
        ("key_name", ["name"]),
        ("unique_email", ["email"]),
    ]
    knows = ask(graph, "load_table", {"namespace": ["edges"], "table": "Knows"})["ok"]
    ends = [each["to"] for each in knows["constraints"] if each["to"]]
    assert ends == [["nodes", "Person"]] * 2


def test_a_row_is_as_wide_as_files_store_it_and_never_wider_than_in_memory(
    tmp_path: Path, graph: GraphBuilder
) -> None:
    asked = {"namespace": ["nodes"], "table": "Person"}
    # One row in a file of its own takes more bytes there than in memory.
    in_memory = ask(graph, "load_table", asked)["ok"]["widths"]
    repeating = GraphBuilder.create(tmp_path / "repeating", SCHEMA)
    people = [{"name": f"p{n:06}", "email": "the same for everybody"} for n in range(50_000)]
    repeating.write({"node:Person": people})
    stored = ask(repeating, "load_table", asked)["ok"]["widths"]
    assert stored.keys() == in_memory.keys()
    assert all(0 < float(stored[name]) < float(width) for name, width in in_memory.items())


SRC = StructType().add("src", "string")
COUNT = StructType().add("count0", "long")
GROUPS = StructType().add("src", "string").add("rows", "long")


def looked_up(graph: GraphBuilder, names: list[str], columns: StructType, **wish: Any) -> Any:
    """The rows that edges which begin at `names` are answered with, or None."""
    tree = {"op": "in", "args": [{"col": "src"}, *({"lit": name} for name in names)]}
    plain = {"order": [], "limit": None, "offset": 0, "count": False, "aggregate": None}
    scan = {"schema": columns.json(), "filters": [tree], "parallelism": 2, **plain, **wish}
    found = ask(graph, "look_up", {"scan": json.dumps(scan)}, type="Knows")["ok"]
    if found is None:
        return None
    return pa.ipc.open_stream(b64decode(found)).read_all().to_pylist()


def test_few_rows_counts_and_aggregates_that_an_index_finds_are_answered(
    graph: GraphBuilder,
) -> None:
    # Half of the edges begin at ann, with one that is there before; twenty at everybody else.
    people = [{"name": f"p{n}"} for n in range(300)]
    edges = [
        {"id": f"k{n}", "src": "ann" if n % 2 else f"p{n // 2 % 300}", "dst": "ann"}
        for n in range(12_000)
    ]
    graph.write({"node:Person": people, "edge:Knows": edges})
    og.open(str(graph.root)).build_indexes()
    found = looked_up(graph, ["p3", "p4"], SRC)
    assert sorted(row["src"] for row in found) == ["p3"] * 20 + ["p4"] * 20
    assert looked_up(graph, ["ann"], SRC) is None
    assert len(looked_up(graph, ["ann"], SRC, limit=7)) == 7
    counted = looked_up(graph, ["ann", "p3"], COUNT, count=True)
    assert counted == [{"count0": 6_021}]
    wish = {"groups": ["src"], "functions": [{"op": "count_all"}]}
    found = looked_up(graph, ["p3", "p4"], GROUPS, aggregate=wish)
    assert sorted(row["rows"] for row in found) == [20, 20]
    assert looked_up(graph, ["ann"], GROUPS, aggregate=wish) is None


def test_pushdown_is_switched_off_by_an_option(graph: GraphBuilder) -> None:
    asked = {"namespace": ["nodes"], "table": "Person"}
    assert "filter" in ask(graph, "load_table", asked)["ok"]["can"]
    assert ask(graph, "load_table", asked, pushdown="false")["ok"]["can"] == []


def test_a_catalog_has_options_of_writes_and_a_frame_has_not(graph: GraphBuilder) -> None:
    asked = {"namespace": ["nodes"], "table": "Person"}
    assert "ok" in ask(graph, "load_table", asked, __catalog="og", actor="me", onConflict="fail")
    refused = ask(graph, "load_table", {}, type="Person", actor="me")
    assert refused["error"] == "OMNIGRAPH_OPTION_UNKNOWN"


def test_a_schema_that_does_not_fit_is_refused(graph: GraphBuilder) -> None:
    given = {"given": StructType().add("name", "integer").json()}
    refused = ask(graph, "load_table", given, type="Person")
    assert refused["error"] == "OMNIGRAPH_SCHEMA_MISMATCH"


def test_changes_are_pinned_by_both_ends(graph: GraphBuilder) -> None:
    head = og.open(str(graph.root), mode="r").snapshot().commit.id
    asked = {
        "namespace": ["nodes"],
        "table": "Person",
        "starting": "1",
        "ending": None,
        "leave_out": [False, False],
        "are_times": False,
    }
    found = ask(graph, "load_changes", asked)["ok"]
    assert found["pinned"]
    assert found["source"] == {
        "type": "node:Person",
        "readChangeFeed": "true",
        "startingVersion": "1",
        "endingVersion": head,
    }


@pytest.mark.parametrize(
    ("question", "arguments", "code"),
    [
        ("no_such_question", {}, "OMNIGRAPH_UNSUPPORTED"),
        ("list_tables", {"namespace": ["nope"]}, "OMNIGRAPH_NAMESPACE_NOT_FOUND"),
        ("load_table", {"namespace": ["nodes"], "table": "X"}, "OMNIGRAPH_TYPE_NOT_FOUND"),
        (
            "describe_procedures",
            {"namespace": ["system"], "name": "nope"},
            "OMNIGRAPH_PROCEDURE_NOT_FOUND",
        ),
    ],
)
def test_an_error_is_an_answer(
    graph: GraphBuilder, question: str, arguments: Any, code: str
) -> None:
    refused = ask(graph, question, arguments)
    assert refused["error"] == code
    assert refused["message"].startswith(f"[{code}]")
