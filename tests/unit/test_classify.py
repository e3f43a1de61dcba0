"""What is decided about an unfinished write: the truth table of rules and writers, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import pytest

from omnigraph_spark.formats.v4.sidecar import (
    OPERATION_PROPERTY,
    Sidecar,
    SidecarPin,
    SidecarRegistration,
    WriterKind,
)
from omnigraph_spark.recovery.classify import (
    ROW_COMMITS,
    Decision,
    Facts,
    Movement,
    PinState,
    classify,
    classify_pin,
    foreign_commits,
)
from omnigraph_spark.storage.transactions import Origin

OPERATION = "01M7H9P6G1N83EBCHDSPHR9Q6Q"
STRICT = (WriterKind.MUTATION, WriterKind.LOAD)
LOOSE = (WriterKind.SCHEMA_APPLY, WriterKind.ENSURE_INDICES, WriterKind.OPTIMIZE)
OWN = {OPERATION_PROPERTY: OPERATION}


def pin(expected: int = 5, confirmed: int | None = None, key: str = "node:Person") -> SidecarPin:
    return SidecarPin(key, f"/g/nodes/{key}", expected, expected + 1, confirmed)


def sidecar(
    writer: WriterKind, *pins: SidecarPin, version: int = 2, fenced: bool = False
) -> Sidecar:
    expects = {"node:Person": 5} if fenced else None
    return Sidecar(OPERATION, 0, writer, pins, version=version, expects=expects)


def made(*operations: str, first: int = 6, own: bool = False) -> tuple[Origin, ...]:
    """Versions made by these operations, counted from `first`."""
    return tuple(
        Origin(first + at, operation, OWN if own else {}) for at, operation in enumerate(operations)
    )


def commits_of(writer: WriterKind, count: int) -> tuple[Origin, ...]:
    """Commits that a writer of the engine makes above version 5: rows first, then indexes."""
    rows = min(count, ROW_COMMITS[writer])
    return made(*["Update"] * rows, *["CreateIndex"] * (count - rows))


# -- one dataset -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A situation, and what it is to writers judged strictly, loosely and by confirmation."""

    name: str
    pinned: int
    head: int | None
    confirmed: int | None
    strict: Movement
    loose: Movement
    by_confirmation: Movement


M = Movement
CELLS = [
    Cell("no such dataset branch", 5, None, None, M.NO_MOVEMENT, M.NO_MOVEMENT, M.NO_MOVEMENT),
    Cell("behind", 5, 4, None, *[M.INVARIANT_VIOLATION] * 3),
    Cell("behind, confirmed", 5, 4, 4, *[M.INVARIANT_VIOLATION] * 3),
    Cell("not moved", 5, 5, None, *[M.NO_MOVEMENT] * 3),
    Cell("not moved since a publish", 6, 6, None, *[M.NO_MOVEMENT] * 3),
    Cell("one step", 5, 6, None, *[M.ROLLED_PAST_EXPECTED] * 2, M.INCOMPLETE_PHASE_B),
    Cell("one step, confirmed", 5, 6, 6, *[M.ROLLED_PAST_EXPECTED] * 3),
    Cell(
        "one step, another confirmed",
        5,
        6,
        7,
        M.ROLLED_PAST_EXPECTED,
        M.ROLLED_PAST_EXPECTED,
        M.UNEXPECTED_MULTISTEP,
    ),
    Cell(
        "two steps",
        5,
        7,
        None,
        M.UNEXPECTED_MULTISTEP,
        M.ROLLED_PAST_EXPECTED,
        M.INCOMPLETE_PHASE_B,
    ),
    Cell(
        "two steps, confirmed",
        5,
        7,
        7,
        M.UNEXPECTED_MULTISTEP,
        M.ROLLED_PAST_EXPECTED,
        M.ROLLED_PAST_EXPECTED,
    ),
    Cell(
        "two steps, the first confirmed",
        5,
        7,
        6,
        M.UNEXPECTED_MULTISTEP,
        M.ROLLED_PAST_EXPECTED,
        M.UNEXPECTED_MULTISTEP,
    ),
    Cell("one step above a winner", 6, 7, None, *[M.UNEXPECTED_AT_P1] * 2, M.INCOMPLETE_PHASE_B),
    Cell("one step above a winner, confirmed", 6, 7, 7, *[M.UNEXPECTED_AT_P1] * 3),
    Cell(
        "two steps above a winner",
        6,
        8,
        None,
        M.UNEXPECTED_MULTISTEP,
        M.UNEXPECTED_MULTISTEP,
        M.INCOMPLETE_PHASE_B,
    ),
    Cell("two steps above a winner, confirmed", 6, 8, 8, *[M.UNEXPECTED_MULTISTEP] * 3),
]


