"""Commands that make graphs, say what is in them, and move rows in and out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph_spark.cli.shared import (
    actor_option,
    branch_option,
    cli,
    described,
    json_option,
    show,
    sized,
    table,
    told,
    working,
)
from omnigraph_spark.display import counted
from omnigraph_spark.graph import create as create_graph
from omnigraph_spark.graph import open as open_graph
from omnigraph_spark.jsonl.sources import Watched, total_bytes
from omnigraph_spark.tables import metadata_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOAD_MODES = ("append", "merge", "overwrite")
_EXPORT_FORMATS = ("jsonl", "delta", "parquet")


@cli.command()
@json_option
def demo(as_json: bool) -> None:
    """Show a graph in local Spark: write, SQL, branch, merge, recover.

    With --json the steps are objects: what is shown, the call, and what it printed.
    """
    from omnigraph_spark.demo import run_demo, steps_of_demo

    if as_json:
        show(steps_of_demo(), True, ())
    else:
        run_demo()


@cli.command()
@click.argument("root")
@click.option(
    "--schema",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file in the schema language.",
)
@json_option
def init(root: str, schema: Path, as_json: bool) -> None:
    """Create an empty graph at ROOT."""
    graph = create_graph(root, schema)
    about = {"root": graph.root, "types": list(graph.entries)}
    show(about, as_json, [f"created {graph.root} with {len(graph.entries)} types"])


@cli.command()
@click.argument("root")
@branch_option("The branch to look at.")
@json_option
def info(root: str, branch: str, as_json: bool) -> None:
    """Say what is in the graph at ROOT.

    Its types with rows and size, its branches, the newest commit, and its health.
    """
    graph = open_graph(root, branch=branch, mode="r")
    snapshot = graph.snapshot()
    branches = [known.name for known in graph.branches()]
    sizes = {key: size for key, *_, size, _ in metadata_table("entries").rows(graph._state)}
    health = [f"{finding.kind}: {finding.detail}" for finding in graph.health()]
    about = {
        "root": graph.root,
        "branch": graph.branch,
        "manifest_version": snapshot.manifest_version,
        "commit": snapshot.commit.id,
        "created_at": snapshot.commit.created_at.isoformat(),
        "branches": branches,
        "types": {key: entry.rows for key, entry in snapshot.entries.items()},
        "size_bytes": sum(sizes.values()),
        "health": health,
    }
    found = f"{counted(len(health), 'finding')}, see omnigraph-spark health"
    head = [
        f"{graph.root}  branch {branch}, manifest version {snapshot.manifest_version}",
        f"newest commit {told(snapshot.commit)}",
        f"branches: {', '.join(branches)}",
        f"size: {sized(sum(sizes.values()))}; health: {found if health else 'nothing is wrong'}",
    ]
    rows = [(key, f"{e.rows:,}", sized(sizes[key])) for key, e in snapshot.entries.items()]
    lines = [*head, *(f"  {key:<32} {count:>14} {size:>12}" for key, count, size in rows)]
    show(about, as_json, lines, lambda: [*head, "", table(None, ("type", "#rows", "#size"), rows)])


@cli.command()
@click.argument("root")
@branch_option("The branch to look at.")
@json_option
def snapshot(root: str, branch: str, as_json: bool) -> None:
    """Say which version each type of the graph at ROOT is read at."""
    pinned = open_graph(root, branch=branch, mode="r").snapshot()
    about = {
        "branch": pinned.branch,
        "manifest_version": pinned.manifest_version,
        "commit": described(pinned.commit),
        "entries": {
            key: {
                "path": entry.path,
                "dataset_branch": entry.dataset_branch,
                "dataset_version": entry.dataset_version,
                "rows": entry.rows,
            }
            for key, entry in pinned.entries.items()
        },
    }
    rows = [
        (key, entry.dataset_version, entry.dataset_branch or "main", f"{entry.rows:,}", entry.path)
        for key, entry in pinned.entries.items()
    ]
    header = ("type", "#version", "branch", "#rows", "=path")
    show(
        about, as_json, ("\t".join(map(str, r)) for r in rows), lambda: [table(None, header, rows)]
    )


@cli.command()
@click.argument("root")
@branch_option("The branch whose commits are listed.")
@click.option("--limit", type=click.IntRange(min=0), help="How many, newest first; all by default.")
@json_option
def commits(root: str, branch: str, limit: int | None, as_json: bool) -> None:
    """List the commits of a branch of the graph at ROOT."""
    found = open_graph(root, branch=branch, mode="r").history(limit)
    rows = [
        (
            c.manifest_version,
            c.id,
            c.actor,
            c.merged_parent_id and f"…{c.merged_parent_id[-8:]}",
            f"{c.created_at:%Y-%m-%d %H:%M:%S}",
        )
        for c in found
    ]
    header = ("#version", "=commit", "actor", "=merged", "=made (UTC)")
    about = [described(commit) for commit in found]
    show(about, as_json, map(repr, found), lambda: [table(None, header, rows)])


@cli.command()
@click.argument("root")
@click.argument("records", type=click.Path(exists=True))
@click.option("--mode", type=click.Choice(_LOAD_MODES), required=True, help="How ids meet.")
@branch_option("The branch to write to.")
@click.option("--from", "create_from", help="What to fork the branch from when it is missing.")
@actor_option
@json_option
def load(
    root: str,
    records: str,
    mode: str,
    branch: str,
    create_from: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Load RECORDS into the graph at ROOT, in one commit.

    They are JSON lines of the interchange format.
    """
    graph = open_graph(root)
    with working("loading", total_bytes(records), "bytes") as step:
        source = Watched(records, lambda read: step(amount=read))
        terms = {"branch": branch, "create_from": create_from, "actor": actor}
        commit = graph.load_jsonl(source, mode, **terms)
    if commit is None:
        show({"commit": None}, as_json, ["nothing to load"])
        return
    changes = {key: vars(change) for key, change in commit.changes.items()}
    lines = [repr(commit)]
    for key, change in commit.changes.items():
        counts = f"{change.inserted:,} inserted, {change.updated:,} updated"
        lines.append(f"  {key:<32} {counts}, {change.deleted:,} deleted")
    show({**described(commit), "changes": changes}, as_json, lines)


