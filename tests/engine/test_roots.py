"""A graph is where its folder is: spelled, moved or copied however, it reads its own files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import InvalidNameError, UnsupportedError
from tests.engine.graphs import PERSON, SOCIAL, add_people, ages, listing, refused, write_social
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder
from tests.helpers.exported import exported_rows, lines
from tests.helpers.golden import Expected

MAIN = {"Alice": 30, "Bob": 41, "Carol": 7}
DEV = MAIN | {"Dave": 1}
SUB = DEV | {"Erin": 2}
STATES = {"main": MAIN, "team/dev": DEV, "sub": SUB, "idle": SUB}


def write_branches(graph: GraphBuilder) -> GraphBuilder:
    """Branches of branches, two of which forked the people; `idle` wrote nothing yet.

    The index matters: a filter looks it up where the branch's manifest says it is.
    """
    graph.create_index(PERSON, "id")
    graph.publish()
    graph.create_branch("team/dev")
    add_people(graph, "team/dev", Dave=1)
    graph.create_branch("sub", source="team/dev")
    add_people(graph, "sub", Erin=2)
    graph.create_branch("idle", source="sub")
    return graph


def change_everything(graph: GraphBuilder) -> None:
    """Other rows on every branch, under the version numbers a copy continues with as well."""
    for branch in STATES:
        add_people(graph, branch, Original=99)


def read_states(root: Path | str) -> dict[str, dict[str, int | None]]:
    """The people on every branch, read in whole and through filters."""
    graph = og.open(str(root))
    states = {}
    for branch in graph.branches():
        snapshot = graph.at(branch=branch.name)
        states[branch.name] = ages(snapshot)
        for name, age in states[branch.name].items():
            entity = snapshot.entity(PERSON, name)
            assert entity == {"id": name, "name": name, "age": age}
        assert snapshot.entity(PERSON, "nobody") is None
    return states


@pytest.fixture(scope="module")
def branched_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("branched")
    return write_branches(write_social(folder / "graph")).root


@pytest.fixture
def branched(tmp_path: Path) -> GraphBuilder:
    return write_branches(write_social(tmp_path / "graph"))


# -- spellings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spell",
    [
        str,
        lambda root: f"{root}/",
        lambda root: f"{root}///",
        lambda root: f"{root}/.",
        lambda root: f"{root.parent}/elsewhere/../{root.name}",
        lambda root: f"{root.parent}//{root.name}",
        lambda root: f"file://{root}",
        lambda root: f"file://{root}/",
        lambda root: f"file://localhost{root}",
        lambda root: f"file:{root}",
        lambda root: f"FILE://{root}",
        lambda root: root.as_uri(),
    ],
)
def test_every_spelling_of_a_root_is_the_same_graph(
    branched_once: Path, spell: Callable[[Path], str]
) -> None:
    graph = og.open(spell(branched_once))

    assert graph.root == str(branched_once)
    assert read_states(spell(branched_once)) == STATES


@pytest.mark.parametrize("spelling", ["graph", "./graph", "graph/", "../{0}/graph"])
def test_a_relative_root_is_one_of_the_working_directory(
    branched_once: Path, spelling: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(branched_once.parent)
    graph = og.open(spelling.format(branched_once.parent.name))
    states = read_states(spelling.format(branched_once.parent.name))

    monkeypatch.chdir(tmp_path)

    assert states == STATES
    assert graph.root == str(branched_once)
    assert ages(graph.refresh()) == MAIN, "the root was made absolute when the graph was opened"


@pytest.mark.parametrize("name", ["my graph", "雪だるま", "a%20b", "what? #1 [x]{y} ~a'b+c&d"])
def test_a_root_may_have_any_letters(branched: GraphBuilder, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    root = branched.root.rename(tmp_path / name / name)

    assert read_states(root) == STATES
    assert read_states(root.as_uri()) == STATES


def test_a_graph_behind_a_link_is_read(branched_once: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(branched_once, target_is_directory=True)

    assert og.open(str(link)).root == str(link)
    assert read_states(link) == STATES
    assert read_states(link) == read_states(branched_once)


def test_a_link_that_points_elsewhere_now_is_another_graph(tmp_path: Path) -> None:
    first, second = write_social(tmp_path / "first"), write_social(tmp_path / "second")
    add_people(first, First=1)
    add_people(second, Second=2)
    link = tmp_path / "link"

    link.symlink_to(first.root)
    assert ages(og.open(str(link))) == MAIN | {"First": 1}
    link.unlink()
    link.symlink_to(second.root)

    assert ages(og.open(str(link))) == MAIN | {"Second": 2}


@pytest.mark.parametrize("root", ["", " ", "file://host/graph", "file://", "s3://", "s3://bucket"])
def test_an_address_that_names_no_place_is_refused(tmp_path: Path, root: str) -> None:
    with refused(InvalidNameError, tmp_path, "graph root", repr(root)):
        og.open(root)


@pytest.mark.parametrize("root", ["gs://bucket/graph", "http://host/graph", "hdfs://host/graph"])
def test_a_store_that_is_not_supported_is_named_with_those_that_are(
    tmp_path: Path, root: str
) -> None:
    with refused(UnsupportedError, tmp_path, root.split("/", 1)[0], "s3://", "local path"):
        og.open(root)


# -- moved and copied ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["g", "graph of a much longer name than before", "tree", "nodes"])
def test_a_moved_graph_reads_its_files_where_they_are_now(
    branched: GraphBuilder, tmp_path: Path, name: str
) -> None:
    root = branched.root.rename(tmp_path / f"moved-{name}").rename(tmp_path / name)
    before = listing(root)

    assert read_states(root) == STATES
    assert listing(root) == before, "nothing on disk is rewritten"


def test_a_copy_reads_its_own_files_while_the_original_changes(
    branched: GraphBuilder, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(branched.root, tmp_path / "copy"))

    assert read_states(copy) == STATES
    change_everything(branched)
    assert read_states(copy) == STATES
    assert read_states(branched.root) == {
        branch: people | {"Original": 99} for branch, people in STATES.items()
    }

    # Each file the copy needs is its own: without the original nothing is missing.
    shutil.rmtree(branched.root)
    assert read_states(copy) == STATES


def test_a_copy_whose_own_files_are_gone_does_not_borrow_those_of_the_original(
    branched: GraphBuilder, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(branched.root, tmp_path / "copy"))
    for folder in (*copy.glob("nodes/*/data"), *copy.glob("edges/*/data")):
        shutil.rmtree(folder)

    for branch in STATES:
        snapshot = og.open(str(copy), branch=branch).snapshot()
        with pytest.raises(og.OmnigraphError, match=r"OMNIGRAPH_GRAPH_DAMAGED.*/copy/nodes/"):
            snapshot.arrow(PERSON)


def test_a_copy_that_is_written_to_goes_its_own_way(branched: GraphBuilder, tmp_path: Path) -> None:
    copy = GraphBuilder.open(Path(shutil.copytree(branched.root, tmp_path / "copy")))
    change_everything(branched)

    add_people(copy, Copied=1)

    assert read_states(copy.root) == STATES | {"main": MAIN | {"Copied": 1}}


def test_two_copies_at_one_place_after_each_other_are_not_mixed_up(
    branched: GraphBuilder, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    shutil.copytree(branched.root, place)
    assert read_states(place) == STATES

    change_everything(branched)
    shutil.rmtree(place)
    shutil.copytree(branched.root, place)

    assert read_states(place) == read_states(branched.root)


def test_branches_named_like_parts_of_a_graph_move_as_well(tmp_path: Path) -> None:
    graph = write_social(tmp_path / "nodes" / "tree" / "graph")
    parent, states = "main", {"main": MAIN}
    for number, name in enumerate(["x/__manifest", "__manifest/tree/y", "nodes/tree"]):
        graph.create_branch(name, source=parent)
        add_people(graph, name, **{f"person {number}": number})
        states[name] = states[parent] | {f"person {number}": number}
        parent = name
    assert read_states(graph.root) == states

    root = graph.root.rename(tmp_path / "__manifest")

    assert read_states(root) == states


def test_a_graph_made_through_a_relative_root_is_read_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made").mkdir()
    monkeypatch.chdir(tmp_path / "made")
    graph = GraphBuilder.create(Path("graphs/social"), SOCIAL)
    graph.root = Path("graphs/social")  # so that Lance embeds a relative address in branches
    graph.write({PERSON: [{"name": name, "age": age} for name, age in MAIN.items()]})
    write_branches(graph)
    embedded = (Path("graphs/social/__manifest/tree/sub/_versions")).glob("*.manifest")
    assert all(str(tmp_path).encode() not in file.read_bytes() for file in embedded)
    assert read_states("graphs/social") == STATES

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    absolute = tmp_path / "made" / "graphs" / "social"
    assert read_states(absolute) == STATES
    assert read_states("../made/graphs/social") == STATES

    # A graph that lies where the embedded address leads to from here is another one.
    decoy = write_branches(write_social(tmp_path / "elsewhere" / "graphs" / "social"))
    change_everything(decoy)
    assert read_states(absolute) == STATES


@pytest.mark.parametrize("case", ["branches", "optimized"])
def test_what_the_engine_wrote_elsewhere_reads_in_each_of_two_copies(
    tmp_path: Path, case: str
) -> None:
    expected = Expected(case)
    first = golden.unpack(case, tmp_path / "first")
    second = Path(shutil.copytree(first, tmp_path / "second"))

    for root in (first, second):
        for branch in expected.branches()[:4]:
            snapshot = og.open(str(root), branch=branch).snapshot()
            exported = [
                line
                for key in snapshot.entries
                for line in lines(exported_rows(key, snapshot.arrow(key, blobs="bytes")))
            ]
            assert exported == lines(expected.export(branch))
        shutil.rmtree(root)
