"""The demonstration: a graph that the released engine wrote, read through Spark in one minute.

`social.zip` was written by engine 0.8.0: five loads, one merged branch (`hires`), one deletion
with its cascade, and one branch still open (`reorg`).
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from zipfile import ZipFile

import click

from omnigraph_spark.graph import open as open_graph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def unpack_demo_graph(folder: Path) -> Path:
    """Unpack the packaged graph below a folder and return its root."""
    with (
        as_file(files(__package__) / "social.zip") as archive,
        ZipFile(archive) as packed,
    ):
        packed.extractall(folder)
    return folder / "social"


def run_demo() -> None:
    """Unpack the graph into a temporary folder, start Spark, and show what reading it is like."""
    from omnigraph_spark.session.local import local_session

    with TemporaryDirectory(prefix="omnigraph-demo-") as folder:
        _say("Starting Spark on this machine", "spark = SparkSession.builder.getOrCreate()")
        spark = local_session("omnigraph-spark demo")
        try:
            _show(spark, str(unpack_demo_graph(Path(folder))))
        finally:
            spark.stop()
    _next_steps()


def _show(spark: SparkSession, root: str) -> None:
    _say("A graph written by the OmniGraph engine 0.8.0", f'graph = og.open("{root}")')
    graph = open_graph(root)
    click.echo(f"{graph}\n\n{graph.schema}")

    _say(
        "Any type is a DataFrame; Lance reads only the columns and rows asked for",
        'spark.read.format("omnigraph").option("type", "Person")'
        '.option("where", "level = \'lead\'").option("columns", "name,city,born").load(root)',
    )
    people = spark.read.format("omnigraph").option("type", "Person").option("where", "level='lead'")
    people.option("columns", "name,city,born").load(root).show(5)

    _say(
        "One snapshot for everything read together",
        'snap = graph.snapshot(); snap.nodes("Person").join(snap.edges("WorksAt"), …)',
    )
    snapshot = graph.snapshot()
    employed = snapshot.nodes("Person").join(
        snapshot.edges("WorksAt").selectExpr("src AS id", "dst AS company"), "id"
    )
    employed.groupBy("company", "level").count().orderBy("company", "level").show(6)

    _say("SQL over temporary views", 'graph.register_views("og"); spark.sql("…")')
    graph.register_views("og")
    spark.sql(
        """
        SELECT p.city, count(*) AS acquaintances, min(k.since) AS oldest
        FROM og_Knows k JOIN og_Person p ON k.src = p.id
        GROUP BY p.city ORDER BY acquaintances DESC
        """
    ).show()

    _say("The history of the branch", 'graph.table("commits")')
    graph.table("commits").select(
        "manifest_version", "id", "actor", "merged_parent_id", "created_at"
    ).show(truncate=False)

    _say("Time travel: any commit, version or time", "graph.at(version=4), graph.at(commit=…)")
    for commit in reversed(graph.history(limit=4)):
        then = graph.at(commit=commit.id)
        counts = ", ".join(f"{key} {entry.rows}" for key, entry in then.entries.items())
        click.echo(f"  version {commit.manifest_version} by {commit.actor}: {counts}")

    _say("Branches: what would `reorg` change?", 'graph.at(branch="reorg")')
    reorg = graph.at(branch="reorg").nodes("Person").select("id", "city", "level")
    main = snapshot.nodes("Person").select("id", "city", "level")
    reorg.exceptAll(main).orderBy("id").show(8)


def _say(what: str, how: str) -> None:
    click.echo()
    click.secho(f"== {what}", bold=True)
    click.secho(f"   {how}", dim=True)


def _next_steps() -> None:
    click.echo()
    click.secho("Where to go next", bold=True)
    click.echo("  README.md        reading, time travel, options, error codes")
    click.echo("  make test        everything this package promises, as tests")
    click.echo("  omnigraph-spark info <root>   what is in a graph of your own")
