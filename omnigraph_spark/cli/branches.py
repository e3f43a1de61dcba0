"""Commands about branches."""

from __future__ import annotations

import click

from omnigraph_spark.cli.shared import cli, json_option, show, table
from omnigraph_spark.graph import open as open_graph


@cli.group()
def branch() -> None:
    """List, create and delete branches."""


@branch.command("list")
@click.argument("root")
@json_option
def list_branches(root: str, as_json: bool) -> None:
    """List the branches of the graph at ROOT."""
    found = open_graph(root, mode="r").branches()
    about = [{"name": b.name, "head": b.head.id, "parent": b.parent} for b in found]
    rows = [
        (b.name, b.parent, b.head.id, f"{b.created_at:%Y-%m-%d %H:%M:%S}", len(b.forked_types))
        for b in found
    ]
    header = ("branch", "from", "=head", "=made (UTC)", "#own types")
    show(about, as_json, (known.name for known in found), lambda: [table(None, header, rows)])


@branch.command("create")
@click.argument("root")
@click.argument("name")
@click.option("--from", "origin", default="main", show_default=True, help="Where it begins.")
@json_option
def create_branch(root: str, name: str, origin: str, as_json: bool) -> None:
    """Create branch NAME of the graph at ROOT."""
    made = open_graph(root).create_branch(name, from_=origin)
    about = {"name": made.name, "head": made.head.id, "parent": made.parent}
    show(about, as_json, [f"created branch {made.name} from {origin}"])


@branch.command("delete")
@click.argument("root")
@click.argument("name")
@json_option
def delete_branch(root: str, name: str, as_json: bool) -> None:
    """Delete branch NAME of the graph at ROOT."""
    open_graph(root).delete_branch(name)
    show({"name": name}, as_json, [f"deleted branch {name}"])
