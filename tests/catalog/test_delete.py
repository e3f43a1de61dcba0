"""DELETE FROM: by conditions that Lance evaluates, and by those that only Spark can."""

from __future__ import annotations

import pytest

from tests.catalog.statements import Statements

NAMES = "SELECT name FROM og.nodes.Person ORDER BY name"


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("id = 'bob'", "ann cy dan"),
        ("age > 1 AND name <> 'cy'", "ann cy dan"),
        ("age IS NULL", "ann bob cy"),
        ("NOT age > 1", "bob cy dan"),
        ("name LIKE 'a%' OR age = 3", "bob dan"),
        # Lance has no such functions, or another meaning of them.
        ("upper(name) = 'BOB'", "ann cy dan"),
        ("age % 2 = 1", "bob dan"),
        ("id IN (SELECT dst FROM og.edges.Knows)", "ann dan"),
        ("id NOT IN (SELECT src FROM og.edges.Knows)", "ann bob"),
        ("false", "ann bob cy dan"),
        ("length(name) > 9", "ann bob cy dan"),
    ],
)
def test_rows_that_meet_a_condition_go(dml: Statements, condition: str, left: str) -> None:
    before = dml.commits()
    dml(f"DELETE FROM og.nodes.Person WHERE {condition}")
    assert [name for (name,) in dml(NAMES)] == left.split()
    # What changes nothing is no commit.
    assert len(dml.commits()) - len(before) == (left != "ann bob cy dan")


@pytest.mark.smoke
@pytest.mark.parametrize("condition", ["id = 'bob'", "upper(name) = 'BOB'"])
def test_edges_go_with_their_nodes_in_the_same_commit(dml: Statements, condition: str) -> None:
    dml.one_commit(f"DELETE FROM og.nodes.Person WHERE {condition}")
    assert dml("SELECT count(*) FROM og.edges.Knows") == [(0,)]
    assert dml("SELECT count(*) FROM og.edges.Owns") == [(1,)]


@pytest.mark.parametrize("statement", ["DELETE FROM og.nodes.Person", "DELETE FROM og.edges.Knows"])
def test_without_a_condition_all_rows_go(dml: Statements, statement: str) -> None:
    dml.one_commit(statement)
    assert dml(f"SELECT count(*) FROM {statement.split()[-1]}") == [(0,)]
    assert dml("SELECT count(*) FROM og.edges.Knows") == [(0,)]


def test_edges_are_deleted_alone(dml: Statements) -> None:
    dml("DELETE FROM og.edges.Knows WHERE src = 'ann'")
    dml("DELETE FROM og.edges.Owns WHERE upper(src) = 'ANN'")
    assert dml("SELECT id FROM og.edges.Knows UNION ALL SELECT id FROM og.edges.Owns") == [("bc",)]
    assert len(dml(NAMES)) == 4


def test_a_condition_that_lance_evaluates_starts_no_job(dml: Statements) -> None:
    plan = "\n".join(text for (text,) in dml("EXPLAIN DELETE FROM og.nodes.Person WHERE age = 2"))
    assert "DeleteFromTable" in plan
    assert "WriteDelta" not in plan
    plan = "\n".join(
        text for (text,) in dml("EXPLAIN DELETE FROM og.nodes.Person WHERE age % 2 = 1")
    )
    assert "WriteDelta" in plan


def test_the_actor_of_the_catalog_is_recorded(dml: Statements) -> None:
    named = Statements(dml.spark, dml.graph, actor="robot")
    named("DELETE FROM og.nodes.Person WHERE age = 2")
    assert dml.graph.refresh().history(1)[0].actor == "robot"


def test_tables_about_the_graph_are_not_deleted_from(dml: Statements) -> None:
    assert "does not support deletes" in dml.refused("DELETE FROM og.system.commits")
