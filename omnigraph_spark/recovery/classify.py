"""What to do about one unfinished write: pure rules from what was found to a decision.

The rules are the engine's, with one that is safer: a commit of somebody else on top of an
unpublished one is never undone unasked. Writers of this package fence their commits and name their
operation in them, so for their sidecars this is exact. For the engine's, more commits than its
writer makes count as somebody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph_spark.formats.v4.sidecar import (
    OPERATION_PROPERTY,
    Sidecar,
    SidecarPin,
    WriterKind,
)
from omnigraph_spark.storage.transactions import RESTORE, Origin

#: The property of a Lance transaction that names the operation it undoes.
RECOVERY_PROPERTY = "omnigraph.recovery"
#: How many commits that change rows a writer of the engine makes to one dataset. Index builds and
#: compactions change none. A merge appends, updates and deletes.
ROW_COMMITS: dict[WriterKind, int] = {
    WriterKind.MUTATION: 1,
    WriterKind.LOAD: 1,
    WriterKind.SCHEMA_APPLY: 1,
    WriterKind.BRANCH_MERGE: 3,
    WriterKind.ENSURE_INDICES: 0,
    WriterKind.OPTIMIZE: 0,
}


class Movement(StrEnum):
    """What one dataset did since the sidecar was written; the engine's words."""

    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INCOMPLETE_PHASE_B = "IncompletePhaseB"
    INVARIANT_VIOLATION = "InvariantViolation"


class Decision(StrEnum):
    """What is to be done about an unfinished write."""

    #: Publish what every dataset holds.
    ROLL_FORWARD = "RollForward"
    #: Bring the pinned content of every moved dataset back, and publish that.
    ROLL_BACK = "RollBack"
    #: It is visible; only the bookkeeping is missing.
    FINISH = "Finish"
    #: It was undone; only the bookkeeping is missing.
    FINISH_ROLLED_BACK = "FinishRolledBack"
    #: Its branch is gone, and its datasets' branches with it.
    DISCARD = "Discard"
    #: Its writer may be alive.
    WAIT = "Wait"
    #: Somebody else's commit would be lost.
    REFUSE = "Refuse"
    #: A dataset is behind what is visible.
    ABORT = "Abort"


@dataclass(frozen=True)
class PinState:
    """One dataset of a sidecar as it was found."""

    pin: SidecarPin
    #: The version the manifest pins on the sidecar's branch, 0 for none.
    pinned: int
    #: The newest version on the pin's dataset branch, None when there is no such branch.
    head: int | None
    #: What made the versions above the pinned one; for a fenced sidecar above the expected one too.
    origins: tuple[Origin, ...] = ()

    @property
    def unpublished(self) -> tuple[Origin, ...]:
        """What made the versions above the pinned one."""
        return tuple(origin for origin in self.origins if origin.version > self.pinned)

    @property
    def is_restored(self) -> bool:
        """Whether the newest version already holds the pinned content again."""
        newest = self.unpublished[-1:]
        return any(_restores(origin, self.pinned) for origin in newest)


@dataclass(frozen=True)
class Facts:
    """Everything a decision rests on."""

    pins: tuple[PinState, ...]
    branch_exists: bool = True
    #: A commit that carries the operation's own id is visible.
    published: bool = False
    #: A commit that undid the operation is visible.
    rolled_back: bool = False
    #: What the write was planned on, beside what it writes, is still what is visible.
    reads_hold: bool = True
    #: Schema changes only: the new schema files are staged, or in place already.
    schema_ready: bool = False
    #: Schema changes only: types to add are there, types to remove are gone.
    types_settled: bool = False
    #: Nothing tells that the writer is dead, and it wrote the sidecar a moment ago.
    maybe_alive: bool = False


@dataclass(frozen=True)
class Verdict:
    """A decision, what led to it, and the reason in words when nothing may be done."""

    decision: Decision
    movements: tuple[Movement, ...] = ()
    reason: str = ""


def classify(
    sidecar: Sidecar, facts: Facts, *, force: bool = False, abandon: bool = False
) -> Verdict:
    """Decide about one sidecar: all of its datasets or none.

    `force` does as the engine does where this package would refuse or wait. `abandon` is for a
    writer that gives its own write up: what could be finished is undone.
    """
    if not facts.branch_exists:
        return Verdict(Decision.DISCARD)
    movements = tuple(classify_pin(sidecar, state) for state in facts.pins)
    decision, reason = _decide(sidecar, facts, movements, force, abandon)
    return Verdict(decision, movements, reason)


def classify_pin(sidecar: Sidecar, state: PinState) -> Movement:
    """Say what a dataset did, by the rule of the writer's kind."""
    pin, pinned, head = state.pin, state.pinned, state.head
    if head is None or is_untouched(sidecar, state):
        return Movement.NO_MOVEMENT
    if head <= pinned:
        return Movement.NO_MOVEMENT if head == pinned else Movement.INVARIANT_VIOLATION
    one_step = head == pinned + 1
    unexpected = Movement.UNEXPECTED_AT_P1 if one_step else Movement.UNEXPECTED_MULTISTEP
    as_planned = pin.expected_version == pinned
    match sidecar.writer:
        case WriterKind.MUTATION | WriterKind.LOAD:
            as_planned = as_planned and one_step and pin.next_version == head
        case WriterKind.BRANCH_MERGE if sidecar.version >= 2:
            if pin.confirmed_version is None:
                return Movement.INCOMPLETE_PHASE_B
            if pin.confirmed_version != head:
                return Movement.UNEXPECTED_MULTISTEP
        case _:
            # Maintenance and schema changes make as many versions as they need.
            pass
    return Movement.ROLLED_PAST_EXPECTED if as_planned else unexpected


