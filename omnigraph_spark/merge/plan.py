"""What a merge has to do, decided from pins alone: the outcome, and the step of each type.

A pin names one version of one line of a dataset, so equal pins are equal rows and nothing of them
is read. Where only the source changed a type, the target may take over its dataset as it is. It
does so only where that can lose nothing:

* A pin below the visible one would never be seen, so the version has to be a higher one.
* A target with a line of its own keeps it. Left behind, it would be thrown away by the next write
  on the target, and branches made of the target may still read it.
* A line of the target begins only on lines of branches that the target itself began on. Those
  cannot be deleted before it. Of any other branch the line would outlive its name: a new branch of
  that name could never write the type.

Everywhere else the rows move to the target's own line.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.manifest import Entry
from omnigraph_spark.names import MAIN


class Outcome(StrEnum):
    """How two heads relate, and so what a merge is."""

    #: The target holds all of the source already.
    UP_TO_DATE = "up_to_date"
    #: The target did not change since the base.
    FAST_FORWARD = "fast_forward"
    #: Both did.
    THREE_WAY = "three_way"


class Step(StrEnum):
    """What a type takes to be merged."""

    #: Pin what the source pins: a version of the dataset's main line.
    SWITCH = "switch"
    #: Make the target's line of the dataset begin at the source's version.
    HAND_OVER = "hand_over"
    #: Only the source changed: bring its changes to the target's line.
    MOVE_ROWS = "move_rows"
    #: Both changed.
    THREE_WAY = "three_way"


@dataclass(frozen=True)
class TypePlan:
    """One type that the source changed since the base."""

    key: str
    step: Step
    #: None when the type came after the base.
    base: Entry | None
    source: Entry
    target: Entry

    @property
    def adopts(self) -> bool:
        """Whether the target takes the source's dataset over as it is."""
        return self.step in (Step.SWITCH, Step.HAND_OVER)


def outcome_of(base: Commit, source: Commit, target: Commit) -> Outcome:
    """Say what merging a source into a target is."""
    if base.id == source.id:
        return Outcome.UP_TO_DATE
    return Outcome.FAST_FORWARD if base.id == target.id else Outcome.THREE_WAY


def plan_types(
    base: Mapping[str, Entry],
    source: Mapping[str, Entry],
    target: Mapping[str, Entry],
    into: str,
    ancestors: Collection[str] = (),
) -> list[TypePlan]:
    """Return what every type takes, in the order of their keys; those with nothing to do are out.

    Source and target have the same types: a schema changes only while there are no branches.
    `ancestors` are the branches that the target began on, directly or not.
    """
    plans = []
    for key in sorted(source):
        of_base = base.get(key)
        if pin_of(source[key]) in (pin_of(target[key]), pin_of(of_base)):
            continue
        step = Step.THREE_WAY
        if pin_of(of_base) == pin_of(target[key]):
            step = _adopting(source[key], target[key], into, ancestors)
        plans.append(TypePlan(key, step, of_base, source[key], target[key]))
    return plans


def pin_of(entry: Entry | None) -> tuple[int, str | None] | None:
    """Return what tells two versions of a dataset apart, whichever snapshots they are in."""
    return None if entry is None else (entry.dataset_version, entry.dataset_branch)


def _adopting(source: Entry, target: Entry, into: str, ancestors: Collection[str]) -> Step:
    owned = (None if into == MAIN else into) == target.dataset_branch
    if owned or source.dataset_version <= target.dataset_version:
        return Step.MOVE_ROWS
    if source.dataset_branch is None:
        return Step.SWITCH
    return Step.HAND_OVER if source.dataset_branch in ancestors else Step.MOVE_ROWS
