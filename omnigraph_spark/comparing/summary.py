"""What differs at a glance: counts by type and a few rows of each, as text and for notebooks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph_spark.comparing.compare import ADDED, CHANGED, REMOVED
from omnigraph_spark.comparing.difference import FOUND, TypeDifference
from omnigraph_spark.display import counted, html_table, row_words, telling_columns
from omnigraph_spark.writing.workspace import DuckWorkspace

#: A row is shown up to so many characters.
_WIDEST = 100


@dataclass(frozen=True)
class TypeSummary:
    """How many rows of a type differ, and some of them: dictionaries with the columns of a diff."""

    type_key: str
    added: int = 0
    removed: int = 0
    changed: int = 0
    samples: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(
        cls, type_key: str, counts: dict[str, int], samples: Sequence[dict[str, Any]]
    ) -> TypeSummary:
        """Summarize from counts by kind of change."""
        added, removed, changed = (counts.get(each, 0) for each in (ADDED, REMOVED, CHANGED))
        return cls(type_key, added, removed, changed, tuple(samples))


@dataclass(frozen=True)
class DiffSummary:
    """How two snapshots differ, by type; types without a difference are left out."""

    title: str
    types: tuple[TypeSummary, ...]

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How many rows were added, removed and changed, by type."""
        return {
            each.type_key: {ADDED: each.added, REMOVED: each.removed, CHANGED: each.changed}
            for each in self.types
        }

    def __repr__(self) -> str:
        if not self.types:
            return f"{self.title}: no difference"
        lines = [
            f"  {each.type_key:<28} {each.added:>8,} added {each.removed:>8,} removed "
            f"{each.changed:>8,} changed"
            for each in self.types
        ]
        return "\n".join([self.title, *lines])

    def _repr_html_(self) -> str:
        counts = [
            (each.type_key, f"{each.added:,}", f"{each.removed:,}", f"{each.changed:,}")
            for each in self.types
        ]
        title = self.title if self.types else f"{self.title}: no difference"
        parts = [html_table(title, ("type", ADDED, REMOVED, CHANGED), counts)]
        for each in self.types:
            shown = len(each.samples)
            rows = [(row["id"], row["change"], *_sides(row)) for row in each.samples]
            header = ("id", "change", "before", "after")
            total = each.added + each.removed + each.changed
            title = f"{each.type_key}: {shown} of {counted(total, 'row')}"
            parts.append(html_table(title, header, rows))
        return "".join(parts)


def _sides(row: dict[str, Any]) -> tuple[str, str]:
    """Write a row before and after; of a row that changed the columns that did."""
    before, after = (json.loads(row[side] or "null") for side in ("before", "after"))
    columns = row["columns"] if row["change"] == CHANGED else telling_columns(before, after)
    return row_words(before, columns, _WIDEST), row_words(after, columns, _WIDEST)


def summarize(difference: TypeDifference, samples: int) -> TypeSummary | None:
    """Count what differs in one type, in this process; None when nothing does."""
    with DuckWorkspace() as space:
        difference.define(space)
        counts = dict(space.rows(f"SELECT change, count(*) FROM {FOUND} GROUP BY change"))
        if not counts:
            return None
        some = space.stream(f"SELECT * FROM {FOUND} ORDER BY id LIMIT {int(samples)}")
        rows = [row for batch in difference.as_json(some) for row in batch.to_pylist()]
    return TypeSummary.of(difference.type_key, counts, rows)