def is_untouched(sidecar: Sidecar, state: PinState) -> bool:
    """Tell whether a dataset moved, but not by this operation, which would have said so."""
    moved = state.head is not None and state.head > state.pinned
    return sidecar.fenced and moved and not any(_is_own(sidecar, o) for o in state.unpublished)


def is_undone_in_vain(sidecar: Sidecar, state: PinState) -> bool:
    """Tell whether all that lies above the visible version was to undo this operation."""
    above = state.unpublished
    return bool(above) and all(_undoes(sidecar, origin) for origin in above)


def foreign_commits(sidecar: Sidecar, state: PinState) -> tuple[Origin, ...]:
    """Return the unpublished commits that changed rows and that this operation did not make."""
    if is_untouched(sidecar, state):
        # Drift beside this operation, which has nothing to undo here.
        return ()
    # What lies below a version that brought the pinned content back is undone already.
    above = state.pinned
    for origin in state.unpublished:
        if _restores(origin, state.pinned):
            above = origin.version
    changed = [
        o
        for o in state.unpublished
        if o.version > above and not o.keeps_rows and not _undoes(sidecar, o)
    ]
    if sidecar.fenced:
        return tuple(origin for origin in changed if not _is_own(sidecar, origin))
    if above > state.pinned:
        # No writer goes on after it was undone.
        return tuple(changed)
    if state.pin.confirmed_version is not None:
        confirmed = state.pin.confirmed_version
        return tuple(origin for origin in changed if origin.version > confirmed)
    return tuple(changed[ROW_COMMITS[sidecar.writer] :])


def _decide(
    sidecar: Sidecar, facts: Facts, movements: Sequence[Movement], force: bool, abandon: bool
) -> tuple[Decision, str]:
    settled = not _left_behind(sidecar, facts)
    if facts.rolled_back and settled:
        return Decision.FINISH_ROLLED_BACK, ""
    if facts.published and settled:
        return Decision.FINISH, ""
    if Movement.INVARIANT_VIOLATION in movements:
        return Decision.ABORT, _behind(facts, movements)
    if (reason := _foreign(sidecar, facts)) and not force:
        return Decision.REFUSE, reason
    if _went_through(sidecar, facts, movements):
        return Decision.FINISH, ""
    seen = [sidecar.fenced and _holds_own(sidecar, state) for state in facts.pins]
    forward = all(
        is_seen or movement is Movement.ROLLED_PAST_EXPECTED
        for is_seen, movement in zip(seen, movements, strict=True)
    )
    if sidecar.writer is WriterKind.SCHEMA_APPLY:
        forward = forward and facts.schema_ready
    # Once a commit did or undid this piece of work, no second one may do it.
    fresh = not (facts.published or facts.rolled_back)
    # What is visible in part must not stay so, also when its writer gives it up.
    if forward and fresh and facts.reads_hold and (any(seen) or not abandon):
        return Decision.ROLL_FORWARD, ""
    if facts.maybe_alive and not force and not abandon:
        return Decision.WAIT, "its writer may be alive"
    if any(seen) and fresh and not force:
        return Decision.REFUSE, _seen(facts, seen)
    return Decision.ROLL_BACK, ""


def _left_behind(sidecar: Sidecar, facts: Facts) -> bool:
    """Tell whether datasets hold commits made after the work was done or undone by another."""
    return sidecar.fenced and any(
        _is_own(sidecar, origin) for state in facts.pins for origin in state.unpublished
    )


def _went_through(sidecar: Sidecar, facts: Facts, movements: Sequence[Movement]) -> bool:
    """Tell whether the write is visible and only its sidecar stayed."""
    if any(movement is not Movement.NO_MOVEMENT for movement in movements):
        return False
    if sidecar.fenced:
        # Whoever finished it did so under another id: the datasets say whose their versions are.
        return bool(facts.pins) and all(_holds_own(sidecar, state) for state in facts.pins)
    if facts.pins:
        return any(state.pinned > state.pin.expected_version for state in facts.pins)
    return bool(sidecar.registrations or sidecar.tombstones) and facts.types_settled


def _holds_own(sidecar: Sidecar, state: PinState) -> bool:
    """Tell whether a pinned version holds this operation's commit, not undone since."""
    held = False
    for origin in state.origins:
        if origin.version > state.pinned:
            break
        if _is_own(sidecar, origin):
            held = True
        elif origin.restored is not None and origin.restored <= state.pin.expected_version:
            held = False
    return held


def _is_own(sidecar: Sidecar, origin: Origin) -> bool:
    return origin.properties.get(OPERATION_PROPERTY) == sidecar.operation_id


def _undoes(sidecar: Sidecar, origin: Origin) -> bool:
    return origin.properties.get(RECOVERY_PROPERTY) == sidecar.operation_id


def _restores(origin: Origin, version: int) -> bool:
    return origin.operation == RESTORE and origin.restored == version


def _foreign(sidecar: Sidecar, facts: Facts) -> str:
    found = [
        f"version {origin.version} of {state.pin.type_key} ({origin.operation})"
        for state in facts.pins
        for origin in foreign_commits(sidecar, state)
    ]
    return ", ".join(found)


def _seen(facts: Facts, seen: Sequence[bool]) -> str:
    return ", ".join(
        f"{state.pin.type_key}, whose new rows another writer published with its own, so they stay"
        for state, is_seen in zip(facts.pins, seen, strict=True)
        if is_seen
    )


def _behind(facts: Facts, movements: Sequence[Movement]) -> str:
    return ", ".join(
        f"the dataset of {state.pin.type_key} is at version {state.head} and the manifest pins "
        f"{state.pinned}"
        for state, movement in zip(facts.pins, movements, strict=True)
        if movement is Movement.INVARIANT_VIOLATION
    )
