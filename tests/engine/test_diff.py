"""`graph.diff` without Spark: what comes out, how it is named, and the laws it keeps."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    BranchNotFoundError,
    CommitNotFoundError,
    TypeNotFoundError,
    VersionNotFoundError,
)
from tests.engine.writing import edges, people
from tests.helpers.builder import GraphBuilder


def rows_of(graph: og.Graph, before: Any, after: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """What differs, by type and id."""
    found = graph.diff(before, after).arrow().to_pylist()
    return {(row["type_key"], row["id"]): row for row in found}


@pytest.fixture
def reviewed(graph: og.Graph) -> og.Graph:
    """The staffed graph with a branch on which Ann is older, Dan came and Bob went."""
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    dev.write(people(Ann=31, Dan=1), "Person", mode="merge")
    dev.delete("Person", ["Bob"])
    return graph


def test_a_diff_says_what_was_added_removed_and_changed_in_every_type(reviewed: og.Graph) -> None:
    found = rows_of(reviewed, "main", "dev")
    assert {key: (row["change"], row["columns"]) for key, row in found.items()} == {
        ("node:Person", "Ann"): ("changed", ["age"]),
        ("node:Person", "Dan"): ("added", []),
        ("node:Person", "Bob"): ("removed", []),
        # Deleting a node deletes its edges.
        ("edge:Knows", "k1"): ("removed", []),
        ("edge:Knows", "k2"): ("removed", []),
        ("edge:Owns", "o1"): ("removed", []),
    }
    ann = found["node:Person", "Ann"]
    assert json.loads(ann["before"]) == {
        "id": "Ann", "name": "Ann", "age": 30, "mail": None, "code": None,
    }  # fmt: skip
    assert json.loads(ann["after"])["age"] == 31
    assert found["node:Person", "Dan"]["before"] is None
    assert found["node:Person", "Bob"]["after"] is None


def test_a_diff_of_one_type_has_the_rows_of_both_sides(reviewed: og.Graph) -> None:
    table = reviewed.diff("main", "dev", type="Person").arrow()
    assert table.schema.names == ["id", "change", "before", "after", "columns"]
    rows = {row["id"]: row for row in table.to_pylist()}
    assert rows["Ann"]["before"]["age"] == 30
    assert rows["Ann"]["after"]["age"] == 31
    assert rows["Bob"]["after"] is None
    assert table.schema.field("after").type.field("age").type == pa.int32()
    assert table == reviewed.diff("main", "dev").arrow("node:Person")


def test_a_summary_counts_by_type_and_shows_some_rows(reviewed: og.Graph) -> None:
    diff = reviewed.diff("main", "dev")
    assert diff.counts["node:Person"] == {"added": 1, "removed": 1, "changed": 1}
    assert diff.counts["edge:Knows"] == {"added": 0, "removed": 2, "changed": 0}
    summary = diff.summary(samples=1)
    assert "node:Person" in repr(summary)
    assert "1 added        1 removed        1 changed" in repr(summary)
    assert max(map(len, repr(summary).splitlines())) < 80
    shown = summary._repr_html_()
    assert "node:Person: 1 of 3 rows" in shown
    assert "edge:Knows: 1 of 2 rows" in shown
    cells = re.sub("<[^>]*>", "|", shown)
    assert re.search(r"\|Ann\|+changed\|+age: \d+\|+age: \d+\|", cells)
    assert reviewed.diff("main", "main").summary().types == ()
    assert "no difference" in repr(reviewed.diff("main", "main").summary())


def test_user_text_in_a_summary_is_escaped(graph: og.Graph) -> None:
    graph.create_branch("dev")
    graph.as_branch("dev").write(people(**{"<b>x": 1}), "Person")
    assert "<b>" not in graph.diff("main", "dev")._repr_html_()


def test_branches_commits_versions_and_refs_name_the_same_snapshots(reviewed: og.Graph) -> None:
    main, dev = reviewed.at(branch="main"), reviewed.at(branch="dev")
    expected = rows_of(reviewed, "main", "dev")
    assert rows_of(reviewed, main.commit.id, dev.commit.id) == expected
    assert rows_of(reviewed, main.manifest_version, og.Ref.branch("dev")) == expected
    on_dev = og.Ref.version(dev.manifest_version, "dev")
    assert rows_of(reviewed, og.Ref.commit(main.commit.id), on_dev) == expected


def test_a_snapshot_that_does_not_exist_is_named(reviewed: og.Graph) -> None:
    with pytest.raises(BranchNotFoundError, match="dve"):
        reviewed.diff("main", "dve")
    with pytest.raises(CommitNotFoundError):
        reviewed.diff("main", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(VersionNotFoundError):
        reviewed.diff("main", 999)
    with pytest.raises(TypeNotFoundError):
        reviewed.diff("main", "dev", type="Persn")


def test_a_commit_of_a_branch_that_was_made_again_is_refused(reviewed: og.Graph) -> None:
    """RS-40, reading: a diff with a commit of the old incarnation is a typed refusal."""
    old = reviewed.at(branch="dev").commit.id
    reviewed.delete_branch("dev")
    reviewed.create_branch("dev")
    reviewed.as_branch("dev").write(people(Zoe=9), "Person")
    with pytest.raises(CommitNotFoundError):
        reviewed.diff("main", old)
    assert set(rows_of(reviewed, "main", "dev")) == {("node:Person", "Zoe")}


def test_values_that_json_has_no_number_for_are_texts(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", "node T { name: String @key x: F64? at: DateTime? d: Date? }")
    graph.create_branch("dev")
    row = {"name": ["a"], "x": [float("inf")], "at": pa.array([1], pa.timestamp("ms", "UTC")),
           "d": pa.array([1], pa.date32())}  # fmt: skip
    graph.as_branch("dev").write(pa.table(row), "T")
    [found] = rows_of(graph, "main", "dev").values()
    assert json.loads(found["after"])["x"] == "Infinity"
    assert json.loads(found["after"])["d"] == "1970-01-02"
    assert json.loads(found["after"])["at"].startswith("1970-01-01T00:00:00.001")


def test_applying_a_diff_to_one_side_gives_the_other(graph: og.Graph) -> None:
    """Laws over random histories: diff(a, a) is empty; a and diff(a, b) make b."""
    chance = random.Random(7)
    states = [graph.snapshot()]
    for step in range(10):
        _random_change(graph, chance, step)
        states.append(graph.refresh().snapshot())
    for _ in range(8):
        before, after = chance.sample(states, 2)
        sides = before.manifest_version, after.manifest_version
        assert rows_of(graph, sides[0], sides[0]) == {}
        for key in ("node:Person", "edge:Knows"):
            rows = {row["id"]: row for row in before.arrow(key).to_pylist()}
            for found in graph.diff(*sides, type=key).arrow().to_pylist():
                assert rows.get(found["id"]) == found["before"]
                assert found["before"] != found["after"]
                if found["after"] is None:
                    del rows[found["id"]]
                else:
                    rows[found["id"]] = found["after"]
            expected = {row["id"]: row for row in after.arrow(key).to_pylist()}
            assert rows == expected


def _random_change(graph: og.Graph, chance: random.Random, step: int) -> None:
    names = [f"p{number}" for number in range(6)]
    some = chance.sample(names, 3)
    match chance.randrange(5):
        case 0 | 1:
            ages = {name: chance.randrange(3) for name in some}
            graph.write(people(**ages), "Person", mode="merge")
        case 2:
            graph.delete("Person", some)
        case 3:
            everybody = {name: chance.randrange(3) for name in [*some, "Ann", "Bob", "Cid"]}
            graph.write(people(**everybody), "Person", mode="merge")
            graph.write(edges(**{f"e{step}": f"{some[0]}-{some[1]}"}), "Knows")
        case 4:
            other = GraphBuilder.open(Path(graph.root))
            other.compact("node:Person")
            other.publish()
            graph.refresh()
