"""Refs on random graphs: every branch, commit, version and time resolves as a plain model says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark import Graph, Ref, Snapshot
from omnigraph_spark.errors import (
    BranchNotFoundError,
    CommitNotFoundError,
    NotFoundError,
    TimestampNotFoundError,
    VersionNotFoundError,
)
from omnigraph_spark.names import (
    AnyRef,
    BranchRef,
    CommitRef,
    TimestampRef,
    VersionRef,
    timestamp_text,
)
from tests.helpers.builder import GraphBuilder
from tests.helpers.rows import new_ulid

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"
#: Commit times are drawn from this many microseconds, so they repeat and go backwards.
TIMES = 40
STEPS = 16


@dataclass(frozen=True)
class Made:
    """One commit: where and when it was made."""

    id: str
    branch: str
    version: int
    at_us: int


@dataclass(frozen=True)
class State:
    """A graph at one manifest version: its commits, oldest first, and who is in it."""

    commits: tuple[Made, ...]
    people: frozenset[str]


@dataclass(frozen=True)
class Answer:
    """What a snapshot is compared by."""

    branch: str
    version: int
    commit: str
    people: frozenset[str]


@dataclass
class World:
    """A graph and the model of it: per branch, what each of its manifest versions holds."""

    graph: GraphBuilder
    clock: Iterator[int]
    lines: dict[str, dict[int, State]] = field(default_factory=dict)
    #: Commits of branches that were deleted.
    lost: list[str] = field(default_factory=list)

    def state(self, branch: str) -> State:
        line = self.lines[branch]
        return line[max(line)]

    def record(self, branch: str, state: State) -> None:
        """Note what a branch holds at the version storage is at now."""
        self.lines.setdefault(branch, {})[self.graph.manifest(branch).version] = state

    def publish(self, branch: str, people: set[str], merged: str | None = None) -> None:
        if people:
            self.graph.append("node:Person", [{"name": name} for name in people], branch=branch)
        made = self.graph.publish(branch=branch, merged_parent=merged)
        before, version = self.state(branch), self.graph.manifest(branch).version
        commit = Made(made, branch, version, next(self.clock))
        self.record(branch, State((*before.commits, commit), before.people | people))

    def compact(self, branch: str) -> None:
        """Lance takes more than one version for this; none of them says anything new."""
        before, state = max(self.lines[branch]), self.state(branch)
        after = self.graph.compact_manifest(branch=branch)
        self.lines[branch] |= dict.fromkeys(range(before, after + 1), state)

    def answer(self, branch: str, version: int) -> Answer:
        state = self.lines[branch][version]
        return Answer(branch, version, state.commits[-1].id, state.people)

    def commits(self) -> list[Made]:
        return [made for line in self.lines.values() for made in line[max(line)].commits]

    def resolve(self, ref: AnyRef) -> Answer | type[NotFoundError]:
        """What the ref means, in the plainest words."""
        match ref:
            case BranchRef(branch):
                if branch not in self.lines:
                    return BranchNotFoundError
                return self.answer(branch, max(self.lines[branch]))
            case VersionRef(number, branch):
                if branch not in self.lines:
                    return BranchNotFoundError
                if number not in self.lines[branch]:
                    return VersionNotFoundError
                return self.answer(branch, number)
            case CommitRef(id_):
                for made in self.commits():
                    if made.id == id_:
                        return self.answer(made.branch, made.version)
                return CommitNotFoundError
            case TimestampRef(at_us, branch):
                if branch not in self.lines:
                    return BranchNotFoundError
                for made in reversed(self.state(branch).commits):
                    if made.at_us <= at_us:
                        return self.answer(made.branch, made.version)
                return TimestampNotFoundError


def build(root: Path, seed: int) -> World:
    """Publish, fork and compact at random; the seed decides."""
    chance = random.Random(seed)
    times = [chance.randrange(TIMES) for _ in range(STEPS + 2)]
    graph = GraphBuilder.create(root, SCHEMA, clock_us=iter(times).__next__)
    world = World(graph, iter(times))
    genesis = graph.manifest().to_table().to_pylist()
    (first,) = [row["object_id"] for row in genesis if row["object_type"] == "graph_commit"]
    start = State((Made(first, "main", 1, next(world.clock)),), frozenset())
    world.lines["main"] = dict.fromkeys((1, 2, 3), start)
    for step in range(STEPS):
        branch = chance.choice(sorted(world.lines))
        kind = chance.choice(["write", "write", "write", "empty", "merge", "fork", "compact"])
        if kind == "fork":
            name = chance.choice([f"b{step}", f"team/{step}", f"x.{step}"])
            graph.create_branch(name, source=branch)
            world.record(name, world.state(branch))
        elif kind == "compact":
            world.compact(branch)
        else:
            merged = chance.choice(world.commits()).id if kind == "merge" else None
            world.publish(branch, set() if kind == "empty" else {f"p{step}"}, merged)
    graph.create_branch("gone")
    world.lost.append(graph.publish(branch="gone"))
    lance.dataset(f"{graph.root}/__manifest").branches.delete("gone")
    return world


@pytest.fixture(scope="module", params=[1, 3, 8])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("refs") / "g", request.param)


@pytest.fixture(scope="module")
def opened(world: World) -> Graph:
    return og.open(str(world.graph.root))


def seen(snapshot: Snapshot) -> Answer:
    people = frozenset(row["id"] for row in snapshot.arrow("Person", ["id"]).to_pylist())
    assert snapshot.rows("Person") == len(people)
    return Answer(snapshot.branch, snapshot.manifest_version, snapshot.commit.id, people)


def resolved(graph: Graph, ref: AnyRef) -> Answer | type[Exception]:
    try:
        return seen(graph.snapshot(ref))
    except NotFoundError as error:
        return type(error)


def refs(world: World) -> st.SearchStrategy[AnyRef]:
    """Refs to what there is, and to what there is not."""
    branches = st.sampled_from([*world.lines, "gone", "nope"])
    newest = max(max(line) for line in world.lines.values())
    commits = [made.id for made in world.commits()]
    return st.one_of(
        st.builds(Ref.branch, branches),
        st.builds(Ref.version, st.integers(1, newest + 2), branches),
        st.builds(Ref.commit, st.sampled_from([*commits, *world.lost, new_ulid()])),
        st.builds(Ref.timestamp, st.integers(-2, TIMES + 2).map(timestamp_text), branches),
    )


def test_the_random_graphs_are_worth_asking(world: World) -> None:
    assert len(world.lines) >= 3
    assert len(world.commits()) >= 8
    times = [[made.at_us for made in world.state(branch).commits] for branch in world.lines]
    assert any(line != sorted(line) for line in times)
    versions = [sorted(line) for line in world.lines.values()]
    assert any(line[0] > 1 for line in versions)


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_random_ref_resolves_as_the_model_says(
    world: World, opened: Graph, data: st.DataObject
) -> None:
    ref = data.draw(refs(world))
    assert resolved(opened, ref) == world.resolve(ref)


def test_every_commit_is_read_as_it_was_made(world: World, opened: Graph) -> None:
    for made in world.commits():
        snapshot = opened.snapshot(Ref.commit(made.id))
        assert seen(snapshot) == world.answer(made.branch, made.version)
        assert snapshot.commit.created_at_us == made.at_us


def test_every_version_of_every_branch_is_read_and_none_beside_them(
    world: World, opened: Graph
) -> None:
    for branch, line in world.lines.items():
        for version in range(1, max(line) + 2):
            ref = Ref.version(version, branch)
            assert resolved(opened, ref) == world.resolve(ref)


def test_the_history_of_a_branch_is_what_it_inherited_and_made_newest_first(
    world: World, opened: Graph
) -> None:
    for branch in world.lines:
        history = [commit.id for commit in opened.as_branch(branch).history()]
        assert history == [made.id for made in reversed(world.state(branch).commits)]
        assert [c.id for c in opened.as_branch(branch).history(limit=2)] == history[:2]


def test_the_branches_are_those_of_the_model_with_their_heads(world: World, opened: Graph) -> None:
    found = {branch.name: branch.head.id for branch in opened.branches()}
    assert found == {name: world.state(name).commits[-1].id for name in world.lines}
    assert list(found) == sorted(found)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_graph_bound_to_a_branch_means_its_own_versions_and_times(
    world: World, opened: Graph, data: st.DataObject
) -> None:
    branch = data.draw(st.sampled_from(sorted(world.lines)))
    bound = opened.as_branch(branch)
    version = data.draw(st.sampled_from(sorted(world.lines[branch])))
    assert seen(bound.at(version=version)) == world.answer(branch, version)
    ref = Ref.timestamp(timestamp_text(data.draw(st.integers(TIMES // 2, TIMES))), branch)
    assert seen(bound.at(timestamp=timestamp_text(ref.at_us))) == world.resolve(ref)
    assert seen(bound.at()) == world.resolve(Ref.branch(branch))
    assert seen(bound.snapshot()) == world.resolve(Ref.branch(branch))


def test_a_bound_graph_keeps_its_snapshot_until_it_is_refreshed(tmp_path: Path) -> None:
    world = build(tmp_path / "g", 3)
    graph = og.open(str(world.graph.root))
    before = seen(graph.snapshot())
    world.clock = iter([TIMES])
    world.graph.clock_us = iter([TIMES]).__next__
    world.publish("main", {"new"})
    assert seen(graph.snapshot()) == before
    assert seen(graph.at()) == world.resolve(Ref.branch("main"))
    assert seen(graph.refresh().snapshot()) == world.resolve(Ref.branch("main"))
    assert before.people | {"new"} == seen(graph.snapshot()).people


def test_a_branch_whose_files_are_gone_does_not_hide_commits_of_others(tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "g", SCHEMA)
    for name in ("a", "b", "c"):
        graph.create_branch(name)
    wanted = graph.publish(branch="c")
    # What a deletion leaves that died between the files and the ref.
    tree = graph.root / "__manifest" / "tree" / "b"
    tree.rename(tmp_path / "gone")
    opened = og.open(str(graph.root))
    assert opened.at(commit=wanted).branch == "c"
    with pytest.raises(CommitNotFoundError):
        opened.at(commit=new_ulid())
