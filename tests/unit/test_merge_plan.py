"""What a merge has to do: the base of two heads, the outcome, and the step of every type."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.manifest import Entry
from omnigraph_spark.merge.base import distances, merge_base
from omnigraph_spark.merge.plan import Outcome, Step, outcome_of, pin_of, plan_types
from omnigraph_spark.names import TypeKey
from tests.helpers.golden import Expected

PERSON = "node:Person"


def commit(id_: str, *parents: str, version: int = 1) -> Commit:
    first, second = (*parents, None, None)[:2]
    return Commit(id_, "main", version, first, second, None, 0)


def base_of(source: str, target: str, *commits: Commit) -> str | None:
    by_id = {each.id: each for each in commits}
    found = merge_base(by_id[source], by_id[target], commits)
    return None if found is None else found.id


# -- the base --------------------------------------------------------------------------------------


def test_the_base_of_two_branches_is_where_they_parted() -> None:
    history = (commit("a"), commit("b", "a"), commit("dev", "b"), commit("main", "b"))
    assert base_of("dev", "main", *history) == "b"


def test_after_a_merge_the_base_is_what_was_merged() -> None:
    history = (
        commit("a"),
        commit("dev", "a"),
        commit("merged", "a", "dev"),
        commit("more", "dev"),
        commit("main", "merged"),
    )
    assert base_of("more", "main", *history) == "dev"
    assert base_of("main", "more", *history) == "dev"


def test_of_bases_as_near_the_one_with_the_larger_manifest_version_counts() -> None:
    # Each branch merged the other one's first commit: both commits are common, both as near.
    history = (
        commit("a"),
        commit("x", "a", version=2),
        commit("y", "a", version=3),
        commit("main", "x", "y", version=4),
        commit("dev", "y", "x", version=4),
    )
    assert base_of("dev", "main", *history) == "y"


def test_a_parent_on_a_third_branch_ends_the_walk() -> None:
    history = (commit("a"), commit("main", "a", "elsewhere"), commit("dev", "a", "elsewhere"))
    assert base_of("dev", "main", *history) == "a"


def test_heads_without_a_common_commit_have_no_base() -> None:
    assert base_of("a", "b", commit("a"), commit("b")) is None


@given(st.integers(0, 2**32 - 1), st.integers(2, 24))
def test_the_base_is_the_nearest_common_ancestor_of_any_history(seed: int, size: int) -> None:
    draw = random.Random(seed)
    history: list[Commit] = []
    for number in range(size):
        parents = draw.sample([each.id for each in history], min(len(history), draw.choice((1, 2))))
        history.append(commit(f"c{number}", *parents, version=draw.randrange(1, 6)))
    by_id = {each.id: each for each in history}

    def steps(head: Commit) -> dict[str, int]:
        """How far every ancestor is, by walking all paths."""
        found = {head.id: 0}
        for parent in filter(None, (head.parent_id, head.merged_parent_id)):
            for id_, far in steps(by_id[parent]).items():
                found[id_] = min(found.get(id_, far + 1), far + 1)
        return found

    source, target = draw.choice(history), draw.choice(history)
    of_source, of_target = steps(source), steps(target)
    assert distances(source, by_id) == of_source
    shuffled = draw.sample(history, len(history))
    base = merge_base(source, target, shuffled)
    common = of_source.keys() & of_target.keys()
    assert base == merge_base(target, source, history)
    if base is None:
        assert not common
        return
    nearest = min(of_source[id_] + of_target[id_] for id_ in common)
    tied = [id_ for id_ in common if of_source[id_] + of_target[id_] == nearest]
    assert base.id in tied
    assert base.manifest_version == max(by_id[id_].manifest_version for id_ in tied)


def golden_commits(*branches: str) -> dict[str, Commit]:
    return {
        row["graph_commit_id"]: Commit(
            row["graph_commit_id"],
            row["manifest_branch"] or "main",
            row["manifest_version"],
            row["parent_commit_id"],
            row["merged_parent_commit_id"],
            row["actor_id"],
            row["created_at"],
        )
        for branch in branches
        for row in Expected("branches").commits(branch)
    }


@pytest.mark.parametrize(
    ("source", "target", "outcome"),
    [
        ("ff", "main", Outcome.FAST_FORWARD),
        ("three", "main", Outcome.THREE_WAY),
        ("src2", "feature", Outcome.FAST_FORWARD),
        ("main", "catchup", Outcome.FAST_FORWARD),
        ("edgeonly", "main", Outcome.FAST_FORWARD),
    ],
)
def test_the_engines_merges_have_the_outcome_it_reported(
    source: str, target: str, outcome: Outcome
) -> None:
    commits = golden_commits(source, target)
    heads = {row["graph_commit_id"] for row in Expected("branches").commits(source)}
    [merged] = [
        each
        for each in golden_commits(target).values()
        if each.merged_parent_id in heads
        and each.branch == target
        and commits[each.merged_parent_id].branch == source
    ]
    theirs, ours = commits[merged.merged_parent_id or ""], commits[merged.parent_id or ""]
    base = merge_base(theirs, ours, commits.values())
    assert base is not None
    assert outcome_of(base, theirs, ours) is outcome
    # What was merged is up to date from then on.
    again = merge_base(theirs, merged, commits.values())
    assert again is not None
    assert outcome_of(again, theirs, merged) is Outcome.UP_TO_DATE


# -- the steps -------------------------------------------------------------------------------------


def entry(version: int, branch: str | None = None) -> Entry:
    return Entry(TypeKey.parse(PERSON), "nodes/40d76f1f51639ec0", branch, version, 0)


def step(
    base: Entry | None, source: Entry, target: Entry, into: str = "main", *ancestors: str
) -> Step | None:
    of_base = {} if base is None else {PERSON: base}
    plans = plan_types(of_base, {PERSON: source}, {PERSON: target}, into, ancestors)
    return plans[0].step if plans else None


def test_a_type_that_the_source_did_not_change_is_left_out() -> None:
    assert step(entry(3), entry(3), entry(7)) is None


def test_a_type_that_both_sides_pin_alike_is_left_out() -> None:
    assert step(entry(3), entry(5, "dev"), entry(5, "dev"), into="sub") is None


def test_what_both_sides_changed_is_merged_row_by_row() -> None:
    assert step(entry(3), entry(4, "dev"), entry(4)) is Step.THREE_WAY
    assert step(None, entry(4, "dev"), entry(4)) is Step.THREE_WAY


def test_rows_of_a_branch_move_to_main() -> None:
    assert step(entry(3), entry(4, "dev"), entry(3)) is Step.MOVE_ROWS


def test_a_branch_that_never_wrote_a_type_pins_what_main_pins() -> None:
    assert step(entry(3), entry(5), entry(3), into="dev") is Step.SWITCH


def test_a_branch_that_never_wrote_a_type_begins_at_the_version_of_the_one_it_began_on() -> None:
    assert step(entry(3), entry(5, "up"), entry(3), "dev", "up") is Step.HAND_OVER
    assert step(entry(3, "up"), entry(5, "up"), entry(3, "up"), "dev", "up") is Step.HAND_OVER


def test_rows_move_between_branches_that_can_be_deleted_in_any_order() -> None:
    assert step(entry(3), entry(5, "other"), entry(3), into="dev") is Step.MOVE_ROWS


def test_a_branch_keeps_a_line_of_its_own() -> None:
    """The next write would throw it away, and branches made of this one may read it."""
    assert step(entry(4, "dev"), entry(9), entry(4, "dev"), into="dev") is Step.MOVE_ROWS
    assert step(entry(4, "dev"), entry(9, "x"), entry(4, "dev"), into="dev") is Step.MOVE_ROWS


def test_a_version_that_would_not_be_seen_is_not_pinned() -> None:
    """The largest version that was ever pinned counts, not the last one."""
    assert step(entry(9, "up"), entry(5), entry(9, "up"), into="dev") is Step.MOVE_ROWS
    assert step(entry(9, "up"), entry(9), entry(9, "up"), into="dev") is Step.MOVE_ROWS


def test_types_are_planned_in_the_order_of_their_keys() -> None:
    keys = ["node:B", "edge:A", "node:A"]
    old, new = {key: entry(1) for key in keys}, {key: entry(2, "dev") for key in keys}
    assert [plan.key for plan in plan_types(old, new, old, "main")] == sorted(keys)


def test_a_pin_is_a_version_of_one_line() -> None:
    assert pin_of(entry(3)) != pin_of(entry(3, "dev"))
    assert pin_of(None) is None
