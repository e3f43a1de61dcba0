"""Spark's own SQL program, which has no Python driver, with the settings file of `conf`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import omnigraph_spark as og
from omnigraph_spark.session.configure import CATALOG_CLASS, jar_path
from tests.catalog.conftest import SCHEMA
from tests.helpers.builder import GraphBuilder
from tests.helpers.programs import environment, settings, spark_program

CONF = Path(__file__).parent.parent.parent / "conf" / "spark-defaults.conf"


def run(arguments: list[str], statements: list[str], folder: Path) -> list[list[str]]:
    """Run statements and return the rows they print."""
    command = [spark_program("spark-sql"), *arguments, "-S", "-e", "; ".join(statements)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split("\t") for line in done.stdout.splitlines() if line]


@pytest.mark.slow
def test_spark_sql_selects_inserts_and_calls_with_the_example_settings(
    tmp_path: Path,
) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", SCHEMA)
    graph.write({"node:Person": [{"name": f"p{n}", "age": n} for n in range(10)]})
    text = CONF.read_text(encoding="utf-8")
    assert CATALOG_CLASS in text
    places = {"/opt/omnigraph/omnigraph-catalog.jar": jar_path(), "s3://bucket/graph": graph.root}
    for old, new in places.items():
        assert old in text
        text = text.replace(old, str(new))
    (tmp_path / "conf").write_text(text, encoding="utf-8")
    arguments = ["--properties-file", str(tmp_path / "conf"), *settings({})]
    statements = [
        "SELECT count(*), max(age) FROM og.nodes.Person WHERE age < 5",
        "CALL og.system.create_branch('dev')",
        "SHOW TABLES IN og.dev.nodes",
        "CALL og.system.set_actor('sql')",
        "INSERT INTO og.dev.nodes.Person (name, age) VALUES ('new', 50)",
        "SELECT name FROM og.dev.nodes.Person WHERE age > 20",
    ]
    printed = run(arguments, statements, tmp_path)
    inserted, before = og.open(str(graph.root), branch="dev", mode="r").history(limit=2)
    assert printed == [
        ["5", "4"],
        ["dev", before.id],
        ["Empty"],
        ["Person"],
        ["NULL", "sql"],
        ["new"],
    ]
    assert inserted.actor == "sql"