def rule_of(writer: WriterKind, version: int) -> str:
    """Which column of the table judges a writer."""
    if writer in STRICT:
        return "strict"
    if writer is WriterKind.BRANCH_MERGE and version >= 2:
        return "by_confirmation"
    return "loose"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("writer", WriterKind)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_every_situation_has_an_outcome_for_every_writer(
    cell: Cell, writer: WriterKind, version: int
) -> None:
    state = PinState(pin(5, cell.confirmed), cell.pinned, cell.head)
    found = classify_pin(sidecar(writer, state.pin, version=version), state)
    assert found is getattr(cell, rule_of(writer, version))


# -- all datasets of a sidecar ---------------------------------------------------------------------


def state_of(movement: Movement, writer: WriterKind, key: str) -> PinState:
    """A dataset that a writer sees as having moved in this way, with commits of its own."""
    at: dict[Movement, tuple[int, int, int, int | None]] = {
        M.NO_MOVEMENT: (5, 5, 5, None),
        M.ROLLED_PAST_EXPECTED: (5, 5, 6, 6),
        M.UNEXPECTED_AT_P1: (5, 6, 7, 7),
        M.UNEXPECTED_MULTISTEP: (5, 6, 8, 8),
        M.INCOMPLETE_PHASE_B: (5, 5, 6, None),
        M.INVARIANT_VIOLATION: (5, 5, 4, None),
    }
    expected, pinned, head, confirmed = at[movement]
    if writer is not WriterKind.BRANCH_MERGE:
        confirmed = None
    origins = tuple(
        replace(origin, version=pinned + 1 + index)
        for index, origin in enumerate(commits_of(writer, max(0, head - pinned)))
    )
    return PinState(pin(expected, confirmed, key), pinned, head, origins)


def possible(writer: WriterKind) -> list[Movement]:
    confirmed = writer is WriterKind.BRANCH_MERGE
    return [movement for movement in Movement if confirmed or movement is not M.INCOMPLETE_PHASE_B]


def decision_for(movements: tuple[Movement, ...], writer: WriterKind, ready: bool) -> Decision:
    """The engine's rule, all or nothing, written down once more."""
    if M.INVARIANT_VIOLATION in movements:
        return Decision.ABORT
    if any(movement is not M.ROLLED_PAST_EXPECTED for movement in movements):
        return Decision.ROLL_BACK
    if writer is WriterKind.SCHEMA_APPLY and not ready:
        return Decision.ROLL_BACK
    return Decision.ROLL_FORWARD


@pytest.mark.parametrize("ready", [False, True], ids=["", "schema ready"])
@pytest.mark.parametrize("writer", WriterKind)
def test_all_datasets_go_forward_or_none(writer: WriterKind, ready: bool) -> None:
    for count in range(3):
        for movements in product(possible(writer), repeat=count):
            states = tuple(
                state_of(movement, writer, f"node:T{at}") for at, movement in enumerate(movements)
            )
            unfinished = sidecar(writer, *(state.pin for state in states))
            verdict = classify(unfinished, Facts(states, schema_ready=ready))
            assert verdict.movements == movements
            assert verdict.decision is decision_for(movements, writer, ready), movements


@pytest.mark.parametrize("writer", WriterKind)
def test_a_write_whose_branch_is_gone_is_discarded(writer: WriterKind) -> None:
    gone = Facts((), branch_exists=False)
    assert classify(sidecar(writer, pin()), gone).decision is Decision.DISCARD


@pytest.mark.parametrize("writer", WriterKind)
def test_a_write_that_went_through_is_finished(writer: WriterKind) -> None:
    published = PinState(pin(5), pinned=6, head=6)
    untouched = PinState(pin(4, key="node:Company"), pinned=4, head=4)
    facts = Facts((published, untouched))
    assert classify(sidecar(writer, pin(), pin(4)), facts).decision is Decision.FINISH


def test_added_types_that_are_there_mean_that_the_schema_change_went_through() -> None:
    change = replace(
        sidecar(WriterKind.SCHEMA_APPLY),
        registrations=(SidecarRegistration("node:Tag", "nodes/6ce0"),),
    )
    assert classify(change, Facts((), types_settled=True)).decision is Decision.FINISH
    assert classify(change, Facts((), schema_ready=True)).decision is Decision.ROLL_FORWARD
    assert classify(change, Facts(())).decision is Decision.ROLL_BACK


