"""Commands that compare and merge: what differs, what commits changed, bringing it together."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from omnigraph_spark.cli.shared import (
    actor_option,
    branch_option,
    cli,
    described,
    json_option,
    show,
)
from omnigraph_spark.errors import MergeConflictsError
from omnigraph_spark.graph import open as open_graph
from omnigraph_spark.merge.decisions import Side
from omnigraph_spark.merge.preview import MergePlan, conflict_dict
from omnigraph_spark.names import AnyRef, Ref


@cli.command()
@click.argument("root")
@click.argument("before")
@click.argument("after")
@click.option("--type", "type_", help="Only this type.")
@click.option("--rows", is_flag=True, help="Print every row that differs, as a line of JSON.")
@json_option
def diff(root: str, before: str, after: str, type_: str | None, rows: bool, as_json: bool) -> None:
    """Say what differs in the graph at ROOT between BEFORE and AFTER.

    Each is a branch, a commit id or a manifest version.
    """
    graph = open_graph(root, mode="r")
    found = graph.diff(_name(before), _name(after), type=type_)
    if rows:
        for batch in found.json_batches():
            for row in batch.to_pylist():
                sides = {side: json.loads(row[side] or "null") for side in ("before", "after")}
                click.echo(json.dumps({**row, **sides}, ensure_ascii=False))
        return
    summary = found.summary(samples=0)
    show(summary.counts, as_json, repr(summary).splitlines())


@cli.command()
@click.argument("root")
@click.option("--type", "type_", required=True, help="The type whose changes are read.")
@click.option("--since", help="A commit id or manifest version: changes after it.")
@click.option("--until", help="A commit id or manifest version, included; the head by default.")
@click.option("--net", is_flag=True, help="Only what all changes come to.")
@branch_option("The branch whose commits are read.")
@json_option
def changes(
    root: str,
    type_: str,
    since: str | None,
    until: str | None,
    net: bool,
    branch: str,
    as_json: bool,
) -> None:
    """Print what the commits of a branch of the graph at ROOT did to a type: a line for each row.

    With --json each line is an object; else what happened, the id and the commit.
    """
    graph = open_graph(root, branch=branch, mode="r")
    feed = graph.changes(_commit(since), _commit(until), type=type_, net=net)
    for batch in feed.batches():
        for row in batch.to_pylist():
            if as_json:
                click.echo(json.dumps(row, ensure_ascii=False, default=str))
            else:
                click.echo(f"{row['_change_type']:<16} {row['id']}  {row['_commit_id']}")


def _commit(text: str | None) -> str | int | None:
    return int(text) if text is not None and text.isdecimal() else text


@cli.command()
@click.argument("root")
@click.argument("source")
@click.option("--into", default="main", show_default=True, help="The branch that takes the rows.")
@click.option(
    "--resolve",
    type=click.Choice([side.value for side in Side]),
    help="Who wins rows that both branches changed: --into (ours) or SOURCE (theirs).",
)
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@actor_option
@json_option
@click.pass_context
def merge(
    context: click.Context,
    root: str,
    source: str,
    into: str,
    resolve: str | None,
    dry_run: bool,
    actor: str | None,
    as_json: bool,
) -> None:
    """Merge branch SOURCE of the graph at ROOT into another, in one commit.

    Conflicts are printed, nothing is published, and the exit code is 3.
    """
    graph = open_graph(root)
    if dry_run:
        plan = graph.preview_merge(source, into=into, resolve=resolve)
        show(plan.to_dict(), as_json, _plan_lines(plan))
        context.exit(0 if plan.can_merge else 3)
    try:
        commit = graph.merge(source, into=into, actor=actor, resolve=resolve)
    except MergeConflictsError as error:
        if not as_json:
            raise
        conflicts = [conflict_dict(found) for found in error.conflicts]
        show({"commit": None, "conflicts": conflicts, "conflict_count": error.count}, True, ())
        context.exit(3)
    changes = {key: vars(change) for key, change in commit.changes.items()}
    show({"commit": described(commit), "changes": changes}, as_json, [repr(commit)])


def _plan_lines(plan: MergePlan) -> Iterator[str]:
    yield repr(plan)
    for key, counts in plan.counts.items():
        made = f"{counts.inserted:,} inserted, {counts.updated:,} updated"
        yield f"  {key:<32} {made}, {counts.deleted:,} deleted"
    yield from (f"  {conflict}" for conflict in plan.conflicts)


def _name(text: str) -> str | AnyRef:
    # A number is a version of main, even where a branch has such a name.
    return Ref.version(int(text)) if text.isdecimal() else text
