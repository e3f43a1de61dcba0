"""UPDATE: rows keep their ids and row ids, and everything that was not set."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.catalog.statements import Statements

ROWS = "SELECT name, age, city FROM og.nodes.Person ORDER BY name"
BEFORE = [("ann", 1, "Ulm"), ("bob", 2, "Ulm"), ("cy", 3, "Ulm"), ("dan", None, "Ulm")]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("update", "changed"),
    [
        ("age = age + 10 WHERE id = 'bob'", {"bob": (12, "Ulm")}),
        (
            "age = NULL, city = upper(city) WHERE age >= 2",
            {"bob": (None, "ULM"), "cy": (None, "ULM")},
        ),
        ("city = name WHERE length(name) = 2", {"cy": (3, "cy")}),
        ("age = DEFAULT WHERE id = 'ann'", {"ann": (None, "Ulm")}),
        ("age = (SELECT count(*) FROM og.edges.Knows) WHERE age IS NULL", {"dan": (2, "Ulm")}),
        (
            "age = 9 WHERE id IN (SELECT src FROM og.edges.Knows)",
            {"ann": (9, "Ulm"), "bob": (9, "Ulm")},
        ),
        ("id = name, name = id, age = 0 WHERE age = 1", {"ann": (0, "Ulm")}),
        ("age = 9", {name: (9, "Ulm") for name, *_ in BEFORE}),
        ("age = 9 WHERE id = 'nobody'", {}),
    ],
)
def test_rows_are_updated_in_one_commit(
    dml: Statements, update: str, changed: dict[str, tuple[object, ...]]
) -> None:
    before = dml.commits()
    dml(f"UPDATE og.nodes.Person SET {update}")
    assert dml(ROWS) == [(name, *changed.get(name, rest)) for name, *rest in BEFORE]
    assert len(dml.commits()) - len(before) == bool(changed)


@pytest.mark.smoke
def test_updated_rows_keep_their_row_ids(dml: Statements) -> None:
    row_ids = "SELECT id, _rowid FROM og.nodes.Person ORDER BY id"
    before = dml(row_ids)
    dml("UPDATE og.nodes.Person SET age = 7 WHERE id IN ('bob', 'dan')")
    dml("UPDATE og.nodes.Person SET age = age + 1")
    assert dml(row_ids) == before
    changes = dml.graph.refresh().changes(since=dml.commits()[1], type="Person")
    assert changes.select("_change_type").distinct().count() == 2


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("nodes.Person SET name = 'x' WHERE id = 'ann'", "an update keeps the id, and the key"),
        ("nodes.Person SET id = 'x' WHERE id = 'ann'", "an update keeps the id, and the key"),
        ("nodes.Note SET id = 'x' WHERE id = 'n1'", "an update keeps the id, and the key"),
        ("nodes.Note SET id = DEFAULT", "an update keeps the id, and the key"),
        ("edges.Knows SET dst = 'nope' WHERE id = 'ab'", "dst 'nope' of id 'ab' is not in Person"),
        ("nodes.Person SET name = NULL WHERE id = 'ann'", "NULL"),
        ("nodes.Person SET age = 'x'", "CANNOT_SAFELY_CAST"),
        ("nodes.Person SET nope = 1", "UNRESOLVED_COLUMN"),
    ],
)
def test_an_update_that_breaks_a_rule_leaves_no_trace(
    dml: Statements, statement: str, said: str
) -> None:
    assert said in dml.refused(f"UPDATE og.{statement}")


def test_ends_of_edges_can_be_moved(dml: Statements) -> None:
    dml.one_commit("UPDATE og.edges.Knows SET dst = 'dan', since = date '2026-01-02'")
    assert dml("SELECT src, dst FROM og.edges.Knows ORDER BY src") == [
        ("ann", "dan"),
        ("bob", "dan"),
    ]


def test_only_the_fragments_of_updated_rows_change(dml: Statements) -> None:
    for start in range(3):
        rows = ", ".join(f"('p{start}-{n}', {n})" for n in range(5))
        dml(f"INSERT INTO og.nodes.Person (name, age) VALUES {rows}")
    fragments = (
        "SELECT fragment_id, deleted_rows FROM og.system.fragments WHERE type_key = 'node:Person'"
    )
    before = dict(dml(fragments))
    dml("UPDATE og.nodes.Person SET age = 70 WHERE name LIKE 'p1-%' AND age = 3")
    after = dict(dml(fragments))
    assert sorted(after[n] for n in before) == [0] * (len(before) - 1) + [1]
    assert len(after) == len(before) + 1


def test_an_update_by_a_condition_reads_its_table_in_one_job(dml: Statements) -> None:
    context = dml.spark.sparkContext
    context.setJobGroup("an update", "counted")
    try:
        dml("UPDATE og.nodes.Person SET age = 5 WHERE age >= 2")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert len(context.statusTracker().getJobIdsForGroup("an update")) == 1


def test_what_a_catalog_does_not_show_is_not_lost_by_statements(dml: Statements) -> None:
    few = Statements(dml.spark, dml.graph, columns="id,name,age")
    before = dml(ROWS)
    source = "(SELECT 'ann' AS id, 'ann' AS name, 9 AS age)"
    clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    for statement in (
        "UPDATE og.nodes.Person SET age = 9 WHERE id = 'ann'",
        f"MERGE INTO og.nodes.Person t USING {source} s ON t.id = s.id {clauses}",
        "INSERT OVERWRITE og.nodes.Person (id, name, age) VALUES ('ann', 'ann', 9)",
        "INSERT INTO og.nodes.Person WITH (writeMode = 'merge') (name, age) VALUES ('ann', 9)",
    ):
        assert "replacing rows of node:Person without their city" in few.refused(statement)
    some = Statements(dml.spark, dml.graph, where="age > 1")
    for statement in (
        "TRUNCATE TABLE og.nodes.Person",
        "INSERT OVERWRITE og.nodes.Person (name, age) VALUES ('ann', 9)",
    ):
        assert "replacing rows that the table does not show" in some.refused(statement)
    some("UPDATE og.nodes.Person SET city = 'Bonn'")
    few("DELETE FROM og.nodes.Person WHERE length(name) = 2")
    few("INSERT INTO og.nodes.Person (name, age) VALUES ('eve', 5)")
    changed = [(name, age, "Bonn" if (age or 0) > 1 else city) for name, age, city in before]
    assert dml(ROWS) == [*(row for row in changed if row[0] != "cy"), ("eve", 5, None)]


def test_blobs_that_a_catalog_leaves_out_stay_with_updated_rows(dml: Statements) -> None:
    content = bytes(range(256))
    dml.graph.write(pa.table({"id": ["p"], "title": ["old"], "content": [content]}), "Picture")
    without = Statements(dml.spark, dml.graph, blobs="none")
    without("UPDATE og.nodes.Picture SET title = 'new'")
    whole = Statements(dml.spark, dml.graph, blobs="bytes")
    assert whole("SELECT title, content FROM og.nodes.Picture") == [("new", content)]
