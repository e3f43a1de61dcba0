"""Spark's own SQL program, which has no Python driver, with the settings file of `conf`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
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


def by_the_example(graph: GraphBuilder, folder: Path) -> list[str]:
    """Arguments that name the settings file of `conf`, with the places filled in."""
    text = CONF.read_text(encoding="utf-8")
    assert CATALOG_CLASS in text
    places = {"/opt/omnigraph/omnigraph-catalog.jar": jar_path(), "s3://bucket/graph": graph.root}
    for old, new in places.items():
        assert old in text
        text = text.replace(old, str(new))
    (folder / "conf").write_text(text, encoding="utf-8")
    return ["--properties-file", str(folder / "conf"), *settings({})]


def by_arguments_alone(graph: GraphBuilder, _folder: Path) -> list[str]:
    catalog = {"spark.sql.catalog.og": CATALOG_CLASS, "spark.sql.catalog.og.path": str(graph.root)}
    return ["--jars", str(jar_path()), *settings(catalog)]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [by_the_example, by_arguments_alone])
def test_spark_sql_selects_inserts_and_calls(
    tmp_path: Path, arguments: Callable[[GraphBuilder, Path], list[str]]
) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", SCHEMA)
    graph.write({"node:Person": [{"name": f"p{n}", "age": n} for n in range(10)]})
    statements = [
        "SELECT count(*), max(age) FROM og.nodes.Person WHERE age < 5",
        "CALL og.system.create_branch('dev')",
        "SHOW TABLES IN og.dev.nodes",
        "CALL og.system.set_actor('sql')",
        "INSERT INTO og.dev.nodes.Person (name, age) VALUES ('new', 50)",
        "SELECT name FROM og.dev.nodes.Person WHERE age > 20",
    ]
    printed = run(arguments(graph, tmp_path), statements, tmp_path)
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
