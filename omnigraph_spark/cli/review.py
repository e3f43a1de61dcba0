"""Commands that compare and merge: what differs, what commits changed, bringing it together."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from omnigraph_spark.cli.shared import (
    actor_option,
    branch_option,
    cli,
    described,
    json_option,
    show,
    table,
    told,
)
from omnigraph_spark.comparing.summary import DiffSummary
from omnigraph_spark.display import counted
from omnigraph_spark.errors import Conflict, MergeConflictsError
from omnigraph_spark.errors.merging import ROW_KINDS
from omnigraph_spark.graph import open as open_graph
from omnigraph_spark.merge.decisions import Side
from omnigraph_spark.merge.plan import Outcome
from omnigraph_spark.merge.preview import MergePlan, conflict_dict, side_by_side
from omnigraph_spark.names import AnyRef, Ref

if TYPE_CHECKING:
    from rich.table import Table

_MERGED = ("type", "#inserted", "#updated", "#deleted")


@cli.command()
@click.argument("root")
@click.argument("before")
@click.argument("after")
@click.option("--type", "type_", help="Only this type.")
@click.option("--rows", is_flag=True, help="Print every row that differs, as a line of JSON.")
@json_option
def diff(root: str, before: str, after: str, type_: str | None, rows: bool, as_json: bool) -> None:
    """Say what differs between BEFORE and AFTER in the graph at ROOT.

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
    lines = repr(summary).splitlines()
    show(summary.counts, as_json, lines, (lambda: _diff_tables(summary)) if summary.types else None)


def _diff_tables(summary: DiffSummary) -> list[Table | str]:
    counts = [(each.type_key, each.added, each.removed, each.changed) for each in summary.types]
    return [summary.title, "", _numbers(("type", "#added", "#removed", "#changed"), counts)]


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
    """Print what commits of the graph at ROOT did to a type.

    A line for each row: with --json an object; else what happened, the id and the commit.
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
    """Merge branch SOURCE of the graph at ROOT into another.

    In one commit. Conflicts are printed, nothing is published, and the exit code is 3.
    """
    graph = open_graph(root)
    if dry_run:
        plan = graph.preview_merge(source, into=into, resolve=resolve)
        show(plan.to_dict(), as_json, _plan_lines(plan), lambda: _plan_tables(plan))
        context.exit(0 if plan.can_merge else 3)
    try:
        commit = graph.merge(source, into=into, actor=actor, resolve=resolve)
    except MergeConflictsError as error:
        if as_json:
            conflicts = [conflict_dict(found) for found in error.conflicts]
            show({"commit": None, "conflicts": conflicts, "conflict_count": error.count}, True, ())
        elif sys.stdout.isatty():
            head = f"[{error.code}] {source} cannot be merged into {into}; nothing was published"
            found = _in_the_way(error.conflicts, error.count, into, source)
            show((), False, (), lambda: [head, *found])
        else:
            raise
        context.exit(3)
    changes = {key: vars(change) for key, change in commit.changes.items()}
    about = {"commit": described(commit), "changes": changes}
    rows = [(key, c.inserted, c.updated, c.deleted) for key, c in commit.changes.items()]
    head = f"merged {source} into {into}: {told(commit)}"
    show(about, as_json, [repr(commit)], lambda: [head, "", _numbers(_MERGED, rows)])


def _plan_tables(plan: MergePlan) -> Iterator[Table | str]:
    words = {
        Outcome.FAST_FORWARD: "only one of them changed",
        Outcome.THREE_WAY: "both changed",
        Outcome.UP_TO_DATE: "nothing is new",
    }
    yield f"merging {plan.source} into {plan.into}: {words[plan.outcome]}"
    if plan.counts:
        rows = [(key, c.inserted, c.updated, c.deleted) for key, c in plan.counts.items()]
        yield from ("", _numbers(_MERGED, rows))
    if plan.conflicts:
        yield from _in_the_way(plan.conflicts, plan.conflict_count, plan.into, plan.source)


def _numbers(header: Sequence[str], rows: Iterable[tuple[str, int, int, int]]) -> Table:
    return table(None, header, [(key, *(f"{n:,}" for n in counts)) for key, *counts in rows])


def _in_the_way(found: Sequence[Conflict], count: int, into: str, source: str) -> list[Table | str]:
    """Lay conflicts about rows out side by side, in the columns that differ; tell the others."""
    rows = [
        (each.type_key, each.id, each.kind, *side_by_side(each.base, each.ours, each.theirs))
        for each in found
        if each.kind in ROW_KINDS
    ]
    header = ("type", "id", "=kind", "base", f"ours ({into})", f"theirs ({source})")
    shown: list[Table | str] = ["", counted(count, "conflict")]
    if rows:
        decide = "--resolve ours or --resolve theirs decides rows that both changed"
        shown += ["", table(None, header, rows), "", decide]
    return shown + [str(each) for each in found if each.kind not in ROW_KINDS]


def _plan_lines(plan: MergePlan) -> Iterator[str]:
    yield repr(plan)
    for key, counts in plan.counts.items():
        made = f"{counts.inserted:,} inserted, {counts.updated:,} updated"
        yield f"  {key:<32} {made}, {counts.deleted:,} deleted"
    yield from (f"  {conflict}" for conflict in plan.conflicts)


def _name(text: str) -> str | AnyRef:
    # A number is a version of main, even where a branch has such a name.
    return Ref.version(int(text)) if text.isdecimal() else text
