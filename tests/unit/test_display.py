"""How graphs show themselves: one line of text, and a table in notebooks that runs no script."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark import Graph
from omnigraph_spark.display import counted, html_table
from tests.helpers.builder import GraphBuilder


class Cells(HTMLParser):
    """Collects the tags and, per cell, the text a browser would show."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style"}
        if tag in ("strong", "th", "td"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data


def parsed(html: str) -> Cells:
    cells = Cells()
    cells.feed(html)
    cells.close()
    return cells


@pytest.mark.parametrize(
    ("count", "what", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (2, "row", "2 rows"),
        (1, "branch", "1 branch"),
        (0, "branch", "0 branches"),
        (1_234_567, "type", "1,234,567 types"),
    ],
)
def test_a_number_comes_with_its_noun(count: int, what: str, text: str) -> None:
    assert counted(count, what) == text


def test_a_table_has_a_title_a_header_and_a_row_per_row() -> None:
    cells = parsed(html_table("social", ("type", "rows"), [("node:Person", 3), ("edge:Knows", 0)]))
    assert cells.cells == ["social", "type", "rows", "node:Person", "3", "edge:Knows", "0"]
    assert cells.tags.count("tr") == 3


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    html = html_table("social", ("type", "rows"), [("node:Person", "1,200"), ("edge:Knows", 0)])
    sides = re.findall(r"<t[hd] style=\"text-align:(\w+);", html)
    assert sides == ["left", "right"] * 3


def test_a_table_without_rows_is_its_title() -> None:
    assert parsed(html_table("no conflict", ("type", "id"), [])).tags == ["div", "strong"]


TEXT = st.text(st.sampled_from("<>&\"'/!-=#; abté\n"), max_size=20)


@given(TEXT, TEXT, TEXT)
def test_whatever_a_table_shows_is_text_and_not_markup(title: str, name: str, cell: str) -> None:
    shown = parsed(html_table(title, [name], [[cell]]))
    assert shown.cells == [title, name, cell]
    assert shown.tags == ["div", "strong", "table", "thead", "tr", "th", "tbody", "tr", "td"]


def test_a_root_with_markup_in_its_name_is_shown_as_text(tmp_path: Path) -> None:
    root = tmp_path / "<img src=x onerror=alert(1)>"
    GraphBuilder.create(root, "node Person { name: String @key }")
    html = og.open(str(root))._repr_html_()
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


# -- graphs and snapshots ----------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    built = GraphBuilder.create(
        tmp_path / "g", "node Person { name: String @key }\nedge Knows: Person -> Person"
    )
    built.write({"node:Person": [{"name": f"p{number}"} for number in range(1200)]}, actor="etl")
    built.create_branch("dev")
    built.write({"node:Person": [{"name": "new"}]}, branch="dev")
    return og.open(str(tmp_path / "g"))


def test_a_graph_says_its_root_branch_types_and_rows(graph: Graph) -> None:
    assert repr(graph) == f"Graph({graph.root}, branch main, 2 types, 1,200 rows)"
    dev = graph.as_branch("dev")
    assert repr(dev) == f"Graph({graph.root}, branch dev, 2 types, 1,201 rows)"


def test_a_snapshot_says_its_branch_version_and_commit(graph: Graph) -> None:
    snapshot = graph.snapshot()
    assert repr(snapshot) == (
        f"Snapshot({graph.root}, main@4, commit {snapshot.commit.id}, 2 types, 1,200 rows)"
    )


def test_commits_and_branches_say_what_tells_them_apart(graph: Graph) -> None:
    newest, genesis = graph.history()
    assert repr(newest).startswith(f"Commit({newest.id}, main@4, ")
    assert repr(newest).endswith(" by etl)")
    assert repr(genesis).startswith(f"Commit({genesis.id}, main@1, ")
    dev, main = graph.branches()
    assert repr(main) == f"Branch(main, head {newest.id})"
    assert repr(dev) == f"Branch(dev from main, head {dev.head.id})"


def test_a_notebook_shows_a_row_per_type(graph: Graph) -> None:
    for shown in (graph, graph.snapshot()):
        cells = parsed(shown._repr_html_()).cells
        assert cells[0].startswith(f"{graph.root} · main@4 · ")
        assert cells[1:] == [
            *("type", "rows", "dataset version", "dataset branch"),
            *("edge:Knows", "0", "1", "main"),
            *("node:Person", "1,200", "2", "main"),
        ]
    dev = parsed(graph.as_branch("dev")._repr_html_()).cells
    assert dev[-4:] == ["node:Person", "1,201", "3", "dev"]


@pytest.mark.parametrize("show", [repr, str], ids=["repr", "str"])
def test_no_text_of_a_graph_holds_a_storage_setting(
    show: Callable[[object], str], graph: Graph
) -> None:
    secret = "wJalrXUtnFEMI"
    opened = og.open(graph.root, storage={"aws_secret_access_key": secret})
    snapshot = opened.snapshot()
    for shown in (opened, snapshot, snapshot._state, snapshot.commit, *opened.branches()):
        assert secret not in show(shown)
