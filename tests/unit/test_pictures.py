"""Pictures of a graph: well-formed SVG that holds what it should and lets nothing overlap."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import omnigraph_spark as og
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.pictures.history import draw_history, lanes_of, newest_first
from omnigraph_spark.pictures.layers import Box, columns_of, place
from omnigraph_spark.pictures.svg import Picture
from tests.helpers.golden import unpack


def commit(
    id: str, branch: str = "main", parent: str | None = None, merged: str | None = None, at: int = 0
) -> Commit:
    return Commit(id, branch, 1, parent, merged, None, at)


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.open(unpack("branches", tmp_path_factory.mktemp("branched")), mode="r")


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.open(unpack("rich", tmp_path_factory.mktemp("rich")), mode="r")


def words(picture: Picture) -> list[str]:
    tree = ElementTree.fromstring(picture.svg)
    return [node.text or "" for node in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_a_history_names_every_branch_and_every_commit_once(branched: og.Graph) -> None:
    picture = branched.show_history()
    shown = words(picture)
    for branch in branched.branches():
        assert shown.count(branch.name) == 1
        assert shown.count(branch.head.id[-10:]) == 1
    commits = {c.id for b in branched.branches() for c in branched.as_branch(b.name).history()}
    assert {word for word in shown if re.fullmatch("[0-9A-Z]{10}", word)} == {
        id[-10:] for id in commits
    }


def test_a_long_history_is_cut_and_says_so(branched: og.Graph) -> None:
    assert "… and 14 older" in words(branched.show_history(limit=3))


def test_a_parent_is_below_its_child_though_its_clock_was_ahead() -> None:
    late = commit("a", at=900)
    child = commit("b", parent="a", at=100)
    side = commit("c", branch="dev", parent="a", at=500)
    merge = commit("d", parent="b", merged="c", at=200)
    assert [found.id for found in newest_first([late, child, side, merge])] == ["d", "c", "b", "a"]


def test_lanes_are_used_again_once_a_branch_has_ended() -> None:
    base = [commit("a0", at=0)]
    for number in range(1, 6):
        before = base[-1].id
        base.append(commit(f"b{number}", f"dev{number}", parent=before, at=10 * number))
        base.append(commit(f"a{number}", parent=before, merged=f"b{number}", at=10 * number + 5))
    lanes = lanes_of(newest_first(base))
    assert lanes["main"] == 0
    assert set(lanes.values()) == {0, 1, 2}


def test_a_history_without_a_shown_parent_still_draws() -> None:
    picture = draw_history([commit("z" * 12, parent="gone", merged="deleted")], [], 5)
    assert "zzzzzzzzzz" in words(picture)


def test_a_schema_shows_types_properties_rows_and_cardinalities(rich: og.Graph) -> None:
    shown = words(rich.show_schema())
    for declared in rich.schema.types():
        assert declared.name in shown
    assert {"0..1", "0..3", "Vector(3)?", "embedding"} <= set(shown)


def test_columns_follow_the_arrows_and_circles_end() -> None:
    arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "c"), ("a", "d")]
    columns = columns_of(["a", "b", "c", "d", "e"], arrows)
    assert columns["a"] < columns["b"] < columns["c"]
    assert columns["d"] > columns["a"]


def test_boxes_never_overlap() -> None:
    boxes = {f"{n}": Box(f"{n}", 40 + 7 * n, 20 + 13 * (n % 5), column=n % 4) for n in range(24)}
    links = [(f"{n}", f"{(n * 7 + 1) % 24}") for n in range(24)]
    width, height = place(boxes, links, gap_x=10, gap_y=6)
    for one, other in combinations(boxes.values(), 2):
        apart = one.right <= other.x or other.right <= one.x
        assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y
    assert all(box.x >= 0 and box.y >= 0 and box.right <= width for box in boxes.values())
    columns = [[box for box in boxes.values() if box.column == number] for number in range(4)]
    assert all(a[0].right < b[0].x + b[0].width for a, b in pairwise(columns))
    assert max(box.y + box.height for box in boxes.values()) == height


def test_a_picture_is_saved_shown_in_notebooks_and_escapes_what_users_wrote(tmp_path: Path) -> None:
    picture = Picture("<b>&</b>", 20, 10, "")
    saved = picture.save(tmp_path / "picture.svg")
    assert saved.read_text() == picture._repr_svg_() + "\n"
    assert "<b>" not in picture.svg
    ElementTree.fromstring(picture.svg)


def test_pictures_are_readable_on_dark_pages(rich: og.Graph) -> None:
    assert "prefers-color-scheme:dark" in rich.show_schema().svg
