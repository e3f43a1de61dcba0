"""The commits of a branch: which is the head, how history is walked, what held at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.errors import DamagedGraphError
from omnigraph_spark.formats import v4
from omnigraph_spark.formats.profile import Commit, CommitRow
from omnigraph_spark.lineage import Lineage, commit_order, first_parents, last_at_or_before

ROOT = "/data/social"


def row(
    id_: str,
    version: int,
    created_at: int,
    parent: str | None = None,
    *,
    branch: str | None = None,
    **more: str,
) -> CommitRow:
    """A commit row as the format writes it: absent keys instead of nulls."""
    detail: dict[str, str | int] = {"parent_commit_id": parent} if parent else {}
    detail |= {**more, "created_at": created_at}
    return CommitRow(id_, version, branch, json.dumps(detail))


def lineage(*rows: CommitRow) -> Lineage:
    return Lineage(rows, v4, ROOT)


def ids(commits: Iterable[Commit]) -> list[str]:
    return [commit.id for commit in commits]


def head_id(*rows: CommitRow) -> str | None:
    head = lineage(*rows).head
    return None if head is None else head.id


def chain(*created_at: int) -> list[Commit]:
    """Commits c0, c1, …, each the parent of the next, made at the given times."""
    return [
        Commit(f"c{n}", "main", n + 1, f"c{n - 1}" if n else None, None, None, at)
        for n, at in enumerate(created_at)
    ]


# -- rows and their order ----------------------------------------------------------------------


def test_a_commit_row_becomes_a_commit_with_all_its_facts() -> None:
    stored = row("C2", 5, 7, "C1", branch="dev", merged_parent_commit_id="M", actor_id="etl")
    assert lineage(stored).commits == (Commit("C2", "dev", 5, "C1", "M", "etl", 7),)


def test_a_commit_without_parent_actor_or_branch_is_one_of_main() -> None:
    (commit,) = lineage(row("C1", 1, 7)).commits
    assert commit == Commit("C1", "main", 1, None, None, None, 7)


def test_commits_are_ordered_by_manifest_version_then_time_then_id() -> None:
    rows = [row("B", 4, 9), row("A", 4, 9), row("C", 4, 8), row("D", 3, 99), row("E", 5, 1)]
    assert ids(lineage(*rows).commits) == ["D", "C", "A", "B", "E"]


def test_a_lineage_with_newer_commits_has_the_newest_of_all_as_its_head() -> None:
    before = lineage(row("A", 1, 7), row("B", 2, 8))
    for newer in ([], [row("C", 3, 1)], [row("D", 4, 1), row("C", 3, 9)], [row("Z", 1, 99)]):
        after = before.followed_by(newer)
        assert after.head == after.commits[-1]


def test_the_head_is_the_last_in_that_order_and_not_the_latest_in_time() -> None:
    assert head_id(row("A", 3, 99), row("B", 4, 1)) == "B"
    assert head_id(row("A", 4, 2), row("B", 4, 1)) == "A"
    assert head_id(row("A", 4, 1), row("B", 4, 1)) == "B"


def test_a_manifest_without_commits_has_no_head() -> None:
    assert lineage().head is None
    assert lineage().commits == ()
    assert lineage().find("A") is None


def test_a_commit_is_found_by_its_whole_id() -> None:
    rows = lineage(row("ABC", 3, 1), row("ABD", 4, 2))
    found = rows.find("ABD")
    assert found is not None
    assert found.manifest_version == 4
    assert rows.find("AB") is None
    assert rows.find("abd") is None


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 6), st.text("ABC", min_size=1, max_size=3)),
        unique_by=lambda commit: commit[2],
    )
)
def test_the_head_is_the_greatest_of_all_commits(stored: list[tuple[int, int, str]]) -> None:
    rows = lineage(*(row(id_, version, at) for version, at, id_ in stored))
    order = sorted(stored)
    assert ids(rows.commits) == [id_ for _, _, id_ in order]
    assert rows.head == (rows.commits[-1] if order else None)
    assert list(map(commit_order, rows.commits)) == order


@pytest.mark.parametrize(
    "detail",
    [
        "",
        "{",
        "null",
        "[]",
        '"text"',
        "{}",
        '{"created_at": null}',
        '{"created_at": "noon"}',
        '{"created_at": 1e400}',
        '{"created_at": 99999999999999999999}',
    ],
)
def test_a_commit_row_that_cannot_be_read_is_damage_that_names_the_commit(detail: str) -> None:
    broken = lineage(CommitRow("C1", 4, None, detail), row("C0", 1, 1))
    with pytest.raises(DamagedGraphError, match=f"'{ROOT}' is damaged.*'C1'"):
        broken.find("C1")
    with pytest.raises(DamagedGraphError):
        _ = broken.commits
    with pytest.raises(DamagedGraphError):
        _ = broken.head


def test_a_broken_row_does_not_hide_the_others() -> None:
    rows = lineage(CommitRow("C1", 1, None, "{"), row("C2", 2, 5, "C1"))
    assert rows.head == rows.find("C2")
    assert rows.head is not None


# -- first parents -----------------------------------------------------------------------------


def test_history_is_walked_through_first_parents_and_not_through_merged_ones() -> None:
    rows = lineage(
        row("A", 1, 1),
        row("B", 2, 2, "A"),
        row("S", 2, 3, "A", branch="side"),
        row("M", 3, 4, "B", merged_parent_commit_id="S"),
    )
    assert rows.head is not None
    assert ids(first_parents(rows.head, rows.commits)) == ["M", "B", "A"]


def test_the_walk_ends_where_a_parent_is_not_visible() -> None:
    commits = chain(1, 2, 3)
    assert ids(first_parents(commits[2], commits[1:])) == ["c2", "c1"]


def test_the_walk_can_start_below_the_head() -> None:
    commits = chain(1, 2, 3)
    assert ids(first_parents(commits[1], commits)) == ["c1", "c0"]


@pytest.mark.parametrize(
    ("parents", "walked"),
    [
        ({"A": "A"}, ["A"]),
        ({"A": "B", "B": "A"}, ["A", "B"]),
        ({"A": "B", "B": "C", "C": "B"}, ["A", "B", "C"]),
    ],
)
def test_a_circular_history_ends(parents: dict[str, str], walked: list[str]) -> None:
    commits = [Commit(id_, "main", 1, parent, None, None, 9) for id_, parent in parents.items()]
    # One more than there are commits: a walk in circles would fill it.
    assert ids(islice(first_parents(commits[0], commits), len(commits) + 1)) == walked
    assert last_at_or_before(5, commits[0], commits) is None


@given(st.data())
def test_any_history_however_broken_is_walked_once_and_child_before_parent(
    data: st.DataObject,
) -> None:
    names = data.draw(st.lists(st.sampled_from("ABCDEF"), unique=True, min_size=1))
    parents = st.none() | st.sampled_from("ABCDEFX")
    commits = [Commit(id_, "main", 1, data.draw(parents), None, None, 0) for id_ in names]
    walked = list(islice(first_parents(commits[0], commits), len(commits) + 1))
    assert len(set(ids(walked))) == len(walked)
    assert walked[0] == commits[0]
    assert all(child.parent_id == parent.id for child, parent in pairwise(walked))


# -- at a time ---------------------------------------------------------------------------------


def at(time: int, commits: list[Commit]) -> str | None:
    found = last_at_or_before(time, commits[-1], commits)
    return None if found is None else found.id


def test_a_time_finds_the_last_commit_made_at_or_before_it() -> None:
    commits = chain(10, 20, 30)
    assert [at(time, commits) for time in (9, 10, 19, 20, 29, 30, 99)] == [
        None,
        "c0",
        "c0",
        "c1",
        "c1",
        "c2",
        "c2",
    ]


def test_where_times_go_backwards_the_chain_decides() -> None:
    # The clock of whoever made c2 was behind: at 25 its state had c1 in it, so it is the answer.
    commits = chain(10, 30, 20, 40)
    assert at(25, commits) == "c2"
    assert at(35, commits) == "c2"
    assert at(15, commits) == "c0"


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(-1, 10))
def test_a_time_finds_the_newest_link_of_the_chain_that_is_old_enough(
    created_at: list[int], time: int
) -> None:
    links = [number for number, made in enumerate(created_at) if made <= time]
    assert at(time, chain(*created_at)) == (f"c{max(links)}" if links else None)


def test_commits_beside_the_chain_are_not_found_by_time() -> None:
    commits = chain(10, 30)
    beside = Commit("side", "side", 2, "c0", None, None, 20)
    found = last_at_or_before(25, commits[-1], [*commits, beside])
    assert found == commits[0]
