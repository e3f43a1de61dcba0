"""The command line, `omnigraph-spark`: thin; every command is one call of the library.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 conflict, 4 recovery needed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from omnigraph_spark.errors import ConflictError, OmnigraphError, RecoveryRequiredError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.graph import create as create_graph
from omnigraph_spark.graph import open as open_graph
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.recovery.sweep import recover as recover_graph
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import canonical_root
from omnigraph_spark.version import __version__

_LOAD_MODES = ("append", "merge", "overwrite")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_actor = click.option("--actor", help="Who writes; $OMNIGRAPH_ACTOR or the user by default.")


def _branch(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option("--branch", default="main", show_default=True, help=what)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="omnigraph-spark")
def cli() -> None:
    """OmniGraph graphs with Apache Spark."""


@cli.command()
def demo() -> None:
    """Read a small graph with local Spark and show what that looks like."""
    from omnigraph_spark.demo import run_demo

    run_demo()


@cli.command()
@click.argument("root")
@click.option(
    "--schema",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file in the schema language.",
)
@_json
def init(root: str, schema: Path, as_json: bool) -> None:
    """Create an empty graph at ROOT."""
    graph = create_graph(root, schema)
    about = {"root": graph.root, "types": list(graph.entries)}
    _print(about, as_json, [f"created {graph.root} with {len(graph.entries)} types"])


@cli.command()
@click.argument("root")
@_branch("The branch to look at.")
@_json
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
    lines = [
        f"{about['root']}  branch {branch}, manifest version {about['manifest_version']}",
        f"newest commit {about['commit']}, {about['created_at']}",
        f"branches: {', '.join(branches)}",
        *(f"  {key:<32} {entry.rows:>14,}" for key, entry in snapshot.entries.items()),
    ]
    _print(about, as_json, lines)


@cli.command()
@click.argument("root")
@_branch("The branch whose commits are listed.")
@click.option("--limit", type=click.IntRange(min=0), help="How many, newest first; all by default.")
@_json
def commits(root: str, branch: str, limit: int | None, as_json: bool) -> None:
    """List the commits of a branch of the graph at ROOT, newest first."""
    found = open_graph(root, branch=branch, mode="r").history(limit)
    _print([_described(commit) for commit in found], as_json, map(repr, found))


@cli.command()
@click.argument("root")
@click.argument("records", type=click.Path(exists=True))
@click.option("--mode", type=click.Choice(_LOAD_MODES), required=True, help="How ids meet.")
@_branch("The branch to write to.")
@click.option("--from", "create_from", help="What to fork the branch from when it is missing.")
@_actor
@_json
def load(
    root: str,
    records: str,
    mode: str,
    branch: str,
    create_from: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Load RECORDS (JSON lines of the interchange format) into the graph at ROOT, in one commit."""
    graph = open_graph(root)
    commit = graph.load_jsonl(records, mode, branch=branch, create_from=create_from, actor=actor)
    if commit is None:
        _print({"commit": None}, as_json, ["nothing to load"])
        return
    changes = {key: vars(change) for key, change in commit.changes.items()}
    lines = [repr(commit)]
    for key, change in commit.changes.items():
        counts = f"{change.inserted:,} inserted, {change.updated:,} updated"
        lines.append(f"  {key:<32} {counts}, {change.deleted:,} deleted")
    _print({**_described(commit), "changes": changes}, as_json, lines)


@cli.command()
@click.argument("root")
@click.argument("path", type=click.Path())
@_branch("The branch to export.")
@_json
def export(root: str, path: str, branch: str, as_json: bool) -> None:
    """Write the graph at ROOT as JSON lines to PATH: a file, or a folder for one file per type."""
    rows = open_graph(root, branch=branch, mode="r").export_jsonl(path)
    _print(rows, as_json, (f"  {key:<32} {count:>14,}" for key, count in rows.items()))


@cli.group()
def branch() -> None:
    """List, create and delete branches."""


@branch.command("list")
@click.argument("root")
@_json
def list_branches(root: str, as_json: bool) -> None:
    """List the branches of the graph at ROOT."""
    found = open_graph(root, mode="r").branches()
    about = [{"name": b.name, "head": b.head.id, "parent": b.parent} for b in found]
    _print(about, as_json, (known.name for known in found))


@branch.command("create")
@click.argument("root")
@click.argument("name")
@click.option("--from", "origin", default="main", show_default=True, help="Where it begins.")
@_json
def create_branch(root: str, name: str, origin: str, as_json: bool) -> None:
    """Create branch NAME of the graph at ROOT."""
    made = open_graph(root).create_branch(name, from_=origin)
    about = {"name": made.name, "head": made.head.id, "parent": made.parent}
    _print(about, as_json, [f"created branch {made.name} from {origin}"])


@branch.command("delete")
@click.argument("root")
@click.argument("name")
@_json
def delete_branch(root: str, name: str, as_json: bool) -> None:
    """Delete branch NAME of the graph at ROOT."""
    open_graph(root).delete_branch(name)
    _print({"name": name}, as_json, [f"deleted branch {name}"])


@cli.command()
@click.argument("root")
@_branch("The branch to look at.")
@_json
def health(root: str, branch: str, as_json: bool) -> None:
    """Say what is wrong with the graph at ROOT, and what to do about it; changes nothing."""
    found = open_graph(root, branch=branch, mode="r").health()
    lines = [f"{finding.kind}: {finding.detail}; {finding.remedy}" for finding in found]
    about = [
        {"kind": f.kind, "type_key": f.type_key, "detail": f.detail, "remedy": f.remedy}
        for f in found
    ]
    _print(about, as_json, lines or ["nothing is wrong"])


@cli.command()
@click.argument("root")
@_json
def recover(root: str, as_json: bool) -> None:
    """Finish or undo interrupted writes of the graph at ROOT."""
    done = recover_graph(Manifest(canonical_root(root), StorageSettings.resolve()))
    about = [{"operation_id": each.operation_id, "kind": str(each.kind)} for each in done]
    lines = [f"{each['kind']}: {each['operation_id']}" for each in about]
    _print(about, as_json, lines or ["nothing was unfinished"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors of ours are one line, not a traceback."""
    try:
        cli.main(arguments, prog_name="omnigraph-spark", standalone_mode=True)
    except OmnigraphError as error:
        click.echo(str(error), err=True)
        sys.exit(_exit_code(error))


def _exit_code(error: OmnigraphError) -> int:
    if isinstance(error, ConflictError):
        return 3
    return 4 if isinstance(error, RecoveryRequiredError) else 1


def _described(commit: Commit) -> dict[str, Any]:
    return {
        "id": commit.id,
        "branch": commit.branch,
        "manifest_version": commit.manifest_version,
        "parent_id": commit.parent_id,
        "merged_parent_id": commit.merged_parent_id,
        "actor": commit.actor,
        "created_at": commit.created_at.isoformat(),
    }


def _print(about: Mapping[str, Any] | Sequence[Any], as_json: bool, lines: Iterable[str]) -> None:
    if as_json:
        click.echo(json.dumps(about, indent=2, ensure_ascii=False, default=str))
        return
    for line in lines:
        click.echo(line)
