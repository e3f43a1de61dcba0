"""Procedures about branches and the session, and the list of all there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from omnigraph_spark.branches import Branch
from omnigraph_spark.merge.heads import Ends
from omnigraph_spark.merge.plan import Outcome
from omnigraph_spark.names import AnyRef, Ref, check_actor
from pyspark_omnigraph.identifiers import ref_of_version
from pyspark_omnigraph.procedure import FLAG, LONG, TEXT, Call, Parameter, Procedure, Row
from pyspark_omnigraph.transaction_procedures import TRANSACTION_PROCEDURES
from pyspark_omnigraph.upkeep_procedures import UPKEEP_PROCEDURES

_BRANCH = {"branch": TEXT, "commit_id": TEXT}
_ENDS = (
    Parameter("source", TEXT, "The branch whose changes are merged."),
    Parameter("target", TEXT, "The branch that takes them.", "'main'"),
)
_MOVED = {"inserted": LONG, "updated": LONG, "deleted": LONG}


def _create_branch(call: Call, branch: str, from_branch: str, if_not_exists: bool) -> Iterable[Row]:
    found = _branch(call, branch) if if_not_exists else None
    made = found or call.graph.create_branch(branch, _ref(call, from_branch))
    return [(made.name, made.head.id)]


def _delete_branch(call: Call, branch: str, if_exists: bool) -> Iterable[Row]:
    found = _branch(call, branch)
    if found is not None or not if_exists:
        call.graph.delete_branch(branch)
    return [(branch, None if found is None else found.head.id)]


def _preview_merge(call: Call, source: str, target: str) -> Iterator[Row]:
    plan = call.graph.preview_merge(source, into=target)
    conflicts = Counter(found.type_key for found in plan.conflicts)
    for key in sorted({*plan.counts, *conflicts}):
        moved = plan.counts.get(key)
        counts = (moved.inserted, moved.updated, moved.deleted) if moved else (0, 0, 0)
        yield str(plan.outcome), key, *counts, conflicts[key]
    unlisted = plan.conflict_count - conflicts.total()
    if unlisted or not (plan.counts or conflicts):
        # Only the first conflicts are looked up, so of the others no type is known.
        yield str(plan.outcome), None, 0, 0, 0, unlisted


def _merge_branch(call: Call, source: str, target: str, delete_source: bool) -> Iterable[Row]:
    heads = Ends.open(call.reader, source, target).read(call.reader)
    merged = call.graph.merge(source, into=target)
    moved: Counter[str] = Counter()
    if heads.outcome is not Outcome.UP_TO_DATE:
        old, new = Ref.commit(heads.target.commit.id), Ref.commit(merged.id)
        for counts in call.graph.diff(old, new).counts.values():
            moved.update(counts)
    if delete_source:
        call.graph.delete_branch(source)
    counted = moved["added"], moved["changed"], moved["removed"]
    return [(str(heads.outcome), merged.id, *counted)]


def _diff(call: Call, from_ref: str, to_ref: str) -> Iterator[Row]:
    found = call.graph.diff(_ref(call, from_ref), _ref(call, to_ref)).counts
    for key, counts in found.items():
        yield key, counts["added"], counts["removed"], counts["changed"]


def _set_actor(call: Call, actor: str | None) -> Iterable[Row]:
    call.session["actor"] = None if actor is None else check_actor(actor)
    return [(call.actor, actor)]


def _branch(call: Call, name: str) -> Branch | None:
    return next((branch for branch in call.graph.branches() if branch.name == name), None)


def _ref(call: Call, text: str) -> AnyRef:
    """Read what names a snapshot: a branch, or whatever ``VERSION AS OF`` takes."""
    return Ref.branch(text) if _branch(call, text) else ref_of_version(text, call.branch)


PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure
    for procedure in (
        Procedure(
            "create_branch",
            "Makes a branch that begins at another, or at a commit or version.",
            _create_branch,
            _BRANCH,
            (
                Parameter("branch", TEXT, "Its name."),
                Parameter("from_branch", TEXT, "Where it begins.", "'main'"),
                Parameter("if_not_exists", FLAG, "Whether one that is there is fine.", "false"),
            ),
        ),
        Procedure(
            "delete_branch",
            "Deletes a branch; commit_id is the head it had.",
            _delete_branch,
            _BRANCH,
            (
                Parameter("branch", TEXT, "Its name."),
                Parameter("if_exists", FLAG, "Whether a missing one is fine.", "false"),
            ),
        ),
        Procedure(
            "preview_merge",
            "Says what merging a branch would do, by type, and changes nothing.",
            _preview_merge,
            {"outcome": TEXT, "type_key": TEXT, **_MOVED, "conflicts": LONG},
            _ENDS,
        ),
        Procedure(
            "merge_branch",
            "Merges a branch into another, row by row, in one commit.",
            _merge_branch,
            {"outcome": TEXT, "commit_id": TEXT, **_MOVED},
            (*_ENDS, Parameter("delete_source", FLAG, "Whether it goes afterwards.", "false")),
        ),
        Procedure(
            "diff",
            "Counts the rows that differ between two snapshots, by type.",
            _diff,
            {"type_key": TEXT, "added": LONG, "removed": LONG, "changed": LONG},
            (
                Parameter("from_ref", TEXT, "A branch, commit id or version."),
                Parameter("to_ref", TEXT, "The same."),
            ),
        ),
        Procedure(
            "set_actor",
            "Says who writes from now on in this session; NULL takes it back.",
            _set_actor,
            {"previous_actor": TEXT, "actor": TEXT},
            (Parameter("actor", TEXT, "The name that commits record."),),
        ),
        *TRANSACTION_PROCEDURES,
        *UPKEEP_PROCEDURES,
    )
}


def procedures_table() -> str:
    """Print the README table of all procedures."""
    lines = ["| procedure | returns | does |", "|---|---|---|"]
    lines += [
        f"| `{p.signature()}` | {', '.join(p.result)} | {p.about} |" for p in PROCEDURES.values()
    ]
    return "\n".join(lines)
