"""What both branches changed of one type, joined by id: rows to take, and rows in conflict.

Everything stays in the workspace; Python sees counts. A row that only the source changed is taken.
One that both changed is a conflict unless both hold the same now, which source and target say when
they are compared with each other: then there is nothing to take.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.comparing.compare import BEFORE_PLACE
from omnigraph_spark.errors import ConflictKind
from omnigraph_spark.merge.compared import Compared
from omnigraph_spark.merge.decisions import Decisions
from omnigraph_spark.merge.heads import Sides
from omnigraph_spark.merge.plan import Step, TypePlan
from omnigraph_spark.writing.workspace import PLACE_NAMES, Workspace

#: What a relation of rows to take has: the change is that of the target's row, the place is where
#: the row lies in the source (null for one that goes).
_TAKEN = "id, change, after_fragment AS fragment, after_place AS place"
#: Where a row lies that goes, or that another one takes the place of.
_REPLACED = ", ".join(
    f"{column} AS {name}" for column, name in zip(BEFORE_PLACE, PLACE_NAMES, strict=True)
)


@dataclass(frozen=True)
class Counts:
    """How many rows of a type a merge changes."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class TypeRows:
    """The rows of one type, as relations of the workspace."""

    plan: TypePlan
    sides: Sides
    number: int
    counts: Counts
    #: How many conflicts nobody decided.
    conflicts: int = 0

    @property
    def taken(self) -> str:
        """The relation of rows to take: id, change (added, changed, removed), fragment, place."""
        return f"taken_{self.number}"

    @property
    def replaced(self) -> str:
        """The relation of rows that go or are replaced: id, change, fragment, place, row_id.

        `in_target` says whether that is where the row lies in the target, or in the base.
        """
        return f"replaced_{self.number}"

    @property
    def undecided(self) -> str:
        """The relation of conflicts left: id, kind, and the fragment and place of each side.

        Those are ``base_fragment``, ``base_place``, ``ours_…`` and ``theirs_…``; null where a side
        has no such row.
        """
        return f"undecided_{self.number}"


def find_rows(compared: Compared, plan: TypePlan, decisions: Decisions) -> TypeRows:
    """Find what a merge takes of one type, and what is left in conflict."""
    space, number = compared.space, compared.number(plan.key)
    theirs = compared.theirs(plan.key)
    conflicts = 0
    if plan.step is Step.THREE_WAY:
        conflicts = _three_way(compared, plan, number, decisions)
    else:
        # The target is the base.
        space.define(f"taken_{number}", f"SELECT {_TAKEN} FROM {theirs}")
        space.define(
            f"replaced_{number}",
            f"SELECT id, change, {_REPLACED}, TRUE AS in_target FROM {theirs} "
            "WHERE change <> 'added'",
        )
    sides = compared.heads.sides(plan.key)
    return TypeRows(plan, sides, number, _counts(space, f"taken_{number}"), conflicts)


def _three_way(compared: Compared, plan: TypePlan, number: int, decisions: Decisions) -> int:
    space, clashes = compared.space, f"clashes_{number}"
    theirs, ours = compared.theirs(plan.key), compared.ours(plan.key)
    [(both,)] = space.rows(f"SELECT count(*) FROM {theirs} t JOIN {ours} o ON o.id = t.id")
    # How a row of the target becomes that of the source; rows that are equal are not in it.
    apart = compared.apart(plan.key) if both else theirs
    space.define(
        clashes,
        f"""
        SELECT a.*, t.before_fragment AS base_fragment, t.before_place AS base_place,
            CASE WHEN t.change <> o.change THEN '{ConflictKind.DELETE_VS_UPDATE}'
                WHEN t.change = 'added' THEN '{ConflictKind.DIVERGENT_INSERT}'
                ELSE '{ConflictKind.DIVERGENT_UPDATE}' END AS kind
        FROM {apart} a JOIN {theirs} t ON t.id = a.id JOIN {ours} o ON o.id = a.id
        """,
    )
    decided = decisions.apply(space, plan.key, clashes, number)
    only_theirs = f"NOT EXISTS (SELECT 1 FROM {ours} o WHERE o.id = t.id)"
    space.define(
        f"taken_{number}",
        f"""
        SELECT {_TAKEN} FROM {theirs} t WHERE {only_theirs}
        UNION ALL SELECT {_TAKEN} FROM {clashes} c WHERE {decided.theirs}
        """,
    )
    space.define(
        f"replaced_{number}",
        f"""
        SELECT id, change, {_REPLACED}, FALSE AS in_target FROM {theirs} t
        WHERE change <> 'added' AND {only_theirs}
        UNION ALL SELECT id, change, {_REPLACED}, TRUE AS in_target FROM {clashes} c
        WHERE change <> 'added' AND {decided.theirs}
        """,
    )
    undecided = f"undecided_{number}"
    space.define(
        undecided,
        f"""
        SELECT c.id, c.kind, c.base_fragment, c.base_place,
            c.before_fragment AS ours_fragment, c.before_place AS ours_place,
            c.after_fragment AS theirs_fragment, c.after_place AS theirs_place
        FROM {clashes} c WHERE {decided.nobodys}
        """,
    )
    [(left,)] = space.rows(f"SELECT count(*) FROM {undecided}")
    return int(left)


def _counts(space: Workspace, taken: str) -> Counts:
    found = dict(space.rows(f"SELECT change, count(*) FROM {taken} GROUP BY change"))
    return Counts(found.get("added", 0), found.get("changed", 0), found.get("removed", 0))
