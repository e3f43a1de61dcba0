"""Names of the catalog: namespaces, tables, branches, time travel, and what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark.tables import METADATA_TABLES
from tests.catalog.catalogs import count, new_catalog, rows
from tests.helpers.builder import GraphBuilder
from tests.helpers.sources import failure

pytestmark = pytest.mark.smoke


def test_namespaces_are_the_groups_and_the_branches(spark: SparkSession) -> None:
    top = [name for (name,) in rows(spark, "SHOW NAMESPACES IN og")]
    assert top == ["nodes", "edges", "system", "dev", "`feature/x`", "main", "branch_nodes"]
    assert rows(spark, "SHOW NAMESPACES IN og.dev") == [
        ("dev.nodes",),
        ("dev.edges",),
        ("dev.system",),
    ]


def test_tables_are_the_types_of_a_branch_and_the_tables_about_it(spark: SparkSession) -> None:
    tables = {
        group: [name for _, name, _ in rows(spark, f"SHOW TABLES IN og.{group}")]
        for group in ("nodes", "edges", "dev.nodes", "system")
    }
    assert tables == {
        "nodes": ["Empty", "Person"],
        "edges": ["Knows"],
        "dev.nodes": ["Empty", "Person"],
        "system": list(METADATA_TABLES),
    }


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("og.nodes.Person", 100),
        ("og.NODES.Person", 100),
        ("og.main.nodes.Person", 100),
        ("og.dev.nodes.Person", 101),
        ("og.branch_dev.nodes.Person", 101),
        ("og.`feature/x`.nodes.Person", 100),
        ("og.branch_nodes.nodes.Person", 100),
        ("og.edges.Knows", 100),
        ("og.nodes.Empty", 0),
        ("og.nodes.Person VERSION AS OF 4", 50),
        ("og.nodes.Person VERSION AS OF 'version:4'", 50),
        ("og.nodes.Person VERSION AS OF 'dev'", 101),
        ("og.nodes.Person VERSION AS OF 'branch:feature/x'", 100),
        ("og.nodes.Person TIMESTAMP AS OF '2100-01-01'", 100),
    ],
)
def test_a_name_leads_to_one_type_at_one_snapshot(
    spark: SparkSession, table: str, expected: int
) -> None:
    assert count(spark, table) == expected


def test_a_commit_is_a_version_too(spark: SparkSession, people: GraphBuilder) -> None:
    older = og.open(str(people.root), mode="r").history()[1].id
    assert count(spark, f"og.nodes.Person VERSION AS OF '{older}'") == 50
    assert count(spark, f"og.nodes.Person VERSION AS OF 'commit:{older}'") == 50


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("SELECT * FROM og.nodes.person", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.edges.Person", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.nope.nodes.Person", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.nodes.nodes.Person", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.system.nope", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.nodes.nope VERSION AS OF 4", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.nope.nodes.Person VERSION AS OF 4", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.edges.Person TIMESTAMP AS OF '2100-01-01'", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT nope FROM og.nodes.Person", "UNRESOLVED_COLUMN"),
        ("SELECT _rowid FROM og.system.commits", "UNRESOLVED_COLUMN"),
        ("SHOW TABLES IN og.nope", "SCHEMA_NOT_FOUND"),
        ("USE og.nope", "SCHEMA_NOT_FOUND"),
        ("SELECT * FROM og.nodes.Person VERSION AS OF 99", "OMNIGRAPH_VERSION_NOT_FOUND"),
        ("SELECT * FROM og.nodes.Person VERSION AS OF 'nope'", "OMNIGRAPH_BRANCH_NOT_FOUND"),
        (
            "SELECT * FROM og.nodes.Person TIMESTAMP AS OF '2000-01-01'",
            "OMNIGRAPH_TIMESTAMP_NOT_FOUND",
        ),
        ("CREATE TABLE og.nodes.New (id STRING)", "OMNIGRAPH_UNSUPPORTED"),
        ("DROP TABLE og.nodes.Person", "OMNIGRAPH_UNSUPPORTED"),
        ("CREATE NAMESPACE og.more", "OMNIGRAPH_UNSUPPORTED"),
    ],
)
def test_what_is_not_there_has_the_condition_users_know(
    spark: SparkSession, statement: str, condition: str
) -> None:
    said = failure(lambda: spark.sql(statement).collect())
    assert said.startswith(f"[{condition}")
    assert "Traceback" not in said


def test_columns_are_shown_with_their_comments_and_what_they_are_made_of(
    spark: SparkSession,
) -> None:
    shown = [name for (name,) in rows(spark, "SHOW COLUMNS IN og.nodes.Person")]
    assert shown == ["id", "age", "level", "name", "photo"]
    described = {row[0]: row[1:] for row in rows(spark, "DESCRIBE og.nodes.Person")}
    assert described["name"] == ("string", "Full name")
    assert described["age"] == ("int", None)
    [name] = [field for field in spark.table("og.nodes.Person").schema if field.name == "level"]
    assert name.metadata["omnigraph.enum"] == ["high", "low"]


def test_describe_extended_shows_key_constraints_rows_version_and_commit(
    spark: SparkSession, people: GraphBuilder
) -> None:
    head = og.open(str(people.root), mode="r").snapshot()
    facts = {row[0]: row[1] for row in rows(spark, "DESCRIBE EXTENDED og.nodes.Person")}
    assert facts["Comment"] == "Somebody"
    assert facts["Location"] == str(people.root)
    for fact in (
        f"omnigraph.commit={head.commit.id}",
        f"omnigraph.version={head.manifest_version}",
        "omnigraph.rows=100",
        "omnigraph.key=name",
        "omnigraph.constraints=key(name); range(age, 0..150)",
    ):
        assert fact in facts["Table Properties"]
    assert facts["id"] == "PRIMARY KEY (id) ENFORCED RELY"
    edges = {row[0]: row[1] for row in rows(spark, "DESCRIBE EXTENDED og.edges.Knows")}
    assert "REFERENCES nodes.Person (id)" in edges["src"]
    old = rows(spark, "SHOW TBLPROPERTIES og.dev.nodes.Person ('omnigraph.rows')")
    assert old == [("omnigraph.rows", "101")]


def test_a_table_shows_how_it_would_be_made(spark: SparkSession) -> None:
    [(statement,)] = rows(spark, "SHOW CREATE TABLE og.nodes.Person")
    assert statement.startswith("CREATE TABLE og.nodes.Person (")
    assert "COMMENT 'Full name'" in statement
    assert "USING omnigraph" in statement


def test_a_branch_is_described_and_patterns_choose_names(spark: SparkSession) -> None:
    facts = dict(rows(spark, "DESCRIBE NAMESPACE og.`feature/x`.nodes"))
    assert facts["Comment"] == "nodes of branch 'feature/x'"
    assert rows(spark, "SHOW TABLES IN og.nodes LIKE 'P*'") == [("nodes", "Person", False)]
    assert rows(spark, "SHOW NAMESPACES IN og LIKE 'd*'") == [("dev",)]


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_every_table_about_the_graph_has_the_rows_of_the_python_api(
    spark: SparkSession, people: GraphBuilder, name: str
) -> None:
    dev = og.open(str(people.root), branch="dev", mode="r", spark=spark)
    for table, graph in ((f"og.system.{name}", None), (f"og.dev.SYSTEM.{name.upper()}", dev)):
        expected = (graph or dev.as_branch("main")).table(name)
        assert sorted(map(repr, spark.table(table).collect())) == sorted(
            map(repr, expected.collect())
        )


def test_several_catalogs_and_spark_s_own_meet_in_one_statement(
    spark: SparkSession, people: GraphBuilder, tmp_path: Path
) -> None:
    other = GraphBuilder.create(tmp_path / "other", "node Person { name: String @key }")
    other.write({"node:Person": [{"name": "p03"}, {"name": "only here"}]})
    there = new_catalog(spark, other.root)
    on_dev = new_catalog(spark, people.root, branch="dev", actor="etl")
    spark.range(4).selectExpr("concat('p0', id) AS id").createOrReplaceTempView("mine")
    assert rows(
        spark,
        f"SELECT o.id, d.age FROM {there}.nodes.Person o JOIN {on_dev}.nodes.Person d "
        f"ON o.id = d.id JOIN mine m ON m.id = o.id",
    ) == [("p03", 3)]
    assert count(spark, f"{on_dev}.nodes.Person") == 101
    assert count(spark, f"{on_dev}.main.nodes.Person") == 100


def test_an_option_that_is_none_and_a_root_without_a_graph_are_named(
    spark: SparkSession, people: GraphBuilder, tmp_path: Path
) -> None:
    wrong = new_catalog(spark, people.root, brunch="dev")
    said = failure(lambda: rows(spark, f"SHOW TABLES IN {wrong}.nodes"))
    assert "[OMNIGRAPH_OPTION_UNKNOWN] unknown option 'brunch'; did you mean 'branch'?" in said
    nothing = new_catalog(spark, tmp_path)
    said = failure(lambda: rows(spark, f"SELECT * FROM {nothing}.nodes.Person"))
    assert "[OMNIGRAPH_GRAPH_NOT_FOUND]" in said


def test_use_chooses_a_branch_and_a_group(spark: SparkSession) -> None:
    try:
        spark.sql("USE og")
        assert count(spark, "Person") == 100
        spark.sql("USE og.dev.nodes")
        assert count(spark, "Person") == 101
    finally:
        spark.sql("USE spark_catalog.default")
