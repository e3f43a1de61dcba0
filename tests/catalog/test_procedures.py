"""Procedures: arguments, results, what they do, and that they do it once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark_omnigraph.procedures import PROCEDURES

import omnigraph_spark as og
from tests.catalog.catalogs import new_catalog, rows
from tests.catalog.conftest import SCHEMA
from tests.helpers.builder import GraphBuilder
from tests.helpers.golden import unpack
from tests.helpers.sources import failure

Run = Callable[[str], list[tuple[object, ...]]]


@pytest.fixture
def graph(tmp_path: Path) -> GraphBuilder:
    """Twenty persons in four fragments, and an edge."""
    built = GraphBuilder.create(tmp_path / "graph", SCHEMA)
    persons = [{"name": f"p{n}", "age": n} for n in range(20)]
    edge = {"id": "k", "src": "p1", "dst": "p2"}
    built.write({"node:Person": persons, "edge:Knows": [edge]}, max_rows_per_file=5)
    return built


@pytest.fixture
def call(spark: SparkSession, graph: GraphBuilder) -> Run:
    """Runs a procedure of a catalog on the graph: `call("system.recover()")`."""
    name = new_catalog(spark, graph.root, actor="conf")
    return lambda text: rows(spark, f"CALL {name}.{text}")


def head(graph: GraphBuilder, branch: str = "main") -> str:
    return og.open(str(graph.root), branch=branch, mode="r").snapshot().commit.id


@pytest.mark.smoke
def test_the_jar_has_the_procedures_that_python_describes(spark: SparkSession) -> None:
    found = [row[3] for row in rows(spark, "SHOW PROCEDURES IN og.system")]
    assert found == list(PROCEDURES)
    assert rows(spark, "SHOW PROCEDURES IN og.nodes") == []
    described = [text for (text,) in rows(spark, "DESCRIBE PROCEDURE og.system.merge_branch")]
    assert f"Description: {PROCEDURES['merge_branch'].about}" in described


@pytest.mark.smoke
def test_arguments_go_by_position_or_by_name_and_have_defaults(
    call: Run, graph: GraphBuilder
) -> None:
    assert call("system.create_branch('a')") == [("a", head(graph))]
    assert call("SYSTEM.create_branch(from_branch => 'a', branch => 'b')") == [("b", head(graph))]
    assert call("system.create_branch('b', if_not_exists => true)") == [("b", head(graph))]
    assert call("system.create_branch('c', 'version:3', false)") != [("c", head(graph))]
    assert call("system.delete_branch('b')") == [("b", head(graph))]
    assert call("system.delete_branch('b', if_exists => true)") == [("b", None)]


@pytest.mark.parametrize(
    ("statement", "condition", "named"),
    [
        ("create_branch(brnch => 'x')", "UNRECOGNIZED_PARAMETER_NAME", "`branch`"),
        ("create_branch()", "REQUIRED_PARAMETER_NOT_FOUND", "`branch`"),
        ("create_branch('a', 'main', false, 1)", "WRONG_NUM_ARGS", "[1, 2, 3]"),
        ("recover(dry_run => 'perhaps')", "CAST_INVALID_INPUT", "BOOLEAN"),
        ("create_brnch('x')", "OMNIGRAPH_PROCEDURE_NOT_FOUND", "create_branch"),
        ("CREATE_BRANCH('x')", "OMNIGRAPH_PROCEDURE_NOT_FOUND", "create_branch"),
        ("create_branch('dev')", "OMNIGRAPH_BRANCH_EXISTS", "'dev'"),
        ("create_branch('a b')", "OMNIGRAPH_NAME_INVALID", "'a b'"),
        ("create_branch('x', 'nope')", "OMNIGRAPH_BRANCH_NOT_FOUND", "main"),
        ("merge_branch('nope')", "OMNIGRAPH_BRANCH_NOT_FOUND", "main"),
        ("merge_branch('main')", "OMNIGRAPH_OPTION_INVALID", "another branch"),
        ("delete_branch('main')", "OMNIGRAPH_BRANCH_IN_USE", "main"),
        ("set_actor('omnigraph:me')", "OMNIGRAPH_NAME_INVALID", "reserved"),
        ("rollback_to('x')", "OMNIGRAPH_PROCEDURE_NOT_FOUND", "merge_branch"),
    ],
)
def test_a_wrong_call_says_what_would_have_worked(
    spark: SparkSession, statement: str, condition: str, named: str
) -> None:
    said = failure(lambda: spark.sql(f"CALL og.system.{statement}").collect())
    assert said.startswith(f"[{condition}")
    assert named in said
    assert "Traceback" not in said


def test_procedures_are_in_system_only(spark: SparkSession) -> None:
    said = failure(lambda: spark.sql("CALL og.nodes.recover()"))
    assert said.startswith("[OMNIGRAPH_PROCEDURE_NOT_FOUND]")
    assert "'system'" in said


def test_a_call_runs_once_and_explaining_it_never(spark: SparkSession, graph: GraphBuilder) -> None:
    name = new_catalog(spark, graph.root)
    spark.sql(f"EXPLAIN CALL {name}.system.create_branch('explained')").collect()
    frame = spark.sql(f"CALL {name}.system.create_branch('made')")
    # A second run would fail: the branch exists.
    assert frame.collect() == frame.collect()
    assert frame.count() == 1
    assert frame.where("branch = 'made'").count() == 1
    names = [branch.name for branch in og.open(str(graph.root), mode="r").branches()]
    assert names == ["made", "main"]


def test_a_branch_is_previewed_compared_merged_and_deleted(call: Run, graph: GraphBuilder) -> None:
    call("system.create_branch('dev')")
    assert call("system.preview_merge('dev')") == [("up_to_date", None, 0, 0, 0, 0)]
    assert call("system.merge_branch('dev')") == [("up_to_date", head(graph), 0, 0, 0)]
    writer = og.open(str(graph.root), branch="dev")
    writer.delete("Person", where="name = 'p1'")
    people = writer.at(branch="dev").arrow("Person", columns=["name"], where="age < 5")
    writer.write(people, "Person", mode="merge", merge_columns=["name"])
    graph.write({"node:Person": [{"name": "new"}]}, branch="dev")
    assert call("system.diff('main', 'dev')") == [
        ("edge:Knows", 0, 1, 0),
        ("node:Person", 1, 1, 0),
    ]
    assert call("system.preview_merge(source => 'dev')") == [
        ("fast_forward", "edge:Knows", 0, 0, 1, 0),
        ("fast_forward", "node:Person", 1, 0, 1, 0),
    ]
    [merged] = call("system.merge_branch('dev', delete_source => true)")
    assert merged == ("fast_forward", head(graph), 1, 0, 2)
    assert [branch.name for branch in writer.branches()] == ["main"]
    newest = og.open(str(graph.root), mode="r").history()[0]
    assert (newest.id, newest.actor) == (merged[1], "conf")


def test_conflicts_are_counted_by_type_and_refuse_the_merge(
    spark: SparkSession, call: Run, graph: GraphBuilder
) -> None:
    call("system.create_branch('dev')")
    for branch in ("main", "dev"):
        graph.write({"node:Person": [{"name": "both", "age": len(branch)}]}, branch=branch)
    # Rows in conflict do not move, so no other count is given for them.
    [(outcome, key, *_, conflicts)] = call("system.preview_merge('dev')")
    assert (outcome, key, conflicts) == ("three_way", "node:Person", 1)
    before = head(graph)
    said = failure(lambda: call("system.merge_branch('dev')"))
    assert said.startswith("[OMNIGRAPH_MERGE_CONFLICTS]")
    assert "both" in said
    assert head(graph) == before


def test_the_actor_of_a_session_is_recorded_until_it_is_taken_back(
    spark: SparkSession, graph: GraphBuilder
) -> None:
    name = new_catalog(spark, graph.root, actor="conf")

    def actors() -> tuple[str | None, ...]:
        """Who merged, and who inserted before."""
        spark.sql(f"INSERT INTO {name}.dev.nodes.Person (name) VALUES ('{head(graph)}')")
        rows(spark, f"CALL {name}.system.merge_branch('dev')")
        opened = og.open(str(graph.root), mode="r")
        return tuple(at.history()[0].actor for at in (opened, opened.as_branch("dev")))

    rows(spark, f"CALL {name}.system.create_branch('dev')")
    assert actors() == ("conf", "conf")
    assert rows(spark, f"CALL {name}.system.set_actor('ana')") == [("conf", "ana")]
    assert actors() == ("ana", "ana")
    assert rows(spark, f"CALL {name}.system.set_actor(actor => NULL)") == [("ana", None)]
    assert not {"conf", "ana"} & {*actors()}


def test_upkeep_says_what_it_did_by_type_on_the_branch_of_its_namespace(
    call: Run, graph: GraphBuilder
) -> None:
    call("system.create_branch('dev')")
    on_dev = call("dev.system.optimize()")
    assert [row[0] for row in on_dev] == ["__manifest"]
    optimized = {row[0]: row[1:] for row in call("system.optimize()")}
    before, after, version, commit, skipped = optimized["node:Person"]
    assert (before, after, commit, skipped) == (4, 1, head(graph), None)
    assert version == og.open(str(graph.root), mode="r").entries["node:Person"].dataset_version
    assert call("system.build_indexes()") == []
    graph.write({"node:Person": [{"name": "late"}]})
    built = call("system.build_indexes()")
    assert {(row[0], row[5]) for row in built} == {("node:Person", head(graph))}
    # Nothing is unfinished, and nothing was written outside of the graph.
    assert call("system.recover()") == []
    assert {row[2] for row in call("system.repair()")} == {"no_drift: no_op"}


def test_recovering_names_the_writes_it_finished(spark: SparkSession, tmp_path: Path) -> None:
    name = new_catalog(spark, unpack("crashed-armed", tmp_path))
    planned = rows(spark, f"CALL {name}.system.recover(dry_run => true)")
    done = rows(spark, f"CALL {name}.system.recover()")
    assert {row[0] for row in planned} == {row[0] for row in done} != set()
    assert all(row[5] for row in done)
    assert rows(spark, f"CALL {name}.system.recover()") == []
