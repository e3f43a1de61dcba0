"""Every way to name a snapshot leads to the state it named, and to no other."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    BranchNotFoundError,
    CommitNotFoundError,
    DamagedGraphError,
    GraphNotFoundError,
    TimestampNotFoundError,
    VersionNotFoundError,
)
from omnigraph_spark.names import timestamp_text
from tests.engine.graphs import (
    KNOWS,
    PERSON,
    SOCIAL,
    add_people,
    ages,
    delete_branch,
    refused,
    write_social,
)
from tests.helpers.builder import MANIFEST_SCHEMA, GraphBuilder

#: Times of commits in microseconds: a second apart, from the first of November 2026.
START_US = 1_793_491_200_000_000
SECOND_US = 1_000_000


def times(*seconds: float) -> Callable[[], int]:
    """A clock that shows these seconds after the start, one after the other."""
    left = iter(seconds)
    return lambda: START_US + round(next(left) * SECOND_US)


def at_second(second: float) -> str:
    return timestamp_text(START_US + round(second * SECOND_US))


def write_history(root: Path, seconds: Iterable[float]) -> dict[str, str]:
    """One person per commit, on main, on `dev` and on its branch `sub`; commits by person.

    ======  ===========================  ==================
    branch  own commits                  manifest versions
    ======  ===========================  ==================
    main    genesis, A, B, (fork), C     1 to 3, 4, 5, 6
    dev     D, (fork), E                 5 from main, 6, 7
    sub     F, G                         6 from dev, 7, 8
    ======  ===========================  ==================
    """
    graph = GraphBuilder.create(root, SOCIAL, clock_us=times(*seconds))
    commits = {"A": add_people(graph, A=1), "B": add_people(graph, B=2)}
    graph.create_branch("dev")
    commits["D"] = add_people(graph, "dev", D=4)
    graph.create_branch("sub", source="dev")
    commits["F"] = add_people(graph, "sub", F=6)
    commits["C"] = add_people(graph, C=3)
    commits["E"] = add_people(graph, "dev", E=5)
    commits["G"] = add_people(graph, "sub", G=7)
    return commits


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("history") / "graph"


@pytest.fixture(scope="module")
def commits(root: Path) -> dict[str, str]:
    return write_history(root, range(8))


@pytest.fixture
def graph(root: Path, commits: dict[str, str]) -> og.Graph:
    return og.open(str(root))


def names(snapshot: og.Snapshot | og.Graph) -> str:
    """Who is there, as one word."""
    return "".join(sorted(ages(snapshot)))


# -- branches, commits, versions -----------------------------------------------------------------


def test_a_branch_is_read_at_its_head(graph: og.Graph, root: Path, commits: dict[str, str]) -> None:
    heads = {"main": ("ABC", 6, "C"), "dev": ("ABDE", 7, "E"), "sub": ("ABDFG", 8, "G")}

    for branch, (people, version, last) in heads.items():
        for snapshot in (
            og.open(str(root), branch=branch).snapshot(),
            graph.as_branch(branch).snapshot(),
            graph.at(branch=branch),
            graph.snapshot(og.Ref.branch(branch)),
        ):
            assert names(snapshot) == people
            assert (snapshot.branch, snapshot.manifest_version) == (branch, version)
            assert snapshot.commit.id == commits[last]
            assert snapshot.rows(PERSON) == len(people)


def test_a_commit_is_read_on_whatever_branch_it_was_made(
    graph: og.Graph, commits: dict[str, str]
) -> None:
    states = {"A": "A", "B": "AB", "C": "ABC", "D": "ABD", "E": "ABDE", "F": "ABDF", "G": "ABDFG"}

    for bound in (graph, graph.as_branch("dev"), graph.as_branch("sub")):
        for last, people in states.items():
            snapshot = bound.at(commit=commits[last])
            assert (names(snapshot), snapshot.commit.id) == (people, commits[last])
            assert names(bound.snapshot(og.Ref.commit(commits[last]))) == people


def test_a_version_is_read_on_the_branchs_own_line(graph: og.Graph) -> None:
    lines = {
        "main": {1: "", 2: "", 3: "", 4: "A", 5: "AB", 6: "ABC"},
        "dev": {5: "AB", 6: "ABD", 7: "ABDE"},
        "sub": {6: "ABD", 7: "ABDF", 8: "ABDFG"},
    }

    for branch, line in lines.items():
        for version, people in line.items():
            snapshot = graph.at(version=version, branch=branch)
            assert names(snapshot) == people
            assert (snapshot.branch, snapshot.manifest_version) == (branch, version)
            assert names(graph.as_branch(branch).at(version=version)) == people
            assert names(graph.snapshot(og.Ref.version(version, branch))) == people


def test_a_version_from_before_the_fork_says_where_the_branch_began(
    graph: og.Graph, root: Path
) -> None:
    with refused(VersionNotFoundError, root, "'dev'", "version 4", "began at 5", "newest is 7"):
        graph.at(version=4, branch="dev")
    with refused(VersionNotFoundError, root, "'sub'", "version 5", "began at 6", "newest is 8"):
        graph.at(version=5, branch="sub")
    with refused(VersionNotFoundError, root, "'main'", "version 7", "newest is 6"):
        graph.at(version=7)


def test_the_first_snapshot_has_every_type_and_no_row(graph: og.Graph) -> None:
    genesis = graph.history()[-1]
    snapshot = graph.at(commit=genesis.id)

    assert (genesis.parent_id, genesis.manifest_version) == (None, 1)
    assert snapshot.manifest_version == 1
    assert {key: snapshot.rows(key) for key in snapshot.entries} == {
        "edge:Knows": 0,
        "node:Company": 0,
        "node:Person": 0,
    }
    for key in snapshot.entries:
        assert snapshot.arrow(key).num_rows == 0
    assert snapshot.arrow(PERSON).column_names == ["id", "age", "name"]


def test_history_lists_what_a_snapshot_sees_newest_first(
    graph: og.Graph, commits: dict[str, str]
) -> None:
    person = {commit: name for name, commit in commits.items()}

    def history(bound: og.Graph) -> str:
        return "".join(person.get(commit.id, "-") for commit in bound.history())

    assert history(graph) == "CBA-"
    assert history(graph.as_branch("dev")) == "EDBA-"
    assert history(graph.as_branch("sub")) == "GFDBA-"
    assert [commit.id for commit in graph.history(limit=2)] == [commits["C"], commits["B"]]
    for newer, older in zip(graph.history(), graph.history()[1:], strict=False):
        assert newer.parent_id == older.id


def test_an_entity_is_read_at_a_version(graph: og.Graph) -> None:
    assert graph.entity("Person", "C") == {"id": "C", "age": 3, "name": "C"}
    assert graph.entity("Person", "C", version=5) is None
    assert graph.entity("Person", "A", version=4) == {"id": "A", "age": 1, "name": "A"}
    assert graph.as_branch("sub").entity("Person", "F", version=7) is not None


# -- timestamps ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("branch", "second", "people"),
    [
        ("main", 0, ""),
        ("main", 0.5, ""),
        ("main", 1, "A"),
        ("main", 1.999_999, "A"),
        ("main", 2, "AB"),
        ("main", 4.9, "AB"),  # D and F were made meanwhile, elsewhere
        ("main", 5, "ABC"),
        ("main", 10**9, "ABC"),
        ("dev", 0, ""),
        ("dev", 2, "AB"),
        ("dev", 2.9, "AB"),
        ("dev", 3, "ABD"),
        ("dev", 5.5, "ABD"),
        ("dev", 6, "ABDE"),
        ("sub", 1, "A"),
        ("sub", 3.5, "ABD"),
        ("sub", 4, "ABDF"),
        ("sub", 6.5, "ABDF"),  # E came to dev after the fork
        ("sub", 7, "ABDFG"),
    ],
)
def test_a_time_means_the_last_commit_of_the_branch_at_or_before_it(
    graph: og.Graph, branch: str, second: float, people: str
) -> None:
    text = at_second(second)
    moment = dt.datetime.fromisoformat(text)

    assert names(graph.at(timestamp=text, branch=branch)) == people
    assert names(graph.as_branch(branch).at(timestamp=moment)) == people
    elsewhere = moment.astimezone(dt.timezone(dt.timedelta(hours=-7)))
    assert names(graph.snapshot(og.Ref.timestamp(elsewhere, branch))) == people


@pytest.mark.parametrize("branch", ["main", "dev", "sub"])
def test_a_time_before_the_first_commit_says_when_that_was(
    graph: og.Graph, root: Path, branch: str
) -> None:
    for text in (at_second(-0.000_001), "1970-01-01", "0001-01-01"):
        with refused(TimestampNotFoundError, root, repr(branch), "first commit", at_second(0)):
            graph.at(timestamp=text, branch=branch)


def test_the_chain_of_parents_decides_when_clocks_go_backwards(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    #                      genesis, A, B, D, F, C, E, G
    commits = write_history(root, [5, 9, 2, 8, 1, 3, 9, 2])
    graph = og.open(str(root))

    assert names(graph.at(timestamp=at_second(2))) == "AB"
    assert names(graph.at(timestamp=at_second(3))) == "ABC"
    assert names(graph.at(timestamp=at_second(9))) == "ABC", "A is older, whatever its clock said"
    assert names(graph.at(timestamp=at_second(1), branch="sub")) == "ABDF"
    assert names(graph.at(timestamp=at_second(8), branch="dev")) == "ABD"
    with refused(TimestampNotFoundError, root, "first commit"):
        graph.at(timestamp=at_second(0.5), branch="sub")
    order = [commit.id for commit in graph.as_branch("sub").history()]
    assert order[:5] == [commits[name] for name in "GFDBA"]


def test_commits_of_one_instant_are_told_apart_by_their_order(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    commits = write_history(root, [1] * 8)
    graph = og.open(str(root))

    assert names(graph.at(timestamp=at_second(1))) == "ABC"
    assert names(graph.at(timestamp=at_second(1), branch="sub")) == "ABDFG"
    assert names(graph.at(commit=commits["A"])) == "A"


# -- while others write --------------------------------------------------------------------------


def test_a_graph_keeps_its_snapshot_until_it_is_refreshed(social: GraphBuilder) -> None:
    graph = og.open(str(social.root))
    before = graph.snapshot()

    commit = add_people(social, Dave=1)

    assert "Dave" not in ages(graph)
    assert len(graph.history()) == 3
    assert graph.refresh() is graph
    assert "Dave" in ages(graph)
    assert graph.snapshot().commit.id == commit
    assert "Dave" not in ages(before)
    assert "Dave" in ages(og.open(str(social.root)))


def test_all_types_of_a_snapshot_come_from_one_commit_while_a_writer_publishes(
    social: GraphBuilder,
) -> None:
    snapshot = og.open(str(social.root)).snapshot()
    people = snapshot.arrow(PERSON)

    for number in range(3):
        name = f"new {number}"
        social.write(
            {
                PERSON: [{"name": name}],
                KNOWS: [{"id": name, "src": name, "dst": "Alice"}],
            }
        )
        social.delete(KNOWS, "id = 'k1'")
        social.publish()

        assert snapshot.arrow(KNOWS)["id"].to_pylist() == ["k1"]
        assert snapshot.arrow(PERSON) == people
        assert snapshot.arrow(PERSON, where="name = 'Bob'").num_rows == 1
        assert snapshot.manifest_version == 5
    assert snapshot.entity(PERSON, "new 0") is None


def test_what_a_writer_did_not_publish_is_not_seen(social: GraphBuilder) -> None:
    social.append(PERSON, [{"name": "Dave", "age": 1}])
    social.delete(PERSON, "name = 'Bob'")

    assert sorted(ages(og.open(str(social.root)))) == ["Alice", "Bob", "Carol"]


def test_compacting_the_manifest_changes_no_state(social: GraphBuilder) -> None:
    graph = og.open(str(social.root))
    states = {commit.id: ages(graph.at(commit=commit.id)) for commit in graph.history()}

    social.compact_manifest()
    add_people(social, Dave=1)

    fresh = og.open(str(social.root))
    assert len(fresh.history()) == 4
    for commit, people in states.items():
        assert ages(fresh.at(commit=commit)) == people


@pytest.mark.parametrize("versions_late", [1, 3])
def test_a_publish_that_landed_later_than_its_commit_says_is_found(
    tmp_path: Path, versions_late: int
) -> None:
    graph = write_social(tmp_path / "social")
    rising = graph.clock_us

    def while_another_changes_the_configuration() -> int:
        for number in range(versions_late):
            graph.manifest().update_config({"note": str(number)})
        return rising()

    graph.clock_us = while_another_changes_the_configuration
    late = add_people(graph, Dave=1)
    graph.clock_us = rising
    after = add_people(graph, Erin=2)

    opened = og.open(str(graph.root))
    dave, erin = (next(c for c in opened.history() if c.id == id_) for id_ in (late, after))
    assert dave.manifest_version == 6, "what the writer planned"
    assert graph.manifest().version == 6 + versions_late + 1
    assert sorted(ages(opened.at(commit=late))) == ["Alice", "Bob", "Carol", "Dave"]
    assert sorted(ages(opened.at(timestamp=dave.created_at))) == ["Alice", "Bob", "Carol", "Dave"]
    assert "Erin" in ages(opened.at(commit=after))
    assert "Dave" not in ages(opened.at(version=6))
    assert erin.parent_id == late


def assert_only_its_own(snapshot: og.Snapshot, rows: dict[str, int]) -> None:
    """A snapshot whose files are gone fails, or has its rows in memory still."""
    with contextlib.suppress(DamagedGraphError):
        assert ages(snapshot) == rows


# -- what was deleted ----------------------------------------------------------------------------


def test_a_deleted_branch_and_its_commits_are_gone(social: GraphBuilder) -> None:
    social.create_branch("dev")
    commit = add_people(social, "dev", Dave=1)
    graph = og.open(str(social.root))
    dev = graph.as_branch("dev")
    assert "Dave" in ages(graph.at(commit=commit))

    delete_branch(social.root, "dev")

    with refused(CommitNotFoundError, social.root, repr(commit), "no branch of this graph"):
        graph.at(commit=commit)
    for ask in (dev.refresh, dev.history, lambda: graph.at(branch="dev")):
        with refused(BranchNotFoundError, social.root, "'dev'", "this graph has main"):
            ask()
    assert_only_its_own(dev.snapshot(), {"Alice": 30, "Bob": 41, "Carol": 7, "Dave": 1})
    assert [branch.name for branch in graph.branches()] == ["main"]
    assert sorted(ages(graph)) == ["Alice", "Bob", "Carol"]


def test_a_merged_parent_on_a_deleted_branch_is_named_and_cannot_be_read(
    social: GraphBuilder,
) -> None:
    social.create_branch("dev")
    merged = add_people(social, "dev", Dave=1)
    social.append(PERSON, [{"name": "Dave", "age": 1}])
    social.publish(merged_parent=merged)
    delete_branch(social.root, "dev")
    graph = og.open(str(social.root))

    assert graph.snapshot().commit.merged_parent_id == merged
    with refused(CommitNotFoundError, social.root, repr(merged)):
        graph.at(commit=merged)


@pytest.mark.parametrize("e_tags", [True, False])
def test_a_branch_made_again_under_its_name_is_another_branch(tmp_path: Path, e_tags: bool) -> None:
    social = GraphBuilder.create(tmp_path / "social", SOCIAL, e_tags=e_tags)
    add_people(social, Alice=30)
    social.create_index(PERSON, "age")
    social.publish()
    main = og.open(str(social.root))

    def make_dev(name: str, age: int) -> tuple[og.Graph, str]:
        social.create_branch("dev")
        commit = add_people(social, "dev", **{name: age})
        return og.open(str(social.root), branch="dev"), commit

    former, former_commit = make_dev("Dave", 1)
    former_snapshot = former.snapshot()
    assert ages(former) == {"Alice": 30, "Dave": 1}
    delete_branch(social.root, "dev")
    latter, latter_commit = make_dev("Erin", 2)

    same = ("node:Person", former.entries[PERSON].dataset_version, former.snapshot().branch)
    assert same == ("node:Person", latter.entries[PERSON].dataset_version, latter.branch)
    assert former_snapshot.manifest_version == latter.snapshot().manifest_version
    assert ages(latter) == {"Alice": 30, "Erin": 2}
    assert latter.snapshot().arrow(PERSON, where="age = 1").num_rows == 0
    assert ages(main.at(branch="dev")) == ages(main.at(commit=latter_commit)) == ages(latter)
    assert ages(main.at(branch="dev", version=latter.snapshot().manifest_version)) == ages(latter)

    # The former is gone, and nothing of the latter is served in its name.
    with refused(CommitNotFoundError, social.root, repr(former_commit)):
        main.at(commit=former_commit)
    assert_only_its_own(former_snapshot, {"Alice": 30, "Dave": 1})
    with refused(CommitNotFoundError, social.root, repr(former_commit), "made again"):
        former.history()
    assert ages(former.refresh()) == ages(latter)
    assert former.history()[0].id == latter_commit


def test_a_commit_of_a_former_branch_that_is_still_listed_is_refused(social: GraphBuilder) -> None:
    social.create_branch("dev")
    former = add_people(social, "dev", Dave=1)
    rows = social.manifest("dev").to_table().to_pylist()
    [row] = [row for row in rows if row["object_id"] == former]
    delete_branch(social.root, "dev")
    social.create_branch("dev")
    add_people(social, "dev", Erin=2)
    merge = social.manifest().merge_insert("object_id").when_not_matched_insert_all()
    merge.execute(pa.Table.from_pylist([row], schema=MANIFEST_SCHEMA))

    with refused(CommitNotFoundError, social.root, repr(former), "'dev'"):
        og.open(str(social.root)).at(commit=former)


@pytest.mark.parametrize("e_tags", [True, False])
def test_a_graph_made_again_at_its_place_is_another_graph(tmp_path: Path, e_tags: bool) -> None:
    root = tmp_path / "graph"

    def make(name: str, age: int) -> og.Graph:
        graph = GraphBuilder.create(root, SOCIAL, e_tags=e_tags)
        add_people(graph, "main", **{name: age})
        graph.create_index(PERSON, "age")
        graph.publish()
        graph.create_branch("dev")
        add_people(graph, "dev", **{f"{name}'s guest": age})
        return og.open(str(root))

    former = make("Alice", 1)
    versions = [former.at(version=version) for version in range(1, 6)]
    assert [names(snapshot) for snapshot in versions] == ["", "", "", "Alice", "Alice"]
    assert former.snapshot().arrow(PERSON, where="age = 1").num_rows == 1
    assert names(former.as_branch("dev")) == "AliceAlice's guest"
    former_commit = former.snapshot().commit.id

    shutil.rmtree(root)
    with refused(GraphNotFoundError, root, "nothing is there"):
        former.refresh()
    latter = make("Zoe", 2)

    assert latter.snapshot().manifest_version == former.snapshot().manifest_version
    assert ages(latter) == {"Zoe": 2}
    assert [names(latter.at(version=version)) for version in range(1, 6)] == [
        "",
        "",
        "",
        "Zoe",
        "Zoe",
    ]
    assert latter.snapshot().arrow(PERSON, where="age = 1").num_rows == 0
    assert latter.snapshot().arrow(PERSON, where="age = 2").num_rows == 1
    assert names(latter.as_branch("dev")) == "ZoeZoe's guest"
    with refused(CommitNotFoundError, root, repr(former_commit)):
        former.at(commit=former_commit)
    with refused(CommitNotFoundError, root, repr(former_commit)):
        former.history()
    assert_only_its_own(versions[4], {"Alice": 1})
    assert ages(former.refresh()) == {"Zoe": 2}


def test_another_schema_at_the_same_place_is_read_anew(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    GraphBuilder.create(root, SOCIAL)
    assert sorted(og.open(str(root)).entries) == ["edge:Knows", "node:Company", "node:Person"]

    shutil.rmtree(root)
    GraphBuilder.create(root, "node Person { name: String @key height: F64? }")
    graph = og.open(str(root))

    assert sorted(graph.entries) == ["node:Person"]
    assert graph.snapshot().arrow(PERSON).column_names == ["id", "height", "name"]
    assert [p.name for p in graph.schema.nodes[0].properties] == ["height", "name"]


def test_a_dataset_restored_to_an_older_version_is_read_at_its_pin(social: GraphBuilder) -> None:
    graph = og.open(str(social.root))
    folder = social.root / graph.entries[PERSON].path
    lance.dataset(str(folder), version=1).restore()

    assert sorted(ages(og.open(str(social.root)))) == ["Alice", "Bob", "Carol"]
