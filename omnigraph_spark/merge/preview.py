"""What a merge would do, to look at before it is done: counts, sample rows, conflicts.

Made of the same steps as a merge: rows are found, staged, checked, and then thrown away. A graph
that is only read stages nothing, so there the rules across both branches are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph_spark.display import counted, html_table, row_words, telling_columns
from omnigraph_spark.errors import Conflict
from omnigraph_spark.errors.merging import CONFLICT_COLUMNS
from omnigraph_spark.merge.conflicts import rows_at
from omnigraph_spark.merge.decisions import Decisions
from omnigraph_spark.merge.heads import Heads
from omnigraph_spark.merge.merging import Found, gather, rules_broken, staged
from omnigraph_spark.merge.plan import Outcome
from omnigraph_spark.merge.rows import Counts, TypeRows, find_rows
from omnigraph_spark.writing.workspace import Workspace

#: Sample rows of a type; a page of a notebook holds those of a few types.
SAMPLES = 5
_SHOWN_CONFLICTS = 20
_SAMPLE_HEADER = ("type", "id", "change", "before", "after")
_SHOWN_LETTERS = 120


@dataclass(frozen=True)
class Sample:
    """One row that a merge changes; a row that is not there is None."""

    type_key: str
    id: str
    #: What becomes of the target's row: added, changed or removed.
    change: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True, repr=False)
class MergePlan:
    """What merging a branch into another would do; nothing was changed."""

    source: str
    into: str
    outcome: Outcome
    #: The commits it was planned on: both heads, and where the branches parted.
    source_commit: str
    target_commit: str
    base_commit: str
    #: Rows that would change, by type key; only types that would.
    counts: Mapping[str, Counts]
    #: The first conflicts; `conflict_count` says how many there are.
    conflicts: tuple[Conflict, ...]
    conflict_count: int
    #: A few rows of each type.
    samples: tuple[Sample, ...]
    #: Whether the rules across both branches were checked; not where conflicts about rows are
    #: left, and not on a graph that is only read.
    checked: bool

    @property
    def can_merge(self) -> bool:
        """Whether nothing was found in the way."""
        return not self.conflict_count

    def conflicts_frame(self, spark: Any) -> Any:
        """Return the conflicts as a DataFrame; rows are JSON texts."""
        return spark.createDataFrame([found.texts() for found in self.conflicts], CONFLICT_COLUMNS)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        return {
            "source": self.source,
            "into": self.into,
            "outcome": str(self.outcome),
            "source_commit": self.source_commit,
            "target_commit": self.target_commit,
            "base_commit": self.base_commit,
            "counts": {key: vars(counts) for key, counts in self.counts.items()},
            "conflicts": [conflict_dict(found) for found in self.conflicts],
            "conflict_count": self.conflict_count,
            "checked": self.checked,
        }

    def __repr__(self) -> str:
        rows = sum(sum(vars(counts).values()) for counts in self.counts.values())
        return (
            f"MergePlan({self.source} into {self.into}, {self.outcome}, {counted(rows, 'row')} of "
            f"{counted(len(self.counts), 'type')}, {counted(self.conflict_count, 'conflict')})"
        )

    def _repr_html_(self) -> str:
        title = f"merge {self.source} into {self.into}: {self.outcome}"
        parts = [
            html_table(
                title,
                ("type", "inserted", "updated", "deleted"),
                [
                    (key, f"{each.inserted:,}", f"{each.updated:,}", f"{each.deleted:,}")
                    for key, each in self.counts.items()
                ],
            )
        ]
        if self.samples:
            rows = [
                (each.type_key, each.id, each.change, *side_by_side(each.before, each.after))
                for each in self.samples
            ]
            parts.append(html_table("some of the rows", _SAMPLE_HEADER, rows))
        if self.conflicts:
            named = counted(self.conflict_count, "conflict")
            header = (
                "type",
                "id",
                "kind",
                "base",
                f"ours ({self.into})",
                f"theirs ({self.source})",
            )
            shown = [
                (
                    each.type_key,
                    each.id,
                    f"{each.kind}: {each.message}",
                    *side_by_side(each.base, each.ours, each.theirs),
                )
                for each in self.conflicts[:_SHOWN_CONFLICTS]
            ]
            parts.append(html_table(named, header, shown))
        return "".join(parts)


def conflict_dict(conflict: Conflict) -> dict[str, Any]:
    """Return a conflict as plain values; rows are JSON texts, as in a DataFrame."""
    names = ("type_key", "id", "kind", "message", "base", "ours", "theirs")
    return dict(zip(names, conflict.texts(), strict=True))


def preview(space: Workspace, heads: Heads, decisions: Decisions, may_stage: bool) -> MergePlan:
    """Find out what a merge would do."""
    if heads.outcome is Outcome.UP_TO_DATE:
        return _plan(heads, (), Found(), (), checked=True)
    gathered = gather(space, heads, decisions)
    found, checked = gathered.found, False
    if not found.count and may_stage:
        with staged(gathered) as ready:
            found, checked = rules_broken(heads, ready.violations), True
    # What changes where the target takes over a dataset is only counted.
    adopted = [
        find_rows(gathered.compared, plan, Decisions()) for plan in heads.types if plan.adopts
    ]
    types = sorted((*gathered.types, *adopted), key=lambda rows: rows.plan.key)
    return _plan(heads, types, found, _samples(space, types), checked)


def _plan(
    heads: Heads, types: Iterable[TypeRows], found: Found, samples: Sequence[Sample], checked: bool
) -> MergePlan:
    return MergePlan(
        source=heads.source.branch,
        into=heads.target.branch,
        outcome=heads.outcome,
        source_commit=heads.source.commit.id,
        target_commit=heads.target.commit.id,
        base_commit=heads.base.commit.id,
        counts={rows.plan.key: rows.counts for rows in types if rows.counts != Counts()},
        conflicts=found.conflicts,
        conflict_count=found.count,
        samples=tuple(samples),
        checked=checked,
    )


def _samples(space: Workspace, types: Iterable[TypeRows]) -> list[Sample]:
    samples: list[Sample] = []
    for rows in types:
        first = f"SELECT * FROM {rows.taken} ORDER BY id LIMIT {SAMPLES}"
        found = space.rows(
            f"""
            SELECT t.id, t.change, t.fragment, t.place, r.in_target, r.fragment, r.place
            FROM ({first}) t LEFT JOIN {rows.replaced} r ON r.id = t.id ORDER BY t.id
            """
        )
        # What only the source changed is in the target as it is in the base.
        before = rows_at(rows.sides.target, {str(row[0]): row[5:7] for row in found if row[4]})
        before |= rows_at(rows.sides.base, {str(row[0]): row[5:7] for row in found if not row[4]})
        after = rows_at(rows.sides.source, {str(row[0]): row[2:4] for row in found})
        samples += [
            Sample(rows.plan.key, id_, change, before.get(id_), after.get(id_))
            for id_, change in ((str(row[0]), str(row[1])) for row in found)
        ]
    return samples


def side_by_side(*rows: Mapping[str, Any] | None) -> list[str]:
    """Write states of one row for people: the columns in which they differ."""
    columns = telling_columns(*rows)
    return [row_words(row, columns, _SHOWN_LETTERS) for row in rows]