# -- somebody else's commits -----------------------------------------------------------------------

ROW_OPERATIONS = ["Append", "Update", "Delete", "Overwrite", "Merge", "Project", "Unknown"]
OTHER_OPERATIONS = ["CreateIndex", "Rewrite", "ReserveFragments", "UpdateConfig"]


def on_top(writer: WriterKind, *operations: str, fenced: bool = False) -> PinState:
    """All that a writer does to a dataset, and then these commits of another."""
    count = 1 if fenced else ROW_COMMITS[writer]
    own = made(*["Update"] * count, own=fenced)
    origins = (*own, *made(*operations, first=6 + count))
    return PinState(pin(), 5, 5 + len(origins), origins)


@pytest.mark.parametrize("operation", ROW_OPERATIONS)
@pytest.mark.parametrize("fenced", [False, True], ids=["the engine's", "ours"])
@pytest.mark.parametrize("writer", WriterKind)
def test_rows_that_another_writer_put_on_top_are_never_undone_unasked(
    writer: WriterKind, fenced: bool, operation: str
) -> None:
    state = on_top(writer, operation, fenced=fenced)
    unfinished = sidecar(writer, state.pin, fenced=fenced)
    facts = Facts((state,), schema_ready=True)
    verdict = classify(unfinished, facts)
    assert verdict.decision is Decision.REFUSE
    assert f"version {state.head} of node:Person ({operation})" in verdict.reason
    forced = classify(unfinished, facts, force=True).decision
    engines_own = decision_for(verdict.movements, writer, ready=True)
    assert forced is engines_own
    assert classify(unfinished, facts, abandon=True).decision is Decision.REFUSE


@pytest.mark.parametrize("operation", OTHER_OPERATIONS)
@pytest.mark.parametrize("fenced", [False, True], ids=["the engine's", "ours"])
@pytest.mark.parametrize("writer", WriterKind)
def test_indexes_and_compactions_hold_no_rows_to_lose(
    writer: WriterKind, fenced: bool, operation: str
) -> None:
    state = on_top(writer, operation, fenced=fenced)
    unfinished = sidecar(writer, state.pin, fenced=fenced)
    assert foreign_commits(unfinished, state) == ()
    assert classify(unfinished, Facts((state,))).decision is not Decision.REFUSE


def test_a_merge_owns_what_it_confirmed_and_nothing_above() -> None:
    origins = made("Append", "Update", "Delete", "Append")
    state = PinState(pin(confirmed=8), 5, 9, origins)
    merge = sidecar(WriterKind.BRANCH_MERGE, state.pin)
    assert foreign_commits(merge, state) == (origins[3],)
    assert classify(merge, Facts((state,))).decision is Decision.REFUSE


def test_what_was_undone_already_is_nobodys_to_lose() -> None:
    undone = (*made("Update", "Append"), Origin(8, "Restore", restored=5))
    state = PinState(pin(), 5, 8, undone)
    load = sidecar(WriterKind.LOAD, state.pin)
    assert state.is_restored
    assert classify(load, Facts((state,))).decision is Decision.ROLL_BACK
    above = PinState(pin(), 5, 9, (*undone, Origin(9, "Append")))
    assert classify(load, Facts((above,))).decision is Decision.REFUSE


def test_a_restore_of_something_else_is_somebody_elses_commit() -> None:
    state = PinState(pin(), 5, 7, (*made("Update"), Origin(7, "Restore", restored=4)))
    assert (
        classify(sidecar(WriterKind.LOAD, state.pin), Facts((state,))).decision is Decision.REFUSE
    )


# -- writers of this package -----------------------------------------------------------------------


def fenced_load(*pins: SidecarPin) -> Sidecar:
    return sidecar(WriterKind.LOAD, *pins, fenced=True)


def test_a_commit_that_is_not_ours_is_not_published_as_ours() -> None:
    """The engine would publish it: it stands where ours would."""
    state = PinState(pin(), 5, 6, made("Append"))
    verdict = classify(fenced_load(state.pin), Facts((state,)))
    assert verdict.movements == (M.NO_MOVEMENT,)
    assert verdict.decision is Decision.ROLL_BACK
    theirs = classify(sidecar(WriterKind.LOAD, state.pin), Facts((state,)))
    assert theirs.decision is Decision.ROLL_FORWARD


