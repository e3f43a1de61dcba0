"""Commands that look after a graph."""

from __future__ import annotations

import click

from omnigraph_spark.cli.shared import (
    branch_option,
    cli,
    described,
    json_option,
    show,
    table,
    working,
)
from omnigraph_spark.graph import open as open_graph
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.recovery.repair import Drift
from omnigraph_spark.recovery.sweep import recover as recover_graph
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import canonical_root


@cli.command()
@click.argument("root")
@branch_option("The branch to look at.")
@json_option
def health(root: str, branch: str, as_json: bool) -> None:
    """Say what is wrong with the graph at ROOT, and what to do.

    Changes nothing.
    """
    found = open_graph(root, branch=branch, mode="r").health()
    lines = [f"{finding.kind}: {finding.detail}; {finding.remedy}" for finding in found]
    about = [
        {"kind": f.kind, "type_key": f.type_key, "detail": f.detail, "remedy": f.remedy}
        for f in found
    ]
    rows = [(f.kind, f.type_key, f.detail, f.remedy) for f in found]
    header = ("finding", "type", "detail", "remedy")
    tables = (lambda: [table(None, header, rows)]) if found else None
    show(about, as_json, lines or ["nothing is wrong"], tables)


@cli.command()
@click.argument("root")
@click.option(
    "--force",
    is_flag=True,
    help="Undo, too, what others committed on top of an unfinished write, and do not wait.",
)
@json_option
def recover(root: str, force: bool, as_json: bool) -> None:
    """Finish or undo interrupted writes of the graph at ROOT."""
    manifest = Manifest(canonical_root(root), StorageSettings.resolve())
    done = recover_graph(manifest, force=force)
    about = [
        {
            "operation_id": each.operation_id,
            "kind": str(each.kind),
            "types": [outcome.type_key for outcome in each.tables],
            "commit": described(each.commit),
        }
        for each in done
    ]
    rows = [(r.operation_id, r.kind, ", ".join(t.type_key for t in r.tables)) for r in done]
    lines = [f"{kind}: {operation_id}  {types}".rstrip() for operation_id, kind, types in rows]
    header = ("=unfinished write", "done", "types")
    tables = (lambda: [table(None, header, rows)]) if rows else None
    show(about, as_json, lines or ["nothing was unfinished"], tables)


@cli.command()
@click.argument("root")
@branch_option("The branch to look at.")
@click.option("--confirm", is_flag=True, help="Publish what only compacted files.")
@click.option("--force", is_flag=True, help="Publish everything, unchecked.")
@json_option
def repair(root: str, branch: str, confirm: bool, force: bool, as_json: bool) -> None:
    """Find what was written past the graph at ROOT.

    Says which types; --confirm or --force publishes it.
    """
    graph = open_graph(root, branch=branch, mode="rw" if confirm or force else "r")
    found = graph.repair(confirm=confirm, force=force)
    header = ("type", "#pinned", "#written", "what", "done")
    rows = [
        (r.type_key, r.pinned_version, r.head_version, r.classification.value, r.action.value)
        for r in found
        if r.classification is not Drift.NONE
    ]
    lines = ["\t".join(map(str, row)) for row in rows] or ["nothing was written past the graph"]
    tables = (lambda: [table(None, header, rows)]) if rows else None
    show([vars(each) for each in found], as_json, lines, tables)


@cli.command()
@click.argument("root")
@branch_option("The branch whose types are optimized.")
@json_option
def optimize(root: str, branch: str, as_json: bool) -> None:
    """Put small files of the graph at ROOT together.

    Its indexes are brought up to date, too.
    """
    graph = open_graph(root, branch=branch)
    with working("optimizing", len(graph.entries), "types") as step:
        done = graph.optimize(lambda each: step(each.type_key))
    about = [
        {
            "type_key": each.type_key,
            "fragments_removed": each.fragments_removed,
            "fragments_added": each.fragments_added,
            "indexes": [f"{index.column}: {index.action}" for index in each.indexes],
            "commits": [commit.id for commit in each.commits],
            "skipped": each.skipped,
        }
        for each in done
    ]
    header = ("type", "#files before", "#files after", "#indexes", "skipped")
    rows = [
        (
            each.type_key,
            each.fragments_removed,
            each.fragments_added,
            len(each.indexes),
            each.skipped,
        )
        for each in done
    ]
    lines = ("\t".join("" if cell is None else str(cell) for cell in row) for row in rows)
    show(about, as_json, lines, lambda: [table(None, header, rows)])
