"""Conflicts of a merge: rows that both branches changed, and rules that both together break."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph_spark.errors.outcome import ConflictError

#: Named in the message; `conflicts` holds more.
_NAMED = 5


class ConflictKind(StrEnum):
    """What is in the way of a merge; the engine's words."""

    #: Both branches inserted the id, with different values.
    DIVERGENT_INSERT = "DivergentInsert"
    #: Both branches changed the row, to different values.
    DIVERGENT_UPDATE = "DivergentUpdate"
    #: One branch deleted the row, the other changed it.
    DELETE_VS_UPDATE = "DeleteVsUpdate"
    #: The merged graph would have an edge without an end.
    ORPHAN_EDGE = "OrphanEdge"
    #: The merged graph would have a value twice that must be unique.
    UNIQUE_VIOLATION = "UniqueViolation"
    #: A node of the merged graph would have too many or too few edges.
    CARDINALITY_VIOLATION = "CardinalityViolation"
    #: A row of the source breaks a rule of its type.
    VALUE_CONSTRAINT_VIOLATION = "ValueConstraintViolation"


#: Those about one row that a person can decide: take ours or theirs.
ROW_KINDS = frozenset(
    {
        ConflictKind.DIVERGENT_INSERT,
        ConflictKind.DIVERGENT_UPDATE,
        ConflictKind.DELETE_VS_UPDATE,
    }
)
#: Columns of conflicts as a DataFrame; rows are JSON texts.
CONFLICT_COLUMNS = (
    "type_key string, id string, kind string, message string, base string, ours string, "
    "theirs string"
)


@dataclass(frozen=True)
class Conflict:
    """One thing in the way of a merge: `ours` is the target's row, `theirs` the source's.

    A row that a side does not have is None. Of a rule that the merged graph would break, `id` names
    a row that breaks it (of a cardinality, the node).
    """

    type_key: str
    id: str
    kind: ConflictKind
    message: str
    base: Mapping[str, Any] | None = None
    ours: Mapping[str, Any] | None = None
    theirs: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.kind} on {self.type_key} {self.id!r}: {self.message}"

    def texts(self) -> tuple[str | None, ...]:
        """Return the conflict as a row of `CONFLICT_COLUMNS`."""
        images = (row_text(image) for image in (self.base, self.ours, self.theirs))
        return (self.type_key, self.id, str(self.kind), self.message, *images)


def row_text(row: Mapping[str, Any] | None) -> str | None:
    """Write a row as JSON: bytes in base64, times as ISO texts."""
    return None if row is None else json.dumps(row, default=_as_text, ensure_ascii=False)


def _as_text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


@dataclass(eq=False)
class MergeConflictsError(ConflictError):
    """Two branches cannot be merged as they are; nothing was published."""

    code = "OMNIGRAPH_MERGE_CONFLICTS"
    remedy = (
        "Look at `.conflicts`; decide with `merge(..., resolve=...)`, or change a branch so that "
        "they no longer contradict each other."
    )
    conflicts: tuple[Conflict, ...] = ()
    #: How many there are; only the first in order are listed.
    count: int = 0

    def describe(self) -> str:
        shown = self.conflicts[:_NAMED]
        named = "; ".join(map(str, shown))
        more = self.count - len(shown)
        rest = f"; and {more:,} more" if more > 0 else ""
        decide = 'resolve="ours" or "theirs", or decisions by row, settles those about a row'
        rows = any(conflict.kind in ROW_KINDS for conflict in self.conflicts)
        return f"{self.detail}; nothing was published: {named}{rest}{f'; {decide}' if rows else ''}"

    def frame(self, spark: Any) -> Any:
        """Return the conflicts as a DataFrame; rows are JSON texts."""
        return spark.createDataFrame([found.texts() for found in self.conflicts], CONFLICT_COLUMNS)