def test_what_was_read_must_still_hold_to_go_forward() -> None:
    state = PinState(pin(), 5, 6, made("Update", own=True))
    load = fenced_load(state.pin)
    assert classify(load, Facts((state,))).decision is Decision.ROLL_FORWARD
    assert classify(load, Facts((state,), reads_hold=False)).decision is Decision.ROLL_BACK


def test_a_writer_that_gives_up_is_undone_although_all_of_it_landed() -> None:
    state = PinState(pin(), 5, 6, made("Update", own=True))
    given_up = classify(fenced_load(state.pin), Facts((state,)), abandon=True)
    assert given_up.decision is Decision.ROLL_BACK


def test_a_visible_commit_of_the_operation_means_that_it_is_done() -> None:
    state = PinState(pin(), 6, 6, made("Update", own=True))
    assert (
        classify(fenced_load(state.pin), Facts((state,), published=True)).decision
        is Decision.FINISH
    )


def test_a_second_attempt_at_work_that_is_visible_is_undone() -> None:
    state = PinState(pin(), 5, 6, made("Update", own=True))
    verdict = classify(fenced_load(state.pin), Facts((state,), published=True))
    assert verdict.decision is Decision.ROLL_BACK


def test_one_that_the_engine_finished_under_another_id_is_done() -> None:
    state = PinState(pin(), 6, 6, made("Update", own=True))
    assert classify(fenced_load(state.pin), Facts((state,))).decision is Decision.FINISH


def test_one_that_the_engine_undid_is_not_done() -> None:
    origins = (*made("Update", own=True), Origin(7, "Restore", restored=5))
    state = PinState(pin(), 7, 7, origins)
    assert classify(fenced_load(state.pin), Facts((state,))).decision is Decision.ROLL_BACK


def test_a_later_commit_of_another_writer_does_not_make_an_armed_write_done() -> None:
    """The engine takes the higher pin for this write's own."""
    state = PinState(pin(), 6, 6, made("Append"))
    assert classify(fenced_load(state.pin), Facts((state,))).decision is Decision.ROLL_BACK
    theirs = classify(sidecar(WriterKind.LOAD, state.pin), Facts((state,)))
    assert theirs.decision is Decision.FINISH


def test_one_that_was_rolled_back_only_lacks_its_bookkeeping() -> None:
    state = PinState(pin(), 7, 7)
    facts = Facts((state,), rolled_back=True)
    assert classify(fenced_load(state.pin), facts).decision is Decision.FINISH_ROLLED_BACK


def test_a_writer_that_went_on_after_it_was_rolled_back_is_undone_again() -> None:
    state = PinState(pin(), 5, 6, made("Update", own=True))
    facts = Facts((state,), rolled_back=True)
    assert classify(fenced_load(state.pin), facts).decision is Decision.ROLL_BACK


def test_a_writer_that_may_be_alive_is_finished_but_not_undone() -> None:
    whole = Facts((PinState(pin(), 5, 6, made("Update", own=True)),), maybe_alive=True)
    armed = Facts((PinState(pin(), 5, 5),), maybe_alive=True)
    load = fenced_load(pin())
    assert classify(load, whole).decision is Decision.ROLL_FORWARD
    assert classify(load, armed).decision is Decision.WAIT
    assert classify(load, armed, force=True).decision is Decision.ROLL_BACK
    assert classify(load, armed, abandon=True).decision is Decision.ROLL_BACK


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("writer", WriterKind)
def test_whatever_is_found_there_is_one_decision_and_force_never_refuses(
    writer: WriterKind, fenced: bool
) -> None:
    for pinned, head, confirmed, operation in product(
        (4, 5, 6), (4, 5, 6, 7, 8), (None, 6, 7), ("Update", "CreateIndex", "Restore")
    ):
        origins = tuple(
            Origin(number, operation, OWN if number % 2 else {}, restored=pinned)
            for number in range(pinned + 1, head + 1)
        )
        state = PinState(pin(5, confirmed), pinned, head, origins)
        unfinished = sidecar(writer, state.pin, fenced=fenced)
        decision = classify(unfinished, Facts((state,))).decision
        assert decision in Decision
        forced = classify(unfinished, Facts((state,)), force=True).decision
        assert forced not in (Decision.REFUSE, Decision.WAIT)
        assert decision in (forced, Decision.REFUSE)
