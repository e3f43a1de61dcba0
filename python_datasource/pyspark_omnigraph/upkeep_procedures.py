"""Procedures that look after a graph: compaction, indexes, recovery, repair."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_spark.tables import metadata_table
from pyspark_omnigraph.procedure import FLAG, LONG, TEXT, Call, Parameter, Procedure, Row

_MENDED = {
    "operation_id": TEXT,
    "type_key": TEXT,
    "decision": TEXT,
    "from_version": LONG,
    "to_version": LONG,
    "commit_id": TEXT,
}


def _optimize(call: Call) -> Iterator[Row]:
    before = _entries(call)
    done = call.graph.optimize()
    after = _entries(call)
    for each in done:
        commit = each.commits[-1].id if each.commits else None
        # The manifest is no type of a snapshot.
        manifest = each.fragments_added, None
        old, _ = before.get(each.type_key, (each.fragments_removed, None))
        yield each.type_key, old, *after.get(each.type_key, manifest), commit, each.skipped


def _entries(call: Call) -> dict[str, tuple[int, int]]:
    """Return fragments and dataset version of every type, as they are now."""
    found = metadata_table("entries").read(call.head()).to_pylist()
    return {row["type_key"]: (row["fragments"], row["dataset_version"]) for row in found}


def _build_indexes(call: Call) -> Iterator[Row]:
    for each in call.graph.build_indexes():
        kind, action = str(each.kind), str(each.action)
        commit = None if each.commit is None else each.commit.id
        yield each.type_key, each.column, kind, action, each.fragments, commit, each.skipped


def _recover(call: Call, dry_run: bool) -> Iterator[Row]:
    if dry_run:
        found = metadata_table("sidecars").read(call.head()).to_pylist()
        for row in found:
            for key in row["types"] or [None]:
                yield row["operation_id"], key, row["decision"], None, None, None
        return
    for done in call.graph.recover():
        facts = done.operation_id, str(done.kind), done.commit.id
        for table in done.tables:
            yield _recovered(*facts, table.type_key, table.from_version, table.to_version)
        if not done.tables:
            yield _recovered(*facts, None, None, None)


def _recovered(
    operation: str, kind: str, commit: str, key: str | None, old: int | None, new: int | None
) -> Row:
    return operation, key, kind, old, new, commit


def _repair(call: Call, dry_run: bool, force: bool) -> Iterator[Row]:
    found = call.graph.repair() if dry_run else call.graph.repair(confirm=True, force=force)
    for each in found:
        commit = None if each.commit is None else each.commit.id
        versions = each.pinned_version, each.head_version
        yield None, each.type_key, f"{each.classification}: {each.action}", *versions, commit


UPKEEP_PROCEDURES = (
    Procedure(
        "optimize",
        "Puts small files of the branch together and brings its indexes up to date.",
        _optimize,
        {
            "type_key": TEXT,
            "fragments_before": LONG,
            "fragments_after": LONG,
            "dataset_version": LONG,
            "commit_id": TEXT,
            "skipped": TEXT,
        },
    ),
    Procedure(
        "build_indexes",
        "Builds the declared indexes that are missing or do not cover all rows.",
        _build_indexes,
        {
            "type_key": TEXT,
            "column": TEXT,
            "kind": TEXT,
            "action": TEXT,
            "fragments": LONG,
            "commit_id": TEXT,
            "skipped": TEXT,
        },
    ),
    Procedure(
        "recover",
        "Finishes or undoes interrupted writes of the whole graph.",
        _recover,
        _MENDED,
        (Parameter("dry_run", FLAG, "Whether only to say what would be done.", "false"),),
    ),
    Procedure(
        "repair",
        "Publishes versions of datasets that were written outside of the graph.",
        _repair,
        _MENDED,
        (
            Parameter("dry_run", FLAG, "Whether only to say what would be done.", "true"),
            Parameter("force", FLAG, "Whether to publish them unchecked.", "false"),
        ),
    ),
)
