"""The demonstration: what a graph in Spark is good for, in one minute, and the graphs it uses.

`social.zip` was written by engine 0.8.0: five loads, one merged branch (`hires`), one deletion
with its cascade, and one branch still open (`reorg`).
"""

from __future__ import annotations

from contextlib import redirect_stdout
from importlib.resources import as_file, files
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING
from zipfile import ZipFile

import click
import pyarrow as pa

from omnigraph_spark.demo.crash import die_in_the_middle
from omnigraph_spark.errors import MergeConflictsError
from omnigraph_spark.graph import Graph, create
from omnigraph_spark.graph import open as open_graph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Person { name: String @key  city: String?  level: enum(junior, senior, lead)? }
node Project { title: String @key  budget: I64? }
edge Knows: Person -> Person { since: I32? }
edge WorksOn: Person -> Project @card(0..2) { role: String? }
"""
PEOPLE = [
    ("ada", "London", "lead"),
    ("bob", "Paris", "senior"),
    ("cy", "Paris", "junior"),
    ("dee", "Rome", "senior"),
]
_NEXT = "Where to go next"
#: Where the picture of the history is written.
PICTURE = "omnigraph-demo-history.svg"


def unpack_demo_graph(folder: str | Path) -> Path:
    """Unpack the packaged graph below a folder, as `social`, and return its root."""
    with (
        as_file(files(__package__) / "social.zip") as archive,
        ZipFile(archive) as packed,
    ):
        packed.extractall(folder)
    return Path(folder) / "social"


def steps_of_demo() -> list[dict[str, str]]:
    """Run the demonstration without showing it; return its steps, for programs."""
    printed = StringIO()
    with redirect_stdout(printed):
        run_demo()
    steps = []
    for part in printed.getvalue().split("\n== ")[1:]:
        step, call, *shown = part.split("\n")
        told = "\n".join(shown).partition(f"\n{_NEXT}")[0]
        steps.append({"step": step, "call": call.strip(), "printed": told.strip("\n")})
    return steps


def run_demo() -> None:
    """Make a graph in a temporary folder, start Spark, and show what can be done with it."""
    from omnigraph_spark.session.local import local_session

    with TemporaryDirectory(prefix="omnigraph-demo-") as folder:
        root = f"{folder}/team"
        _say("Starting Spark on this machine", f'og.configure(SparkSession.builder, og="{root}")')
        spark = local_session("omnigraph-spark demo", catalogs={"og": root}, brief=True)
        try:
            graph = _write(spark, root)
            _query(spark, graph)
            _branch_and_merge(graph)
            _travel(graph)
            _crash(graph)
            _engine(spark, Path(folder))
            _picture(graph)
        finally:
            spark.stop()
    _next_steps()


def _write(spark: SparkSession, root: str) -> Graph:
    _say("A new graph", 'graph = og.create(root, schema="node Person { name: String @key … } …")')
    graph = create(root, SCHEMA, actor="ann", spark=spark)
    _say(
        "Nodes and edges of four types, from Spark and pyarrow, checked together, in one commit",
        'with graph.transaction() as tx: tx.append("Person", people); tx.append("Knows", knows); …',
    )
    with graph.transaction() as tx:
        tx.append("Person", spark.createDataFrame(PEOPLE, "name string, city string, level string"))
        tx.append("Project", pa.table({"title": ["apollo", "gemini"], "budget": [900, 400]}))
        knows = [("ada", "bob", 2019), ("bob", "cy", 2024), ("dee", "ada", 2021)]
        tx.append("Knows", spark.createDataFrame(knows, "src string, dst string, since int"))
        works = {"src": ["ada", "bob", "cy"], "dst": ["apollo", "apollo", "gemini"]}
        tx.append("WorksOn", pa.table(works))
    click.echo(f"{tx.commit}\n{graph}")
    return graph


def _query(spark: SparkSession, graph: Graph) -> None:
    from omnigraph_spark.session.configure import jar_path

    person, works, project = "og.nodes.Person", "og.edges.WorksOn", "og.nodes.Project"
    if jar_path() is None:
        # Without the jar there is no catalog; temporary views do.
        graph.register_views("og")
        person, works, project = "og_Person", "og_WorksOn", "og_Project"
    _say("SQL over types; all tables of a statement are of one commit", f"… FROM {person} …")
    spark.sql(
        f"""
        SELECT j.title, count(*) AS people, sort_array(collect_list(p.city)) AS cities
        FROM {person} p JOIN {works} w ON p.id = w.src JOIN {project} j ON j.id = w.dst
        GROUP BY j.title ORDER BY j.title
        """
    ).show(truncate=False)


def _branch_and_merge(graph: Graph) -> None:
    def promote(level: str, branch: str, actor: str) -> None:
        rows = pa.table({"name": ["bob"], "level": [level]})
        graph.write_back(rows, "Person", columns=["level"], branch=branch, actor=actor)

    _say("Branches: work that others do not see yet", 'graph.create_branch("review")')
    graph.create_branch("review")
    hired = pa.table({"name": ["eve"], "city": ["Oslo"], "level": ["junior"]})
    graph.write(hired, "Person", branch="review", actor="rita")
    promote("lead", "review", "rita")
    promote("junior", "main", "ann")
    click.echo(f"main has {graph.snapshot().rows('Person')} persons, ", nl=False)
    click.echo(f"review has {graph.at(branch='review').rows('Person')}; both changed bob")

    _say("A merge finds the conflict and publishes nothing", 'graph.merge("review")')
    try:
        graph.merge("review", actor="ann")
    except MergeConflictsError as error:
        for conflict in error.conflicts:
            click.echo(f"  {conflict}")
    _say("Decided, it is one commit with both parents", 'graph.merge("review", resolve="theirs")')
    click.echo(graph.merge("review", actor="ann", resolve="theirs"))
    click.echo(f"bob is now {(graph.entity('Person', 'bob') or {}).get('level')}")


def _travel(graph: Graph) -> None:
    _say("Time travel: any commit, version or time", "graph.at(version=4), graph.at(commit=…)")
    for commit in reversed(graph.history(limit=4)):
        then = graph.at(commit=commit.id)
        bob = (then.entity("Person", "bob") or {}).get("level")
        people = f"{then.rows('Person')} persons, bob is {bob}"
        click.echo(f"  version {commit.manifest_version} by {commit.actor}: {people}")


def _crash(graph: Graph) -> None:
    _say(
        "A writer dies between two datasets; the next to open the graph undoes or finishes it",
        "graph.recover()",
    )
    before = graph.snapshot().rows("Person")
    click.echo(f"  the writer: {die_in_the_middle(graph.root)}")
    readers = open_graph(graph.root, mode="r")
    click.echo(f"  readers see {readers.snapshot().rows('Person')} persons, as before: {before}")
    for done in graph.recover():
        click.echo(
            f"  recovered: {done.kind}, {', '.join(table.type_key for table in done.tables)}"
        )
    click.echo(f"  health of unfinished writes: {graph.table('sidecars').count()} left")


def _engine(spark: SparkSession, folder: Path) -> None:
    _say(
        "A graph written by the OmniGraph engine 0.8.0 is read as it is",
        'spark.read.format("omnigraph").option("type", "Person").option("where", …).load(root)',
    )
    root = str(unpack_demo_graph(folder))
    people = spark.read.format("omnigraph").option("type", "Person").option("where", "level='lead'")
    people.option("columns", "name,city,born").load(root).show(3)


def _picture(graph: Graph) -> None:
    _say("The history as a picture", "graph.show_history().save(…)")
    click.echo(f"  {graph.refresh().show_history().save(Path(gettempdir()) / PICTURE)}")


def _say(what: str, how: str) -> None:
    click.echo()
    click.secho(f"== {what}", bold=True)
    click.secho(f"   {how}", dim=True)


def _next_steps() -> None:
    click.echo()
    click.secho(_NEXT, bold=True)
    click.echo("  README.md        reading, writing, branches, SQL, options, error codes")
    click.echo("  notebooks/       the same step by step, with pictures")
    click.echo("  make test        everything this package promises, as tests")
    click.echo("  omnigraph-spark info <root>   what is in a graph of your own")
