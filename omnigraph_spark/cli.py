"""The command line, `omnigraph-spark`: thin; every command is one call of the library.

Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from omnigraph_spark.errors import OmnigraphError
from omnigraph_spark.graph import open as open_graph
from omnigraph_spark.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="omnigraph-spark")
def cli() -> None:
    """Read OmniGraph graphs with Apache Spark."""


@cli.command()
def demo() -> None:
    """Read a small graph with local Spark and show what that looks like."""
    from omnigraph_spark.demo import run_demo

    run_demo()


@cli.command()
@click.argument("root")
@click.option("--branch", default="main", show_default=True, help="The branch to look at.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(root: str, branch: str, as_json: bool) -> None:
    """Say what is in the graph at ROOT: types, rows, branches, newest commit."""
    graph = open_graph(root, branch=branch, mode="r")
    snapshot = graph.snapshot()
    branches = [known.name for known in graph.branches()]
    about = {
        "root": graph.root,
        "branch": graph.branch,
        "manifest_version": snapshot.manifest_version,
        "commit": snapshot.commit.id,
        "created_at": snapshot.commit.created_at.isoformat(),
        "branches": branches,
        "types": {key: entry.rows for key, entry in snapshot.entries.items()},
    }
    if as_json:
        click.echo(json.dumps(about, indent=2, ensure_ascii=False))
        return
    click.echo(f"{about['root']}  branch {branch}, manifest version {about['manifest_version']}")
    click.echo(f"newest commit {about['commit']}, {about['created_at']}")
    click.echo(f"branches: {', '.join(branches)}")
    for key, entry in snapshot.entries.items():
        click.echo(f"  {key:<32} {entry.rows:>14,}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors of ours are one line, not a traceback."""
    try:
        cli.main(arguments, prog_name="omnigraph-spark", standalone_mode=True)
    except OmnigraphError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
