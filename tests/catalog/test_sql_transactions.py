"""Several SQL statements, one commit: they wait for it, or for nobody."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.catalog.statements import Statements
from tests.helpers.files import listing
from tests.helpers.sources import failure

PEOPLE = "SELECT name, age FROM og.nodes.Person ORDER BY name"
BEFORE = [("ann", 1), ("bob", 2), ("cy", 3), ("dan", None)]


def test_statements_are_published_together(dml: Statements) -> None:
    before = dml.commits()
    [(_, base)] = dml("CALL og.system.begin_transaction()")
    assert base == before[0]
    dml("INSERT INTO og.edges.Knows (src, dst) VALUES ('ann', 'dan')")
    dml("INSERT INTO og.edges.Knows (src, dst) VALUES ('ann', 'cy')")
    dml(
        """MERGE INTO og.nodes.Person t USING (SELECT 'eve' AS id) s ON t.id = s.id
        WHEN NOT MATCHED THEN INSERT (name) VALUES (s.id)
        WHEN NOT MATCHED BY SOURCE AND t.name = 'bob' THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND t.age = 1 THEN UPDATE SET age = 10"""
    )
    dml("DELETE FROM og.nodes.Note WHERE id = 'n2'")
    assert dml.commits() == before
    assert dml(PEOPLE) == BEFORE
    [(commit, statements)] = dml("CALL og.system.commit_transaction()")
    assert (dml.commits(), statements) == ([commit, *before], 4)
    assert dml(PEOPLE) == [("ann", 10), ("cy", 3), ("dan", None), ("eve", None)]
    # The edges of Bob went with him, and the new ones are there.
    assert dml("SELECT src, dst FROM og.edges.Knows ORDER BY dst") == [
        ("ann", "cy"),
        ("ann", "dan"),
    ]
    assert dml("SELECT id FROM og.nodes.Note") == [("n1",)]
    dml.one_commit("INSERT INTO og.nodes.Person (name) VALUES ('fay')")


def test_what_is_rolled_back_leaves_no_trace(dml: Statements) -> None:
    files = listing(Path(dml.graph.root))
    dml("CALL og.system.begin_transaction()")
    dml("UPDATE og.nodes.Person SET age = 9")
    dml("INSERT INTO og.nodes.Note (text) VALUES ('x')")
    assert dml("CALL og.system.rollback_transaction()") == [(None, 2)]
    assert listing(Path(dml.graph.root)) == files
    said = failure(lambda: dml("CALL og.system.commit_transaction()"))
    assert "commit_transaction without a transaction" in said


def test_a_transaction_is_checked_when_it_ends(dml: Statements) -> None:
    files = listing(Path(dml.graph.root))
    dml("CALL og.system.begin_transaction()")
    dml("INSERT INTO og.edges.Knows (src, dst) VALUES ('ann', 'nobody')")
    said = failure(lambda: dml("CALL og.system.commit_transaction()"))
    assert "dst 'nobody'" in said
    assert listing(Path(dml.graph.root)) == files
    said = failure(lambda: dml("INSERT INTO og.nodes.Note (text) VALUES ('x')"))
    assert "a transaction that failed" in said
    dml("CALL og.system.rollback_transaction()")
    dml.one_commit("INSERT INTO og.nodes.Note (text) VALUES ('x')")


def test_what_statements_would_not_see_is_refused(dml: Statements) -> None:
    dml.graph.create_branch("dev")
    dml("CALL og.system.begin_transaction()")
    dml("UPDATE og.nodes.Person SET age = 9 WHERE id = 'ann'")
    refused = {
        "UPDATE og.nodes.Person SET age = 8": "a second statement on node:Person",
        "INSERT INTO og.nodes.Person (name) VALUES ('eve')": "a second statement on node:Person",
        "INSERT INTO og.dev.nodes.Note (text) VALUES ('x')": "branch 'dev'",
        "TRUNCATE TABLE og.edges.Knows": "an overwrite among other changes",
        "CALL og.system.begin_transaction()": "a transaction in a transaction",
    }
    for statement, said in refused.items():
        assert said in dml.refused(statement)
    dml("CALL og.system.commit_transaction()")
    assert dml(PEOPLE)[0] == ("ann", 9)


def test_a_transaction_is_published_only_on_what_it_read(dml: Statements) -> None:
    dml("CALL og.system.begin_transaction()")
    dml("UPDATE og.nodes.Person SET age = 9 WHERE id = 'ann'")
    dml.graph.refresh().write(pa.table({"name": ["eve"]}), "Person")
    said = failure(lambda: dml("CALL og.system.commit_transaction()"))
    assert "[OMNIGRAPH_EXPECTED_VERSION]" in said
    dml("CALL og.system.rollback_transaction()")
    assert dml(PEOPLE) == [*BEFORE, ("eve", None)]


def test_a_transaction_is_on_the_branch_of_its_namespace(dml: Statements) -> None:
    dml.graph.create_branch("dev")
    before = dml.commits()
    dml("CALL og.dev.system.begin_transaction()")
    dml("INSERT INTO og.dev.nodes.Person (name) VALUES ('eve')")
    dml("CALL og.system.commit_transaction()")
    there = Statements(dml.spark, dml.graph, branch="dev")
    there("CALL og.system.begin_transaction()")
    there("INSERT INTO og.nodes.Person (name) VALUES ('fay')")
    there("CALL og.system.commit_transaction()")
    assert there("SELECT id FROM og.nodes.Person WHERE id > 'e'") == [("eve",), ("fay",)]
    assert dml.commits() == before
