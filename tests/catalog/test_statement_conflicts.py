"""Statements beside other writers: what a statement read is expected to be so when it is published.

The other writer is a function of the statement itself: it commits once, while the statement runs.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.catalog.statements import Statements
from tests.helpers.files import data_files, named_files
from tests.helpers.sources import failure

AGES = "SELECT name, age FROM og.nodes.Person ORDER BY name"
BEFORE = [("ann", 1), ("bob", 2), ("cy", 3), ("dan", None)]


def meddle(spark: SparkSession, root: str, mark: Path, type_name: str) -> None:
    """Make `meddled(x)` return x, after another writer committed a row of a type, once."""

    def meddled(value: str) -> str:
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return value
        ends = {} if type_name == "Note" else {"name": ["eve"]}
        og.open(root).write(pa.table({"id": ["eve"], **ends}), type_name)
        return value

    spark.udf.register("meddled", meddled, "string")


@pytest.mark.parametrize(
    ("statement", "meddler", "expected"),
    [
        # What only adds lands on top of the other commit.
        ("INSERT INTO og.nodes.Person (name) SELECT meddled('fay')", "Person", "eve fay"),
        # Somebody else moved a type that was neither read nor written.
        (
            "INSERT INTO og.nodes.Person (name) SELECT meddled('ann!') FROM og.edges.Owns",
            "Note",
            "ann!",
        ),
    ],
)
def test_an_insert_lands_on_commits_it_does_not_depend_on(
    dml: Statements, tmp_path: Path, statement: str, meddler: str, expected: str
) -> None:
    meddle(dml.spark, dml.graph.root, tmp_path / "done", meddler)
    dml(statement)
    assert {name for name, _ in dml(AGES)} == {*expected.split(), "ann", "bob", "cy", "dan"}


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO og.nodes.Person (name) SELECT concat(meddled(id), '!') FROM og.nodes.Person",
        "UPDATE og.nodes.Person SET city = meddled(name) WHERE id = 'ann'",
        "DELETE FROM og.nodes.Person WHERE meddled(name) = 'ann'",
        """MERGE INTO og.nodes.Person t USING (SELECT meddled('ann') AS id) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET age = 9
        WHEN NOT MATCHED THEN INSERT (name) VALUES (s.id)""",
        "INSERT OVERWRITE og.nodes.Person SELECT * FROM og.nodes.Person WHERE meddled(id) < 'd'",
    ],
)
def test_a_statement_whose_rows_moved_is_refused(
    dml: Statements, tmp_path: Path, statement: str
) -> None:
    meddle(dml.spark, dml.graph.root, tmp_path / "done", "Person")
    before = dml.commits()
    said = failure(lambda: dml(statement))
    assert "[OMNIGRAPH_EXPECTED_VERSION]" in said
    assert "node:Person was expected at version" in said
    # The other writer's commit is all there is, and no file is left of the statement's.
    assert dml.commits()[1:] == before
    assert dml(AGES) == sorted([*BEFORE, ("eve", None)])
    assert data_files(dml.graph, "node:Person") == named_files(dml.graph, "node:Person")


def test_an_update_fails_on_any_other_commit_unless_it_may_rebase(
    dml: Statements, tmp_path: Path
) -> None:
    meddle(dml.spark, dml.graph.root, tmp_path / "one", "Note")
    update = "UPDATE og.nodes.Person SET city = meddled(name) WHERE id = 'ann'"
    assert "[OMNIGRAPH_HEAD_MOVED]" in failure(lambda: dml(update))
    patient = Statements(dml.spark, dml.graph, onConflict="rebase")
    dml("DELETE FROM og.nodes.Note WHERE id = 'eve'")
    meddle(dml.spark, dml.graph.root, tmp_path / "two", "Note")
    patient(update)
    assert dml("SELECT city FROM og.nodes.Person WHERE id = 'ann'") == [("ann",)]
    assert dml("SELECT count(*) FROM og.nodes.Note") == [(3,)]


def test_a_statement_reads_one_version_while_another_writer_commits(
    dml: Statements, tmp_path: Path
) -> None:
    """Both sides of the join are as they were when it was planned, whenever they are read."""
    meddle(dml.spark, dml.graph.root, tmp_path / "done", "Person")
    frame = dml.spark.sql(
        dml.written(
            "SELECT count(*) FROM (SELECT meddled(id) AS id FROM og.nodes.Person) a "
            "JOIN og.nodes.Person b ON a.id = b.id"
        )
    )
    assert frame.collect()[0][0] == 4
    assert dml("SELECT count(*) FROM og.nodes.Person") == [(5,)]