@cli.command()
@click.argument("root")
@click.argument("path", type=click.Path())
@branch_option("The branch to export.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(_EXPORT_FORMATS),
    default="jsonl",
    show_default=True,
    help="JSON lines, or a table for each type; tables are written by local Spark.",
)
@json_option
def export(root: str, path: str, branch: str, format_: str, as_json: bool) -> None:
    """Write the graph at ROOT to PATH, as JSON lines or as tables.

    JSON lines go to a file or a folder. Delta tables that are there already get only the rows that
    changed; a Parquet table of a type that changed is written anew.
    """
    if format_ == "jsonl":
        graph = open_graph(root, branch=branch, mode="r")
        total = sum(entry.rows for entry in graph.entries.values())
        with working("exporting", total, "rows") as step:
            rows = graph.export_jsonl(path, on_rows=step)
        lines = (f"  {key:<32} {count:>14,}" for key, count in rows.items())
        counted = [(key, f"{count:,}") for key, count in rows.items()]
        show(rows, as_json, lines, lambda: [table(None, ("type", "#rows"), counted)])
        return
    with export_session(format_ == "delta") as spark:
        graph = open_graph(root, branch=branch, mode="r", spark=spark)
        with working("exporting", len(graph.entries), "types") as step:
            tables = graph.export(format_, path, lambda each: step(each.type_key))
    done_ = [(t.type_key, str(t.step), f"{t.rows:,}", t.path) for t in tables]
    about = [{**vars(t), "step": str(t.step)} for t in tables]
    header = ("type", "done", "#rows", "path")
    show(about, as_json, ("\t".join(row) for row in done_), lambda: [table(None, header, done_)])


@contextmanager
def export_session(delta: bool) -> Iterator[SparkSession]:
    """Start local Spark for an export, and end it."""
    from omnigraph_spark.session.local import local_session

    spark = local_session("omnigraph-spark export", delta=delta)
    try:
        yield spark
    finally:
        spark.stop()
