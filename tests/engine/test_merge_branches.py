"""Branches merged: outcomes, what lands where, who decides a conflict, and what is refused."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    BranchNotFoundError,
    ConflictError,
    ConflictKind,
    HeadMovedError,
    InvalidOptionError,
    MergeConflictsError,
    UnsupportedError,
)
from omnigraph_spark.merge import landing, merging
from omnigraph_spark.scan import ROW_ID, ScanRequest
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.writing.finding import scan_all
from omnigraph_spark.writing.intake import columns
from tests.engine.writing import (
    ages,
    all_ids,
    assert_whole,
    data_files,
    edges,
    files,
    ids,
    people,
    transact,
)
from tests.helpers.builder import GraphBuilder

pytestmark = pytest.mark.slow

PEOPLE = {"Ann": 30, "Bob": 41, "Cid": None}


@pytest.fixture
def dev(graph: og.Graph) -> og.Graph:
    """A branch of the graph that has done nothing yet."""
    graph.create_branch("dev")
    return graph.as_branch("dev")


def decided(**decisions: str) -> pa.Table:
    return pa.table(
        {
            "type_key": ["node:Person"] * len(decisions),
            "id": list(decisions),
            "decision": list(decisions.values()),
        }
    )


def contradict(graph: og.Graph, dev: og.Graph) -> None:
    """Three people in conflict: changed twice, deleted and changed, inserted twice."""
    graph.write(people(Ann=1, Cid=3, New=4), "Person", mode="merge")
    dev.write(people(Ann=2, New=5), "Person", mode="merge")
    dev.delete("Person", ids=["Cid"])


# -- outcomes --------------------------------------------------------------------------------------


def test_a_branch_that_did_nothing_is_up_to_date(graph: og.Graph, dev: og.Graph) -> None:
    before = files(Path(graph.root))
    plan = graph.preview_merge("dev", into="main")
    assert (plan.outcome, plan.counts, plan.can_merge) == ("up_to_date", {}, True)
    assert graph.merge("dev") == graph.snapshot().commit
    assert files(Path(graph.root)) == before


def test_a_merge_has_both_parents_and_counts_its_rows(graph: og.Graph, dev: og.Graph) -> None:
    head = graph.snapshot().commit
    dev.write(people(Ann=31, Dan=5), "Person", mode="merge")
    dev.delete("Person", ids=["Cid"])
    plan = graph.preview_merge("dev")
    assert plan.outcome == "fast_forward"
    assert vars(plan.counts["node:Person"]) == {"inserted": 1, "updated": 1, "deleted": 1}
    assert vars(plan.counts["edge:Knows"]) == {"inserted": 0, "updated": 0, "deleted": 2}
    commit = graph.merge("dev", actor="max")
    assert (commit.parent_id, commit.merged_parent_id) == (head.id, dev.snapshot().commit.id)
    assert (commit.actor, commit.branch) == ("max", "main")
    assert ages(graph) == {"Ann": 31, "Bob": 41, "Dan": 5}
    assert graph.history(limit=1)[0].merged_parent_id == dev.snapshot().commit.id
    assert_whole(graph)


def test_changes_of_both_branches_come_together(graph: og.Graph, dev: og.Graph) -> None:
    transact(
        dev,
        lambda tx: tx.merge("Person", people(Dan=5)),
        lambda tx: tx.append("Knows", edges(k9="Dan-Ann")),
    )
    graph.write(people(Bob=42), "Person", mode="merge")
    assert graph.preview_merge("dev").outcome == "three_way"
    graph.merge("dev")
    assert ages(graph) == PEOPLE | {"Bob": 42, "Dan": 5}
    assert "k9" in ids(graph, "Knows")
    assert_whole(graph)


def test_a_merged_branch_merges_again_as_up_to_date_and_finds_its_commit(
    graph: og.Graph, dev: og.Graph
) -> None:
    """RS-46: what a caller does whose acknowledgement was lost."""
    dev.write(people(Dan=5), "Person")
    first = graph.merge("dev")
    graph.write(people(Eve=6), "Person")
    again = graph.merge("dev")
    assert again.id == first.id
    assert graph.preview_merge("dev").outcome == "up_to_date"
    assert ages(graph) == PEOPLE | {"Dan": 5, "Eve": 6}


def test_branches_merge_back_and_forth(graph: og.Graph, dev: og.Graph) -> None:
    """RS-46: no row twice, and nothing that was deleted comes back."""
    for turn in range(3):
        transact(
            dev,
            lambda tx, turn=turn: tx.merge("Person", people(**{f"D{turn}": turn})),
            lambda tx, turn=turn: tx.append("Knows", edges(**{f"e{turn}": f"Ann-D{turn}"})),
        )
        graph.merge("dev")
        if turn:
            graph.delete("Person", ids=[f"D{turn - 1}"])
        graph.merge("main", into="dev")
        dev.refresh()
        assert all_ids(graph.refresh()) == all_ids(dev)
        assert_whole(graph)
        assert_whole(dev)
    assert ages(dev) == PEOPLE | {"D2": 2}
    assert graph.preview_merge("dev").outcome == "fast_forward"
    graph.merge("dev")
    assert all_ids(graph.refresh()) == all_ids(dev)


def test_a_type_that_changed_and_changed_back_is_left_out(graph: og.Graph, dev: og.Graph) -> None:
    """RS-44: the engine fails such a merge for good."""
    dev.write(people(Ann=99), "Person", mode="merge")
    dev.write(people(Ann=30), "Person", mode="merge")
    dev.write(pa.table({"name": ["Zeta"]}), "Company")
    pinned = graph.entries["node:Person"]
    assert list(graph.preview_merge("dev").counts) == ["node:Company"]
    graph.merge("dev")
    assert graph.refresh().entries["node:Person"] == pinned
    assert "Zeta" in ids(graph, "Company")
    assert_whole(graph)


def test_a_merge_of_nothing_but_such_types_is_a_commit_without_changes(
    graph: og.Graph, dev: og.Graph
) -> None:
    """RS-44."""
    dev.write(people(Ann=99), "Person", mode="merge")
    dev.write(people(Ann=30), "Person", mode="merge")
    entries = graph.entries
    commit = graph.merge("dev")
    assert commit.changes == {}
    assert commit.merged_parent_id == dev.snapshot().commit.id
    assert graph.refresh().entries == entries
    assert graph.preview_merge("dev").outcome == "up_to_date"


def test_disjoint_changes_merge_in_any_order(graph: og.Graph) -> None:
    def change(name: str, number: int) -> None:
        graph.create_branch(name)
        own = graph.as_branch(name)
        transact(
            own,
            lambda tx: tx.merge("Person", people(**{name: number, ("Ann", "Bob")[number]: number})),
            lambda tx: tx.append("Knows", edges(**{f"{name}1": f"{name}-Cid"})),
        )

    found = []
    for order in itertools.permutations(range(2)):
        graph.create_branch(f"into{order[0]}")
    for number in range(2):
        change(f"b{number}", number)
    for order in itertools.permutations(range(2)):
        target = f"into{order[0]}"
        for number in order:
            graph.merge(f"b{number}", into=target)
        merged = graph.as_branch(target)
        found.append((ages(merged), all_ids(merged)))
        assert_whole(merged)
    assert found[0] == found[1]
    assert found[0][0] == {"Ann": 0, "Bob": 1, "Cid": None, "b0": 0, "b1": 1}


# -- where things land -----------------------------------------------------------------------------


def test_a_branch_takes_over_what_it_never_wrote_without_copying_rows(
    graph: og.Graph, dev: og.Graph
) -> None:
    graph.write(people(Dan=5), "Person")
    before = data_files(Path(graph.root))
    graph.merge("main", into="dev")
    assert data_files(Path(graph.root)) == before
    assert dev.refresh().entries["node:Person"] == graph.refresh().entries["node:Person"]
    dev.write(people(Eve=6), "Person")
    assert ages(dev) == PEOPLE | {"Dan": 5, "Eve": 6}
    assert ages(graph) == PEOPLE | {"Dan": 5}


def test_a_branch_of_a_branch_begins_where_the_branch_above_stands(
    graph: og.Graph, dev: og.Graph
) -> None:
    dev.write(people(Dan=5), "Person")
    graph.create_branch("sub", from_="dev")
    dev.write(people(Eve=6), "Person")
    before = data_files(Path(graph.root))
    graph.merge("dev", into="sub")
    assert data_files(Path(graph.root)) == before
    sub = graph.as_branch("sub")
    assert sub.entries["node:Person"].dataset_branch == "sub"
    sub.write(people(Fay=7), "Person")
    assert ages(sub) == PEOPLE | {"Dan": 5, "Eve": 6, "Fay": 7}
    assert ages(dev) == PEOPLE | {"Dan": 5, "Eve": 6}
    graph.merge("sub", into="dev")
    graph.merge("dev")
    assert ages(graph) == ages(sub)
    for each in (graph, dev, sub):
        assert_whole(each)


def test_a_branch_that_was_merged_can_be_deleted_and_its_name_used_again(
    graph: og.Graph, dev: og.Graph
) -> None:
    """The engine then cannot write the type on the new branch: another line began on the old."""
    graph.create_branch("other")
    dev.write(people(Dan=5), "Person")
    graph.merge("dev", into="other")
    graph.delete_branch("dev")
    graph.create_branch("dev")
    graph.as_branch("dev").write(people(Eve=6), "Person")
    assert ages(graph.as_branch("other")) == PEOPLE | {"Dan": 5}
    assert ages(graph.as_branch("dev")) == PEOPLE | {"Eve": 6}


def test_a_branch_keeps_what_other_branches_made_of_it_read(graph: og.Graph, dev: og.Graph) -> None:
    """A branch with its own line of a type is not switched to main's: `sub` reads that line."""
    dev.write(people(Dan=5), "Person")
    graph.create_branch("sub", from_="dev")
    graph.merge("dev")
    graph.write(people(Eve=6), "Person")
    graph.merge("main", into="dev")
    dev.refresh().write(people(Fay=7), "Person")
    assert ages(graph.as_branch("sub")) == PEOPLE | {"Dan": 5}
    assert ages(dev) == PEOPLE | {"Dan": 5, "Eve": 6, "Fay": 7}


