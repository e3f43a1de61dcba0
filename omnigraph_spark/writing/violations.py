"""Rows that break rules: which rule, where, which ids, how many. Values that travel and merge.

Checks run batch by batch and task by task, so the same rule breaks in many places: `merge` makes
one violation of them. Which ids are shown does not depend on how the rows were split: always the
first in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.errors import ConstraintViolationError

#: Enough to recognise the rows; the count says how many there are.
SHOWN_IDS = 10


@dataclass(frozen=True)
class Violation:
    """One rule that rows of one column break."""

    #: The rule's word: `required`, `enum`, `range`, `unique`, …
    rule: str
    #: The type, as `node:Person`.
    type_key: str
    column: str
    #: What is wrong, in words that fit every one of the rows.
    message: str
    #: The first ids in order, at most `SHOWN_IDS`.
    ids: tuple[str, ...]
    #: How many rows break the rule, shown or not.
    count: int

    def __str__(self) -> str:
        """Say it in one sentence."""
        ids = ", ".join(map(repr, self.ids))
        more = self.count - len(self.ids)
        rest = f" and {more} more" if more > 0 else ""
        where = f": {ids}{rest}" if ids else ""
        return f"{self.rule} on {self.type_key}.{self.column}: {self.message}{where}"


def violation_of(
    rule: str, type_key: str, column: str, message: str, ids: pa.Array[Any]
) -> Violation:
    """Make a violation of the ids of all broken rows of one batch; none of them is null."""
    if len(ids) > SHOWN_IDS:
        # A few of very many: a full sort would cost more than the check itself.
        shown = ids.take(pc.select_k_unstable(ids, SHOWN_IDS, sort_keys=[("", "ascending")]))
    else:
        shown = ids
    return Violation(rule, type_key, column, message, _first(map(str, shown.to_pylist())), len(ids))


def merge(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Make one violation of those that break the same rule in the same way, in a fixed order."""
    merged: dict[tuple[str, str, str, str], Violation] = {}
    for new in violations:
        key = (new.type_key, new.column, new.rule, new.message)
        old = merged.get(key)
        merged[key] = new if old is None else _both(old, new)
    return tuple(merged[key] for key in sorted(merged))


def refuse(violations: Iterable[Violation]) -> None:
    """Raise one error that names every violation, if there is any."""
    if found := merge(violations):
        raise ConstraintViolationError(tuple(map(str, found)))


def _both(old: Violation, new: Violation) -> Violation:
    ids = _first([*old.ids, *new.ids])
    count = old.count + new.count
    return Violation(old.rule, old.type_key, old.column, old.message, ids, count)


def _first(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(ids)[:SHOWN_IDS])
