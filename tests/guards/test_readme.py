"""README leads a stranger: what it is, two commands, five short examples; all it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import omnigraph_spark as og
from omnigraph_spark.cli import __doc__ as cli_doc
from omnigraph_spark.cli import cli
from tests.guards.test_help import COMMANDS

REPOSITORY = Path(__file__).parent.parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
OPENING = README.partition("\n## ")[0]
HEADINGS = re.findall(r"^## (.+)$", README, re.MULTILINE)
#: An example, under its bold words, and what it prints.
EXAMPLE = re.compile(
    r"^\*\*([\w, ]+)\*\*(?:.|\n(?!\n))*\n\n```(?:python|sql)\n((?:.|\n)*?)```\s*```text\n.",
    re.MULTILINE,
)


def test_after_one_sentence_come_two_commands() -> None:
    title, sentence, block = OPENING.split("\n\n")[:3]
    assert title == "# omnigraph-spark"
    assert sentence.count(".") == 1
    commands = [line.split()[1:3] for line in block.splitlines() if line.startswith("$ ")]
    assert commands == [["make", "demo"], ["make", "test"]]


def test_read_write_sql_merge_and_time_travel_are_short_and_show_what_they_print() -> None:
    examples = dict(EXAMPLE.findall(OPENING))
    assert list(examples) == [
        *("Read", "Write", "Ask in SQL", "Branch, look, merge", "Travel in time")
    ]
    for words, code in examples.items():
        assert len(code.strip().splitlines()) < 8, words


def test_the_parts_come_in_the_order_a_reader_needs_them() -> None:
    needed = [
        *("What it can do, and others", "Read options", "Write options", "Tables about the graph"),
        *("Errors", "How a graph lies on disk", "Operations guide", "Where it runs", "Develop"),
    ]
    assert [heading for heading in HEADINGS if heading in needed] == needed


def test_every_part_is_in_the_list_of_parts_and_every_link_leads_somewhere() -> None:
    anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in HEADINGS}
    links = set(re.findall(r"\]\(([^)\s]+)\)", README))
    assert {link[1:] for link in links if link.startswith("#")} == anchors
    files = [link for link in links if not link.startswith(("#", "http"))]
    assert [link for link in files if not (REPOSITORY / link).exists()] == []


def test_what_the_readme_calls_on_a_graph_is_there() -> None:
    called = set(re.findall(r"\b(?:graph|team|copy)\.([a-z_]+)\(", README))
    assert len(called) > 25
    assert [name for name in sorted(called) if not hasattr(og.Graph, name)] == []
    assert [
        name for name in re.findall(r"\bog\.([a-z_]+)\(", README) if not hasattr(og, name)
    ] == []


LINES = re.findall(r"^\$ (?:.*\()?omnigraph-spark (.+?)(?:\s+# .*)?\)?\"?$", README, re.MULTILINE)


@pytest.mark.parametrize("line", [line for line in LINES if line.split()[0] in cli.commands])
def test_commands_in_the_readme_are_written_as_the_help_says(line: str) -> None:
    name, *words = line.partition("<")[0].split()
    command = COMMANDS[name]
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert {word for word in words if re.fullmatch("--?[a-z-]+", word)} <= flags
    needed = [p for p in command.params if isinstance(p, click.Argument) and p.required]
    assert len([word for word in words if not word.startswith("-")]) >= len(needed)


def test_exit_codes_are_the_same_in_readme_and_program() -> None:
    said = r"Exit codes: (0 done, 1 failed, 2 wrong usage, 3 conflict,\s+4 recovery needed)\."
    [documented] = re.findall(said, README)
    assert re.sub(r"\s+", " ", documented) in (cli_doc or "")
