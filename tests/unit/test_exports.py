"""Marks of exported tables: read back as written, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from omnigraph_spark.exports import Mark, marks_from

MARK = Mark("01GENESIS", "node:Person", "main", "01HEAD", "nodes/40d7@main:7")


def test_a_mark_is_read_back_as_it_was_written() -> None:
    assert Mark.from_json(MARK.to_json()) == MARK


@pytest.mark.parametrize(
    "text",
    [None, "", "nightly load", '{"omnigraph": 7}', '{"omnigraph": {"graph": "x"}}', '"omnigraph'],
)
def test_notes_of_others_are_no_marks(text: str | None) -> None:
    assert Mark.from_json(text) is None


def test_rows_are_the_same_whatever_else_was_committed_but_not_at_another_version() -> None:
    assert MARK.same_rows(replace(MARK, commit="01LATER", branch="dev"))
    assert not MARK.same_rows(replace(MARK, dataset="nodes/40d7@main:8"))
    assert not MARK.same_rows(replace(MARK, graph="01OTHER"))


def test_a_state_file_gives_marks_and_folders() -> None:
    state = json.loads(json.dumps({"node:Person": {"folder": "a/b", "mark": asdict(MARK)}, "x": 1}))
    assert marks_from(state) == {"node:Person": (MARK, "a/b")}