def test_vectors_lists_and_blobs_are_merged_as_they_are(graph: og.Graph, dev: og.Graph) -> None:
    rows = pa.table(
        {
            "id": ["n1", "n2", "n3"],
            "text": ["changed", "new", "new"],
            "tags": [["a", None], [], None],
            "mood": pa.array([[0.5, -0.0], None, [1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "payload": [b"bytes", None, b"x" * 70_000],
        }
    )
    dev.write(rows, "Note", mode="merge")
    graph.write(pa.table({"id": ["n9"], "text": ["main's"]}), "Note")
    graph.merge("dev")

    def notes(of: og.Graph) -> list[dict[str, object]]:
        found = of.refresh().snapshot().arrow("Note", blobs="bytes").sort_by("id")
        return [row for row in found.to_pylist() if row["id"] != "n9"]

    assert notes(graph) == notes(dev)
    assert notes(graph)[0]["payload"] == b"bytes"
    assert "n9" in ids(graph, "Note")


def test_staged_files_of_a_refused_merge_are_gone(graph: og.Graph, dev: og.Graph) -> None:
    transact(
        dev,
        lambda tx: tx.merge("Person", people(Dan=5)),
        lambda tx: tx.append("Knows", edges(k9="Dan-Cid")),
    )
    graph.delete("Person", ids=["Cid"])
    before = files(Path(graph.root))
    with pytest.raises(MergeConflictsError):
        graph.merge("dev")
    assert files(Path(graph.root)) == before
    assert graph.preview_merge("dev").conflict_count == 1
    assert files(Path(graph.root)) == before


# -- conflicts -------------------------------------------------------------------------------------


def test_a_conflict_shows_the_rows_of_all_three_sides(graph: og.Graph, dev: og.Graph) -> None:
    contradict(graph, dev)
    with pytest.raises(MergeConflictsError, match="OMNIGRAPH_MERGE_CONFLICTS") as refused:
        graph.merge("dev")
    found = {each.id: each for each in refused.value.conflicts}
    assert {id_: each.kind for id_, each in found.items()} == {
        "Ann": ConflictKind.DIVERGENT_UPDATE,
        "Cid": ConflictKind.DELETE_VS_UPDATE,
        "New": ConflictKind.DIVERGENT_INSERT,
    }
    sides = {
        id_: [None if row is None else row["age"] for row in (each.base, each.ours, each.theirs)]
        for id_, each in found.items()
    }
    assert sides == {"Ann": [30, 1, 2], "Cid": [None, 3, None], "New": [None, 4, 5]}
    assert found["Cid"].base is not None
    assert found["Cid"].theirs is None
    assert json.loads(found["Ann"].texts()[6] or "")["age"] == 2
    # The edges of Cid went with him, and nobody changed those.
    assert refused.value.count == 3


@pytest.mark.parametrize(
    ("side", "expected"),
    [
        ("ours", {"Ann": 1, "Bob": 41, "Cid": 3, "New": 4}),
        ("theirs", {"Ann": 2, "Bob": 41, "New": 5}),
    ],
)
def test_one_side_wins_all_conflicts(
    graph: og.Graph, dev: og.Graph, side: str, expected: dict[str, int]
) -> None:
    contradict(graph, dev)
    commit = graph.merge("dev", resolve=side)
    assert ages(graph) == expected
    assert commit.merged_parent_id == dev.snapshot().commit.id
    assert_whole(graph)
    assert graph.preview_merge("dev").outcome == "up_to_date"


def test_rows_are_decided_one_by_one(graph: og.Graph, dev: og.Graph) -> None:
    contradict(graph, dev)
    with pytest.raises(MergeConflictsError) as refused:
        graph.merge("dev", resolve=decided(Ann="theirs", Cid="ours"))
    assert [each.id for each in refused.value.conflicts] == ["New"]
    assert ages(graph) == {"Ann": 1, "Bob": 41, "Cid": 3, "New": 4}
    graph.merge("dev", resolve=decided(Ann="theirs", Cid="ours", New="theirs"))
    assert ages(graph) == {"Ann": 2, "Bob": 41, "Cid": 3, "New": 5}
    assert_whole(graph)


def test_a_deleted_row_that_wins_comes_back(graph: og.Graph, dev: og.Graph) -> None:
    graph.delete("Person", ids=["Ann"])
    dev.write(people(Ann=31), "Person", mode="merge")
    graph.merge("dev", resolve="theirs")
    assert ages(graph) == PEOPLE | {"Ann": 31}
    assert_whole(graph)


@pytest.mark.parametrize(
    ("resolve", "words"),
    [
        ("mine", "'ours', 'theirs'"),
        (pa.table({"id": ["Ann"]}), "type_key, id, decision"),
        (decided(Ann="both"), "'ours' or 'theirs'"),
        (decided(Ann="ours", Bob="ours"), "in conflict now"),
        (pa.concat_tables([decided(Ann="ours"), decided(Ann="theirs")]), "one decision"),
    ],
)
def test_decisions_that_decide_nothing_are_refused(
    graph: og.Graph, dev: og.Graph, resolve: object, words: str
) -> None:
    contradict(graph, dev)
    with pytest.raises(InvalidOptionError, match=words):
        graph.merge("dev", resolve=resolve)


def test_decisions_about_a_type_without_conflicts_are_refused(
    graph: og.Graph, dev: og.Graph
) -> None:
    contradict(graph, dev)
    wrong = pa.table({"type_key": ["node:Company"], "id": ["Acme"], "decision": ["ours"]})
    with pytest.raises(InvalidOptionError, match="node:Person"):
        graph.merge("dev", resolve=wrong)


def test_a_decision_that_breaks_a_rule_is_refused(graph: og.Graph, dev: og.Graph) -> None:
    """Theirs deletes Ann; main gave her a new edge that no branch disputes."""
    graph.write(people(Ann=1), "Person", mode="merge")
    graph.write(edges(k9="Ann-Cid"), "Knows")
    dev.delete("Person", ids=["Ann"])
    with pytest.raises(MergeConflictsError) as refused:
        graph.merge("dev", resolve="theirs")
    [conflict] = refused.value.conflicts
    assert (conflict.kind, conflict.id) == (ConflictKind.ORPHAN_EDGE, "k9")
    assert conflict.ours is not None
    assert conflict.ours["src"] == "Ann"
    assert ages(graph)["Ann"] == 1


def test_a_value_that_each_branch_gave_to_another_row_is_a_conflict(
    graph: og.Graph, dev: og.Graph
) -> None:
    graph.write(pa.table({"name": ["Xu"], "mail": ["m"]}), "Person")
    dev.write(pa.table({"name": ["Yu"], "mail": ["m"]}), "Person")
    with pytest.raises(MergeConflictsError) as refused:
        graph.merge("dev", resolve="theirs")
    [conflict] = refused.value.conflicts
    assert (conflict.kind, conflict.id) == (ConflictKind.UNIQUE_VIOLATION, "Yu")
    assert (conflict.ours, conflict.theirs and conflict.theirs["mail"]) == (None, "m")


def test_a_node_that_gets_too_many_edges_from_both_branches_is_a_conflict(
    graph: og.Graph, dev: og.Graph
) -> None:
    graph.write(edges(w7="Bob-Acme"), "WorksAt")
    dev.write(edges(w8="Bob-Umbra"), "WorksAt")
    with pytest.raises(MergeConflictsError) as refused:
        graph.merge("dev", resolve="theirs")
    [conflict] = refused.value.conflicts
    assert (conflict.type_key, conflict.id) == ("edge:WorksAt", "Bob")
    assert conflict.kind is ConflictKind.CARDINALITY_VIOLATION


def test_a_row_of_the_source_that_breaks_a_rule_of_its_type_is_a_conflict(
    graph: og.Graph, dev: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written by somebody who did not check."""
    monkeypatch.setattr(columns, "rules_of", lambda *_: ())
    dev.write(people(Ann=999), "Person", mode="merge")
    monkeypatch.undo()
    with pytest.raises(MergeConflictsError) as refused:
        graph.merge("dev")
    [conflict] = refused.value.conflicts
    assert (conflict.kind, conflict.id) == (ConflictKind.VALUE_CONSTRAINT_VIOLATION, "Ann")


def test_a_plan_shows_counts_rows_and_conflicts(graph: og.Graph, dev: og.Graph) -> None:
    contradict(graph, dev)
    dev.write(people(**{"<b>": 1}), "Person")
    plan = graph.preview_merge("dev", into="main")
    assert repr(plan).startswith("MergePlan(dev into main, three_way, 3 rows of 2 types, 3 conf")
    shown = plan._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown.replace("<strong>", "")
    assert "DivergentUpdate" in shown
    assert "ours (main)" in shown
    assert not plan.checked
    assert json.loads(json.dumps(plan.to_dict()))["conflict_count"] == 3
    decided_plan = graph.preview_merge("dev", resolve="theirs")
    assert (decided_plan.can_merge, decided_plan.checked) == (True, True)
    assert {each.id: each.change for each in decided_plan.samples if "Person" in each.type_key} == {
        "<b>": "added",
        "Ann": "changed",
        "Cid": "removed",
        "New": "changed",
    }


def test_a_plan_shows_conflicts_side_by_side_and_user_text_as_text(
    graph: og.Graph, dev: og.Graph
) -> None:
    for each, age in ((graph, 1), (dev, 2)):
        each.write(people(**{"<script>": age}), "Person")
    shown = graph.preview_merge("dev")._repr_html_()
    assert "<script>" not in shown
    words = re.sub("<[^>]*>", "|", shown)
    assert re.search(r"\|ours \(main\)\|+theirs \(dev\)\|", words)
    # Only the columns that tell them apart.
    assert re.search(r"\|DivergentInsert[^|]*\|+—\|+age: 1\|+age: 2\|", words)


def test_only_so_many_conflicts_are_listed_and_all_are_counted(
    graph: og.Graph, dev: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "LISTED", 2)
    contradict(graph, dev)
    plan = graph.preview_merge("dev")
    assert ([each.id for each in plan.conflicts], plan.conflict_count) == (["Ann", "Cid"], 3)
    with pytest.raises(MergeConflictsError, match="and 1 more"):
        graph.merge("dev")


# -- what is refused -------------------------------------------------------------------------------


def test_a_branch_is_not_merged_into_itself(graph: og.Graph, dev: og.Graph) -> None:
    with pytest.raises(InvalidOptionError, match="another branch"):
        graph.merge("dev", into="dev")


def test_an_unknown_branch_is_named(graph: og.Graph) -> None:
    with pytest.raises(BranchNotFoundError, match="'nope'"):
        graph.merge("nope")
    with pytest.raises(BranchNotFoundError, match="'nope'"):
        graph.preview_merge("main", into="nope")


def test_a_graph_that_is_only_read_previews_and_does_not_merge(
    graph: og.Graph, dev: og.Graph
) -> None:
    dev.write(people(Dan=5), "Person")
    reading = og.open(graph.root, mode="r")
    before = files(Path(graph.root))
    plan = reading.preview_merge("dev")
    assert (plan.counts["node:Person"].inserted, plan.checked) == (1, False)
    with pytest.raises(UnsupportedError):
        reading.merge("dev")
    assert files(Path(graph.root)) == before


# -- branches that move ----------------------------------------------------------------------------


def meanwhile(monkeypatch: pytest.MonkeyPatch, action: object) -> None:
    """Let something happen after a merge was worked out, before it takes the target's lock."""
    real = landing.writer_lock
    acted: list[object] = []

    def later(*args: object, **kwargs: object) -> object:
        if not acted:
            acted.append(True)
            action()  # type: ignore[operator]
        return real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(landing, "writer_lock", later)


def test_a_target_that_moves_on_fails_the_merge_before_any_effect(
    graph: og.Graph, dev: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-43: also when the other commit is about another type."""
    dev.write(people(Dan=5), "Person")
    other = og.open(graph.root)
    meanwhile(monkeypatch, lambda: other.write(pa.table({"name": ["Zeta"]}), "Company"))
    with pytest.raises(HeadMovedError, match="the merge was for"):
        graph.merge("dev")
    assert ages(graph) == PEOPLE
    assert_whole(graph)
    graph.merge("dev")
    assert ages(graph) == PEOPLE | {"Dan": 5}
    assert "Zeta" in ids(graph, "Company")


def test_a_source_that_moves_on_is_merged_as_it_was(
    graph: og.Graph, dev: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-43: the captured parent is kept, and the rest is merged the next time."""
    dev.write(people(Dan=5), "Person")
    planned = dev.snapshot().commit
    meanwhile(monkeypatch, lambda: dev.write(people(Eve=6), "Person"))
    commit = graph.merge("dev")
    assert commit.merged_parent_id == planned.id
    assert ages(graph) == PEOPLE | {"Dan": 5}
    graph.merge("dev")
    assert ages(graph) == PEOPLE | {"Dan": 5, "Eve": 6}


@pytest.mark.parametrize("branch", ["dev", "into"])
def test_a_branch_that_is_deleted_and_made_again_is_another_one(
    graph: og.Graph, dev: og.Graph, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-40, for source and target."""
    graph.create_branch("into")
    for name in ("dev", "into"):
        graph.as_branch(name).write(people(**{name: 5}), "Person")

    def again() -> None:
        other = og.open(graph.root)
        other.delete_branch(branch)
        other.create_branch(branch)
        other.as_branch(branch).write(people(Other=1), "Person")

    meanwhile(monkeypatch, again)
    with pytest.raises(ConflictError, match="deleted and made again"):
        graph.merge("dev", into="into")
    fresh = og.open(graph.root, branch=branch)
    assert ages(fresh) == PEOPLE | {"Other": 1}
    assert_whole(fresh)


@pytest.mark.parametrize("branch", ["dev", "into"])
def test_a_branch_that_is_deleted_meanwhile_fails_the_merge(
    graph: og.Graph, dev: og.Graph, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-40."""
    graph.create_branch("into")
    dev.write(people(Dan=5), "Person")
    meanwhile(monkeypatch, lambda: og.open(graph.root).delete_branch(branch))
    with pytest.raises(BranchNotFoundError, match=branch):
        graph.merge("dev", into="into")


# -- ends of edges, where types are taken over whole -----------------------------------------------


def test_an_edge_may_end_at_a_node_of_a_type_that_is_taken_over(
    graph: og.Graph, dev: og.Graph
) -> None:
    """The branch wrote edges only, so it takes over the nodes of main as they are."""
    dev.write(edges(k7="Ann-Cid"), "Knows")
    transact(
        graph,
        lambda tx: tx.append("Person", people(Dan=1)),
        lambda tx: tx.append("Knows", edges(k8="Ann-Dan")),
    )
    graph.merge("main", into="dev")
    assert {"k7", "k8"} <= set(ids(dev.refresh(), "edge:Knows"))
    assert_whole(dev)


def test_an_edge_at_a_node_that_goes_with_a_type_that_is_taken_over_is_a_conflict(
    graph: og.Graph, dev: og.Graph
) -> None:
    graph.write(people(Dan=1), "Person")
    graph.merge("main", into="dev")
    dev.refresh().write(edges(k7="Ann-Dan"), "Knows")
    graph.delete("Person", ids=["Dan"])
    assert orphans_of(graph, "main", "dev") == {("edge:Knows", "k7")}
    assert_whole(dev)


def test_edges_that_are_taken_over_at_a_node_that_the_branch_deleted_are_conflicts(
    graph: og.Graph, dev: og.Graph
) -> None:
    """Nobody knew Dan on the branch, so deleting him there left the edges as they were."""
    graph.write(people(Dan=1), "Person")
    graph.merge("main", into="dev")
    dev.refresh().delete("Person", ids=["Dan"])
    graph.write(edges(k7="Ann-Dan"), "Knows")
    assert orphans_of(graph, "main", "dev") == {("edge:Knows", "k7")}
    assert orphans_of(graph, "dev", "main") == {("edge:Knows", "k7")}
    assert_whole(dev)


def orphans_of(graph: og.Graph, source: str, into: str) -> set[tuple[str, str]]:
    assert graph.preview_merge(source, into=into).conflict_count == 1
    with pytest.raises(MergeConflictsError) as refused:
        graph.merge(source, into=into)
    found = refused.value.conflicts
    assert {each.kind for each in found} == {ConflictKind.ORPHAN_EDGE}
    return {(each.type_key, each.id) for each in found}


# -- rows that lie elsewhere -----------------------------------------------------------------------


def test_rows_that_the_target_moved_meanwhile_are_found_by_their_ids(
    graph: og.Graph, dev: og.Graph
) -> None:
    """Compacted or written again unchanged, a row lies in another file and is the same row."""
    graph.write(people(Dan=1, Eve=2), "Person")
    graph.merge("main", into="dev")
    dev.refresh().write(people(Ann=31), "Person", mode="merge")
    dev.delete("Person", ids=["Eve"])
    graph.write(people(Ann=30, Eve=2), "Person", mode="merge")
    moved = row_ids(graph)
    other = GraphBuilder.open(Path(graph.root))
    other.compact("node:Person")
    other.publish()
    graph.merge("dev")
    assert ages(graph.refresh()) == PEOPLE | {"Ann": 31, "Dan": 1}
    assert row_ids(graph) == {name: id_ for name, id_ in moved.items() if name != "Eve"}
    assert_whole(graph)


def row_ids(graph: og.Graph) -> dict[str, int]:
    source = ScanSource.of(graph.refresh().snapshot()._state, "node:Person")
    request = ScanRequest(("id",))
    _, batches = scan_all(source, request, [request], places=True)
    rows = pa.Table.from_batches(batches).to_pylist()
    return {row["id"]: row[ROW_ID] for row in rows}
