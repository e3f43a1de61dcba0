"""One merge, from two heads to its commit: find rows, stage them, check the result, land it.

A merge is decided on two commits. When the target moves on before the merge lands, it fails before
any effect: what is merged has to be decided again. When the source moves on, the commit that was
planned on is what is merged. A branch that was deleted and made again is another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from omnigraph_spark.errors import Conflict, MergeConflictsError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.merge.compared import Compared
from omnigraph_spark.merge.conflicts import LISTED, row_conflicts, rule_conflicts
from omnigraph_spark.merge.copying import take_rows
from omnigraph_spark.merge.decisions import Decisions
from omnigraph_spark.merge.heads import Ends, Heads, Sides
from omnigraph_spark.merge.landing import discard_staged, land_merge
from omnigraph_spark.merge.orphans import find_orphans
from omnigraph_spark.merge.plan import Outcome, Step
from omnigraph_spark.merge.rows import TypeRows, find_rows
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.writing.inspect import inspect
from omnigraph_spark.writing.pending import Pending
from omnigraph_spark.writing.repacking import repack
from omnigraph_spark.writing.stage import StageLimits
from omnigraph_spark.writing.violations import Violation
from omnigraph_spark.writing.violations import merge as merge_violations
from omnigraph_spark.writing.workspace import Workspace


@dataclass(frozen=True)
class Found:
    """What is in the way of a merge: the first conflicts, and how many there are."""

    conflicts: tuple[Conflict, ...] = ()
    count: int = 0

    def refuse(self, heads: Heads) -> None:
        """Raise the conflicts, if there is any."""
        if self.count:
            source, target = heads.source.branch, heads.target.branch
            detail = f"branch {source!r} cannot be merged into {target!r} as it is"
            raise MergeConflictsError(detail, self.conflicts, self.count)


@dataclass(frozen=True)
class Gathered:
    """The rows of every type that a merge moves, as relations of a workspace."""

    compared: Compared
    types: tuple[TypeRows, ...]
    #: Conflicts about rows that nobody decided.
    found: Found


@dataclass
class Staged:
    """What a merge is about to do, staged, and the rules that it would break."""

    pending: list[Pending] = field(default_factory=list)
    violations: tuple[Violation, ...] = ()


def merge(
    reader: GraphReader,
    ends: Ends,
    heads: Heads,
    space: Workspace,
    decisions: Decisions,
    actor: str | None,
) -> Commit:
    """Merge what was planned, in one commit with both parents.

    Raises:
        MergeConflictsError: Conflicts are left; nothing was published.
        ConflictError: The target moved on, or a branch was deleted and made again.
    """
    if heads.outcome is Outcome.UP_TO_DATE:
        return heads.merged_in or heads.target.commit
    gathered = gather(space, heads, decisions)
    gathered.found.refuse(heads)
    with staged(gathered) as ready:
        rules_broken(heads, ready.violations).refuse(heads)
        return land_merge(reader.manifest, ends, heads, ready.pending, space, actor)


def gather(space: Workspace, heads: Heads, decisions: Decisions) -> Gathered:
    """Find what a merge takes, and what is left in conflict."""
    contested = {plan.key for plan in heads.types if plan.step is Step.THREE_WAY}
    decisions.check_types(contested)
    compared = Compared(space, heads)
    types: list[TypeRows] = []
    conflicts: list[Conflict] = []
    for plan in heads.types:
        if plan.adopts:
            continue
        rows = find_rows(compared, plan, decisions)
        types.append(rows)
        if rows.conflicts:
            conflicts += row_conflicts(space, rows, LISTED - len(conflicts))
    count = sum(rows.conflicts for rows in types)
    return Gathered(compared, tuple(types), Found(tuple(conflicts), count))


@contextmanager
def staged(gathered: Gathered) -> Iterator[Staged]:
    """Stage the rows that move and check the result; what did not land is deleted in the end."""
    space, heads = gathered.compared.space, gathered.compared.heads
    ready = Staged()
    limits = StageLimits()
    with ExitStack() as cleaning:
        cleaning.callback(discard_staged, heads.target, ready.pending)
        violations: list[Violation] = []
        for rows in gathered.types:
            if rows.counts == type(rows.counts)():
                # Changed and changed back: there is nothing to land.
                continue
            pending, broken = take_rows(space, rows, heads.target, limits)
            ready.pending.append(pending)
            violations += broken
        if not violations:
            own = gathered.compared.add_own
            violations += inspect(space, ready.pending, heads.target, own_rows=own)
            violations += find_orphans(gathered.compared, gathered.types)
        ready.violations = merge_violations(violations)
        if not violations:
            for number, change in enumerate(ready.pending):
                ready.pending[number] = repack(change, heads.target, limits, space)
        yield ready


def rules_broken(heads: Heads, violations: Sequence[Violation]) -> Found:
    """Return broken rules as conflicts."""
    keys = {violation.type_key for violation in violations}
    sides: dict[str, Sides] = {key: heads.sides(key) for key in keys}
    conflicts = rule_conflicts(violations, sides)
    return Found(tuple(conflicts), sum(violation.count for violation in violations))
