"""Building declared indexes: all of them, carried on or anew, right after every kind of write."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import omnigraph_spark as og
from omnigraph_spark.maintenance import indexing
from omnigraph_spark.maintenance.indexing import IndexAction
from omnigraph_spark.storage import indexing as stored_indexing
from tests.engine.upkeep_work import (
    CITES,
    DECLARED,
    DOC,
    assert_answers_agree,
    cites,
    content,
    dataset,
    docs,
    found_texts,
    fragments,
    indexes,
    nearest,
    questions,
    write_library,
)
from tests.engine.writing import assert_whole


@pytest.fixture(scope="module")
def library_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("original") / "library"
    write_library(root).build_indexes()
    return root


@pytest.fixture
def library(library_root: Path, tmp_path: Path) -> og.Graph:
    """Docs and citations with every declared index."""
    return og.open(shutil.copytree(library_root, tmp_path / "library"), actor="ann")


def test_every_declared_index_is_built_once_and_over_everything(library: og.Graph) -> None:
    declared = {DOC: {**DECLARED[DOC], "vector": "IVF_FLAT"}, CITES: DECLARED[CITES]}
    for key, columns in declared.items():
        found = indexes(library, key)
        assert {column: kind for column, (kind, _) in found.items()} == columns
        assert all(segments == [fragments(library, key)] for _, segments in found.values())
    names = {index.name for index in dataset(library).describe_indices()}
    assert names == {"id_idx", "size_idx", "slug_idx", "title_idx", "vector_idx"}
    assert library.build_indexes() == []
    assert library.health() == []
    assert_whole(library)


def test_one_commit_without_an_actor_brings_the_indexes_of_all_types(tmp_path: Path) -> None:
    graph = write_library(tmp_path / "g")
    before, rows = graph.history(), content(graph)
    built = graph.build_indexes()
    [commit] = {build.commit for build in built}
    assert commit is not None
    assert (commit.actor, commit.parent_id) == (None, before[0].id)
    assert {build.type_key for build in built} == {DOC, CITES}
    assert {build.action for build in built} == {IndexAction.BUILT}
    assert content(graph) == rows


def test_a_point_filter_goes_through_the_index(library: og.Graph) -> None:
    plan = dataset(library).scanner(filter="id = 'd3'").explain_plan()
    assert "ScalarIndexQuery" in plan
    assert "id_idx" in plan


def test_a_fragment_that_no_index_covers_is_read(library: og.Graph) -> None:
    library.write(docs({"new": 77}), "Doc")
    assert fragments(library) - indexes(library)["id"][1][0]
    assert_answers_agree(library, DOC, ["id = 'new'", "size = 77", "size <> 77"])


def test_writes_after_indexing_are_answered_right_and_again_after_building(
    library: og.Graph,
) -> None:
    library.write(docs({"d1": 101, "d2": 102, "d20": 120}), "Doc", "merge")
    library.delete("Doc", ids=["d5"])
    asked = [*questions([1, 2, 5, 7, 101, 102, 120])]
    assert_answers_agree(library, DOC, asked)
    built = {build.column: build.action for build in library.build_indexes() if build.commit}
    # Lance would keep the old words of d1 and d2, and joins vectors of one centre only.
    assert built == {
        "id": IndexAction.EXTENDED,
        "size": IndexAction.EXTENDED,
        "slug": IndexAction.REBUILT,
        "title": IndexAction.REBUILT,
        "vector": IndexAction.REBUILT,
        # The deletion of a doc took edges with it, and brought none.
    }
    assert all(segments == [fragments(library)] for _, segments in indexes(library).values())
    assert_answers_agree(library, DOC, asked)
    assert found_texts(library, "number1") == []
    assert found_texts(library, "number101") == ["d1"]
    assert nearest(library, 1.2) == "d0"
    assert nearest(library, 101.2) == "d1"
    assert library.build_indexes() == []


def test_texts_that_only_came_are_added_to_the_index_that_is_there(library: og.Graph) -> None:
    library.write(docs({"d30": 30}), "Doc")
    built = {build.column: build.action for build in library.build_indexes()}
    assert built["title"] is IndexAction.EXTENDED
    assert found_texts(library, "number30") == ["d30"]
    assert found_texts(library, "number3") == ["d3"]


def test_a_changed_end_of_an_edge_is_found_where_it_is_now(library: og.Graph) -> None:
    moved = cites([("d0", "d1")]).set_column(2, "dst", [["d9"]])
    library.write(moved, "Cites", "merge")
    library.build_indexes()
    assert_answers_agree(library, CITES, ["dst = 'd1'", "dst = 'd9'", "src = 'd0'"])
    ends = library.snapshot().arrow("Cites", columns=["id"], where="dst = 'd9'")
    assert sorted(ends.column("id").to_pylist()) == ["d0-d1", "d8-d9"]


def test_vectors_wait_for_the_first_one(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", "node Doc { slug: String @key vector: Vector(2)? @index }")
    graph.write(docs({"a": 1}).select(["slug"]), "Doc")
    assert {build.column for build in graph.build_indexes()} == {"id", "slug"}
    graph.write(docs({"b": 2}).select(["slug", "vector"]), "Doc", "merge")
    assert "vector" in {build.column for build in graph.build_indexes()}
    assert nearest(graph, 9.0) == "b"


def test_an_empty_type_has_no_index(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "g", "node Doc { slug: String @key }")
    assert graph.build_indexes() == []
    assert len(graph.history()) == 1


def test_many_fragments_are_indexed_in_portions_and_end_in_one_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "SEGMENT_ROWS", 5)
    graph = write_library(tmp_path / "g")
    graph.build_indexes()
    for _, segments in indexes(graph).values():
        assert segments == [fragments(graph)]
    folders = list(Path(dataset(graph).uri, "_indices").iterdir())
    assert len(folders) == 5, "segments that were joined are gone"
    assert_answers_agree(graph, DOC, questions(range(0, 16, 5)))
    assert found_texts(graph, "number7") == ["d7"]
    assert nearest(graph, 14.9) == "d15"


def test_pages_of_an_index_are_small_so_that_little_is_read_to_find_a_value(tmp_path: Path) -> None:
    graph = write_library(tmp_path / "g")
    graph.write(docs({f"e{number}": number for number in range(1_000)}), "Doc")
    graph.build_indexes()
    assert _pages(graph) == 2
    assert_answers_agree(graph, DOC, questions(range(-1, 1_000, 250)))


def test_an_index_that_grew_to_too_many_pages_is_built_anew_with_larger_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_indexing, "_PAGE_ROWS", 4)
    graph = write_library(tmp_path / "g")
    graph.build_indexes()
    assert _pages(graph) == 4
    monkeypatch.setattr(stored_indexing, "_CROWDED", 1)
    monkeypatch.setattr(stored_indexing, "_MOST_PAGES", 2)
    graph.write(docs({f"e{number}": number for number in range(4)}), "Doc")
    actions = {build.column: build.action for build in graph.build_indexes()}
    assert actions["id"] == IndexAction.REBUILT
    assert _pages(graph) == 2
    assert_answers_agree(graph, DOC, questions(range(-1, 20)))


def _pages(graph: og.Graph) -> int:
    [part] = dataset(graph).stats.index_stats("id_idx")["indices"]
    return int(part["num_pages"])


def test_a_branch_indexes_what_it_owns_and_leaves_the_rest(library: og.Graph) -> None:
    library.create_branch("dev")
    dev = library.as_branch("dev")
    assert dev.build_indexes() == []
    dev.write(docs({"d1": 500, "only": 501}), "Doc", "merge")
    main_before = indexes(library)
    built = dev.build_indexes()
    assert {build.type_key for build in built} == {DOC}
    assert indexes(dev)["size"][1] == [fragments(dev)]
    assert_answers_agree(dev, DOC, questions([1, 500, 501]))
    assert indexes(library) == main_before
    assert_answers_agree(library, DOC, questions([1, 500]))
    assert_whole(dev)


def test_a_second_level_branch_can_be_indexed(library: og.Graph) -> None:
    library.create_branch("dev")
    dev = library.as_branch("dev")
    dev.write(docs({"d1": 500}), "Doc", "merge")
    dev.build_indexes()
    dev.create_branch("sub", from_="dev")
    sub = library.as_branch("sub")
    sub.write(docs({"d2": 600}), "Doc", "merge")
    sub.build_indexes()
    assert indexes(sub)["size"][1] == [fragments(sub)]
    assert_answers_agree(sub, DOC, questions([1, 2, 500, 600]))


def test_an_index_that_other_tools_carried_on_is_built_anew(library: og.Graph) -> None:
    library.write(docs({"d1": 101}), "Doc", "merge")
    dataset(library).optimize.optimize_indices(num_indices_to_merge=0)
    library.repair(force=True)
    kinds = {str(finding.kind) for finding in library.health()}
    assert kinds == {"doubtful_index"}
    assert {build.action for build in library.build_indexes()} == {IndexAction.REBUILT}
    assert library.health() == []
    assert_answers_agree(library, DOC, questions([1, 101]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_writes_and_builds_never_make_an_index_lie(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    graph = write_library(tmp_path / "g")
    sizes = {f"d{i}": i for i in range(16)}
    for step in range(1, 9):
        chosen = {f"d{chance.randrange(20)}": 100 * step + n for n in range(3)}
        graph.write(docs(chosen), "Doc", "merge")
        sizes |= chosen
        if chance.random() < 0.4:
            gone = chance.choice(sorted(sizes))
            graph.delete("Doc", ids=[gone])
            del sizes[gone]
        if chance.random() < 0.5:
            graph.optimize() if chance.random() < 0.4 else graph.build_indexes()
        asked = [*chosen.values(), *chance.sample(sorted(sizes.values()), 3), *range(0, 16, 6)]
        assert_answers_agree(graph, DOC, questions(asked))
    rows = graph.snapshot().arrow("Doc", columns=["slug", "size"]).to_pylist()
    assert {row["slug"]: row["size"] for row in rows} == sizes
    assert_whole(graph)
