"""INSERT INTO, INSERT OVERWRITE, REPLACE WHERE, TRUNCATE and writeTo: rows that are new."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from tests.catalog.statements import Statements
from tests.helpers.sources import failure

AGES = "SELECT name, age FROM og.nodes.Person ORDER BY name"
BEFORE = [("ann", 1), ("bob", 2), ("cy", 3), ("dan", None)]


@pytest.mark.smoke
@pytest.mark.parametrize(
    "insert",
    [
        "(name, age) VALUES ('eve', 5), ('fay', 6)",
        "(age, name) VALUES (5, 'eve'), (6, 'fay')",
        "BY NAME SELECT * FROM VALUES ('eve', 5), ('fay', 6) AS t (name, age)",
        # By position: the columns of the table, as DESCRIBE shows them.
        "VALUES ('eve', 5, 'Ulm', 'eve'), (DEFAULT, 6, DEFAULT, 'fay')",
        "SELECT concat(x, ''), age, NULL, x FROM VALUES ('eve', 5), ('fay', 6) AS t (x, age)",
        "TABLE two",
    ],
)
def test_rows_are_inserted_in_one_commit(dml: Statements, spark: SparkSession, insert: str) -> None:
    rows = "('eve', 5, 'Ulm', 'eve'), ('fay', 6, 'Ulm', 'fay')"
    spark.sql(f"SELECT * FROM VALUES {rows} AS t (a, b, c, d)").createOrReplaceTempView("two")
    dml.one_commit(f"INSERT INTO og.nodes.Person {insert}")
    assert dml(AGES) == [*BEFORE, ("eve", 5), ("fay", 6)]
    assert dml("SELECT id FROM og.nodes.Person WHERE age > 4") == [("eve",), ("fay",)]


def test_an_edge_without_an_id_gets_one(dml: Statements) -> None:
    dml("INSERT INTO og.edges.Knows (src, dst) VALUES ('cy', 'dan'), ('dan', 'ann')")
    made = dml("SELECT id FROM og.edges.Knows WHERE src IN ('cy', 'dan')")
    assert {len(id_) for (id_,) in made} == {26}
    assert len(set(made)) == 2


def test_values_keep_their_types(dml: Statements) -> None:
    dml(
        "INSERT INTO og.nodes.Note (id, text, at, size) VALUES "
        "('n3', 'it''s', timestamp '2026-01-02 03:04:05.678', 18446744073709551615)"
    )
    [row] = dml("SELECT text, at, size FROM og.nodes.Note WHERE id = 'n3'")
    assert row == ("it's", dt.datetime(2026, 1, 2, 3, 4, 5, 678000), Decimal(2**64 - 1))


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("nodes.Person (name) VALUES ('ann')", "[OMNIGRAPH_KEY_CONFLICT]"),
        ("nodes.Person (name) VALUES ('eve'), ('eve')", "id 'eve' is given more than once"),
        ("nodes.Person (id, name) VALUES ('x', 'eve')", "the id is not the key"),
        ("nodes.Person (age) VALUES (5)", "name"),
        ("nodes.Person (name, age) VALUES ('eve', 'old')", "CANNOT_SAFELY_CAST"),
        ("nodes.Person (name, nope) VALUES ('eve', 1)", "UNRESOLVED_COLUMN"),
        ("nodes.Person VALUES ('eve')", "INSERT_COLUMN_ARITY_MISMATCH"),
        ("edges.Knows (src, dst) VALUES ('ann', 'nope')", "dst 'nope'"),
        ("edges.Owns (src, dst) VALUES ('ann', 'n2'), ('ann', 'n1')", "cardinality on edge:Owns"),
        ("system.commits VALUES ('a', 'b', 1, 'c', 'd', 'e', now())", "UNSUPPORTED_FEATURE"),
    ],
)
def test_an_insert_that_breaks_a_rule_leaves_no_trace(
    dml: Statements, statement: str, said: str
) -> None:
    assert said in dml.refused(f"INSERT INTO og.{statement}")


def test_overwrite_puts_rows_in_the_place_of_all(dml: Statements) -> None:
    dml.one_commit("INSERT OVERWRITE og.edges.Knows (src, dst) VALUES ('cy', 'ann')")
    assert dml("SELECT src, dst FROM og.edges.Knows") == [("cy", "ann")]
    said = dml.refused("INSERT OVERWRITE og.nodes.Person (name) VALUES ('eve')")
    assert "is no longer in Person" in said
    dml.one_commit("INSERT OVERWRITE og.nodes.Person SELECT * FROM og.nodes.Person WHERE id < 'd'")
    assert dml("SELECT count(*) FROM og.nodes.Person") == [(3,)]


@pytest.mark.smoke
def test_truncate_leaves_a_type_empty_unless_edges_need_it(dml: Statements) -> None:
    assert "is no longer in Person" in dml.refused("TRUNCATE TABLE og.nodes.Person")
    dml.one_commit("TRUNCATE TABLE og.edges.Knows")
    assert dml("SELECT count(*) FROM og.edges.Knows") == [(0,)]


@pytest.mark.smoke
def test_replace_where_replaces_a_slice(dml: Statements) -> None:
    before = dml("SELECT id, _rowid FROM og.nodes.Person WHERE id = 'bob'")
    dml.one_commit(
        "INSERT INTO og.nodes.Person REPLACE WHERE age >= 2 "
        "SELECT n AS id, age, NULL AS city, n FROM VALUES ('bob', 22), ('eve', 5) t(n, age)"
    )
    # Bob is given again, so he keeps his edges; Cy is gone with his.
    assert dml(AGES) == [("ann", 1), ("bob", 22), ("dan", None), ("eve", 5)]
    assert dml("SELECT id FROM og.edges.Knows") == [("ab",)]
    assert dml("SELECT id, _rowid FROM og.nodes.Person WHERE id = 'bob'") == before


@pytest.mark.parametrize(
    ("age", "said"), [("1", "not among those that are replaced"), ("NULL", "not among those")]
)
def test_a_row_outside_the_slice_is_refused(dml: Statements, age: str, said: str) -> None:
    text = dml.refused(
        "INSERT INTO og.nodes.Person REPLACE WHERE age >= 2 "
        f"SELECT name AS id, {age} AS age, NULL AS city, name FROM VALUES ('eve') t(name)"
    )
    assert said in text
    assert "'eve'" in text


def test_a_row_of_the_slice_that_exists_outside_it_is_refused(dml: Statements) -> None:
    assert "'ann' exists already" in dml.refused(
        "INSERT INTO og.nodes.Person REPLACE WHERE age >= 2 "
        "SELECT name AS id, 9 AS age, NULL AS city, name FROM VALUES ('ann') t(name)"
    )


@pytest.mark.smoke
def test_frames_are_written_by_name(dml: Statements, spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("eve", 5, None, "eve")], "id string, age int, city string, name string"
    )
    table = f"{dml.name}.nodes.Person"
    frame.writeTo(table).option("actor", "me").append()
    assert dml.graph.refresh().history(1)[0].actor == "me"
    frame.selectExpr("id", "50 AS age", "city", "name").writeTo(table).overwrite(col("age") >= 5)
    assert dml("SELECT age FROM og.nodes.Person WHERE id = 'eve'") == [(50,)]
    said = failure(lambda: frame.writeTo(table).option("version", "3").append())
    assert "writing to a snapshot is not supported" in said
    said = failure(lambda: frame.writeTo(table).option("nope", "3").append())
    assert "OMNIGRAPH_OPTION_UNKNOWN" in said


def test_a_pair_that_was_written_is_not_written_again(dml: Statements) -> None:
    pair = "WITH (txnAppId = 'job', txnVersion = '1')"
    once = f"INSERT INTO og.nodes.Person {pair} (name) VALUES ('eve')"
    dml.one_commit(once)
    before = dml.commits()
    dml(once)
    assert dml.commits() == before


@pytest.mark.smoke
def test_an_insert_may_merge_by_id_without_reading_the_table(dml: Statements) -> None:
    columns = "(name, age) VALUES ('ann', 10), ('eve', 5)"
    row_ids = dml("SELECT _rowid FROM og.nodes.Person WHERE id = 'ann'")
    dml.one_commit(f"INSERT INTO og.nodes.Person WITH (writeMode = 'merge') {columns}")
    # Whole rows are replaced, unless only some columns are merged.
    assert dml("SELECT age, city FROM og.nodes.Person WHERE id = 'ann'") == [(10, None)]
    some = "WITH (writeMode = 'merge', mergeColumns = 'age')"
    dml.one_commit(f"INSERT INTO og.nodes.Person {some} (name, age) VALUES ('bob', 20)")
    assert dml("SELECT age, city FROM og.nodes.Person WHERE id = 'bob'") == [(20, "Ulm")]
    assert dml("SELECT _rowid FROM og.nodes.Person WHERE id = 'ann'") == row_ids


@pytest.mark.smoke
def test_statements_write_to_their_branch(dml: Statements) -> None:
    dml.graph.create_branch("dev")
    before = dml.commits()
    dml("INSERT INTO og.dev.nodes.Person (name) VALUES ('eve')")
    dml("UPDATE og.dev.nodes.Person SET age = 7 WHERE id = 'eve'")
    dml("DELETE FROM og.dev.nodes.Person WHERE id = 'ann'")
    assert dml.commits() == before
    assert dml("SELECT name, age FROM og.dev.nodes.Person WHERE age > 3") == [("eve", 7)]
    assert dml("SELECT id FROM og.dev.edges.Knows") == [("bc",)]


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("CREATE TABLE og.nodes.New AS SELECT 1 AS a", "omnigraph schema apply"),
        ("CREATE TABLE og.nodes.New (a INT)", "omnigraph schema apply"),
        ("ALTER TABLE og.nodes.Note ADD COLUMN a INT", "omnigraph schema apply"),
        ("ALTER TABLE og.nodes.Note RENAME TO og.nodes.Other", "omnigraph schema apply"),
        ("DROP TABLE og.nodes.Note", "omnigraph schema apply"),
        ("CREATE TABLE og.nodes.Note AS SELECT 'a' AS id", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("REPLACE TABLE og.nodes.Note AS SELECT 'a' AS id", "omnigraph schema apply"),
        ("CREATE OR REPLACE TABLE og.nodes.Note AS SELECT 'a' AS id", "omnigraph schema apply"),
    ],
)
def test_types_are_not_made_or_changed_as_tables(
    dml: Statements, statement: str, advice: str
) -> None:
    assert advice in dml.refused(statement)


def test_a_blob_is_written_where_the_catalog_says_bytes(dml: Statements) -> None:
    bytes_too = Statements(dml.spark, dml.graph, blobs="bytes")
    bytes_too("INSERT INTO og.nodes.Picture (id, content) VALUES ('p', X'0102')")
    bytes_too("UPDATE og.nodes.Picture SET title = 'new'")
    assert bytes_too("SELECT title, content FROM og.nodes.Picture") == [("new", b"\1\2")]
    # The other catalog shows what a blob is, and writes rows without one.
    dml("INSERT INTO og.nodes.Picture (id, title) VALUES ('q', 'empty')")
    # A blob that is not set stays with its row.
    dml.one_commit(
        "MERGE INTO og.nodes.Picture t "
        "USING (SELECT * FROM VALUES ('p', 'x'), ('r', 'y') AS v (id, title)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET title = s.title "
        "WHEN NOT MATCHED THEN INSERT (id, title) VALUES (s.id, s.title)"
    )
    pictures = "SELECT id, title, content FROM og.nodes.Picture ORDER BY id"
    after = [("p", "x", b"\1\2"), ("q", "empty", None), ("r", "y", None)]
    assert bytes_too(pictures) == after
    assert "blobs=bytes" in dml.refused("UPDATE og.nodes.Picture SET content = NULL WHERE id = 'p'")
    assert bytes_too(pictures) == after
