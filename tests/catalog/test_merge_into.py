"""MERGE INTO: every clause, decided row by row, one commit for all of it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from tests.catalog.statements import Statements

ROWS = "SELECT name, age, city FROM og.nodes.Person ORDER BY name"
ANN, BOB, CY, DAN = ("ann", 1, "Ulm"), ("bob", 2, "Ulm"), ("cy", 3, "Ulm"), ("dan", None, "Ulm")
#: Rows to merge: Bob and Cy are there, Eve is not.
SOURCE = """
    (SELECT id, age, 'Bonn' AS city, id AS name
     FROM VALUES ('bob', 22), ('cy', 33), ('eve', 5) AS t (id, age)) s
"""
EVE = ("eve", 5, "Bonn")


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("clauses", "rows"),
    [
        (
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            [ANN, ("bob", 22, "Bonn"), ("cy", 33, "Bonn"), DAN, EVE],
        ),
        (
            "WHEN MATCHED THEN UPDATE SET age = s.age",
            [ANN, ("bob", 22, "Ulm"), ("cy", 33, "Ulm"), DAN],
        ),
        ("WHEN NOT MATCHED THEN INSERT *", [ANN, BOB, CY, DAN, EVE]),
        (
            "WHEN NOT MATCHED THEN INSERT (name, age) VALUES (s.name, 0)",
            [ANN, BOB, CY, DAN, ("eve", 0, None)],
        ),
        ("WHEN MATCHED AND t.age > 2 THEN DELETE", [ANN, BOB, DAN]),
        ("WHEN NOT MATCHED BY SOURCE THEN DELETE", [BOB, CY]),
        (
            "WHEN NOT MATCHED BY SOURCE AND t.age IS NULL THEN UPDATE SET age = 0",
            [ANN, BOB, CY, ("dan", 0, "Ulm")],
        ),
        (
            """WHEN MATCHED AND s.age = 22 THEN DELETE WHEN MATCHED THEN UPDATE SET city = s.city
            WHEN NOT MATCHED AND s.age > 9 THEN INSERT *
            WHEN NOT MATCHED THEN INSERT (name) VALUES (concat(s.name, '!'))
            WHEN NOT MATCHED BY SOURCE AND t.age = 1 THEN UPDATE SET age = t.age + 1
            WHEN NOT MATCHED BY SOURCE THEN DELETE""",
            [("ann", 2, "Ulm"), ("cy", 3, "Bonn"), ("eve!", None, None)],
        ),
    ],
)
def test_clauses_decide_row_by_row_in_one_commit(
    dml: Statements, clauses: str, rows: list[tuple[object, ...]]
) -> None:
    kept = {row[0] for row in rows}
    row_ids = dict(dml("SELECT id, _rowid FROM og.nodes.Person"))
    dml.one_commit(f"MERGE INTO og.nodes.Person t USING {SOURCE} ON t.id = s.id {clauses}")
    assert dml(ROWS) == rows
    after = dict(dml("SELECT id, _rowid FROM og.nodes.Person"))
    assert {id_: row_ids[id_] for id_ in kept & set(row_ids)} == {
        id_: after[id_] for id_ in kept & set(row_ids)
    }
    # Edges go with the nodes that went, and with no others.
    edges = {("ann", "bob"), ("bob", "cy")}
    assert set(dml("SELECT src, dst FROM og.edges.Knows")) == {
        edge for edge in edges if kept.issuperset(edge)
    }


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        ("ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'x'", "an update keeps the id"),
        ("ON t.id = s.id AND s.age > 30 WHEN NOT MATCHED THEN INSERT *", "'bob' exists already"),
        ("ON true WHEN MATCHED THEN UPDATE SET age = s.age", "MERGE_CARDINALITY_VIOLATION"),
    ],
)
def test_a_merge_that_breaks_a_rule_leaves_no_trace(
    dml: Statements, clauses: str, said: str
) -> None:
    assert said in dml.refused(f"MERGE INTO og.nodes.Person t USING {SOURCE} {clauses}")


def test_a_row_may_be_merged_by_any_condition(dml: Statements) -> None:
    dml.one_commit(
        f"MERGE INTO og.nodes.Person t USING {SOURCE} ON t.age * 11 = s.age "
        "WHEN MATCHED THEN UPDATE SET city = concat(t.city, s.city)"
    )
    assert dml(ROWS) == [ANN, ("bob", 2, "UlmBonn"), ("cy", 3, "UlmBonn"), DAN]


def test_the_source_may_be_another_type_of_the_graph(dml: Statements) -> None:
    dml.one_commit(
        "MERGE INTO og.nodes.Note t USING "
        "(SELECT o.dst, p.name FROM og.edges.Owns o JOIN og.nodes.Person p ON p.id = o.src) s "
        "ON t.id = s.dst WHEN MATCHED THEN UPDATE SET text = s.name "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert dml("SELECT id, text FROM og.nodes.Note") == [("n1", "ann")]


@pytest.mark.smoke
def test_frames_are_merged(dml: Statements, spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("bob", 22, None, "bob"), ("eve", 5, None, "eve")],
        "id string, age int, city string, name string",
    )
    table = f"{dml.name}.nodes.Person"
    merge = rows.alias("s").mergeInto(table, expr(f"{table}.id = s.id"))
    merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert dml(ROWS) == [ANN, ("bob", 22, None), CY, DAN, ("eve", 5, None)]
