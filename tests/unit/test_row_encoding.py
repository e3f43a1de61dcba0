"""Rows and schema files we write are the engine's own, byte for byte."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_spark.formats import v4
from omnigraph_spark.formats.profile import Commit, LocationRow, NewRow
from omnigraph_spark.formats.v4.row_encoding import MANIFEST_SCHEMA
from omnigraph_spark.schema.parser import parse_schema
from tests.helpers import golden

Row = dict[str, Any]


@cache
def engine_rows() -> list[Row]:
    """Every row of every manifest that the engine wrote for the golden graphs."""
    files = golden.GOLDEN.glob("*/expected/manifest-*.json")
    return [row for path in sorted(files) for row in json.loads(path.read_bytes())["rows"]]


def of_kind(kind: str) -> Iterator[Row]:
    return (row for row in engine_rows() if row["object_type"] == kind)


def decoded(row: Row) -> pa.Table:
    return pa.Table.from_pylist([row], schema=MANIFEST_SCHEMA)


def encoded(rows: list[NewRow], commit: Commit | None = None) -> list[Row]:
    """The encoded rows as objects; the two rows of the commit come last."""
    if commit is None:
        commit = Commit("01M7H9HTBYP3Y9T01G8JF1JW87", "main", 1, None, None, None, 0)
    return v4.encode_rows(rows, commit).to_pylist()


def test_there_are_enough_rows_to_compare_with() -> None:
    kinds = {row["object_type"] for row in engine_rows()}
    assert kinds == {"table", "table_version", "table_tombstone", "graph_commit", "graph_head"}
    assert len(engine_rows()) > 800


def test_locations_are_the_engines() -> None:
    for row in of_kind("table"):
        locations = v4.split_rows(decoded(row)).locations
        assert encoded([LocationRow(*item) for item in locations.items()])[0] == row


def test_pins_are_the_engines() -> None:
    for row in of_kind("table_version"):
        assert encoded(list(v4.split_rows(decoded(row)).pins))[0] == row


def test_tombstones_are_the_engines() -> None:
    for row in of_kind("table_tombstone"):
        assert encoded(list(v4.split_rows(decoded(row)).tombstones))[0] == row


def test_the_text_of_a_pin_is_the_engines_byte_for_byte() -> None:
    for row in of_kind("table_version"):
        detail = json.loads(row["metadata"])
        again = v4.pin_detail(detail["manifest_path"], detail["manifest_size"], detail["e_tag"])
        assert again == row["metadata"]


def test_a_pin_without_a_tag_says_so() -> None:
    text = '{"manifest_path":"a/b","manifest_size":null,"e_tag":null,"naming_scheme":"V2"}'
    assert v4.pin_detail("a/b", None, None) == text


def test_commits_are_the_engines_byte_for_byte() -> None:
    for row in of_kind("graph_commit"):
        (commit,) = map(v4.decode_commit, v4.split_rows(decoded(row)).commits)
        assert encoded([], commit)[0] == row


def test_heads_are_the_engines_byte_for_byte() -> None:
    commits = {
        commit.id: commit
        for row in of_kind("graph_commit")
        for commit in map(v4.decode_commit, v4.split_rows(decoded(row)).commits)
    }
    for row in of_kind("graph_head"):
        head = commits[json.loads(row["metadata"])["head_commit_id"]]
        assert encoded([], head)[1] == row


def test_text_of_a_user_is_written_as_the_engine_writes_it() -> None:
    commit = Commit("01M7H9HTBYP3Y9T01G8JF1JW87", "dev", 7, None, None, 'Zoë "/\\" \x1f\n', 5)
    row, head = encoded([], commit)
    assert row["metadata"] == '{"actor_id":"Zoë \\"/\\\\\\" \\u001f\\n","created_at":5}'
    assert head["metadata"] == '{"head_commit_id":"01M7H9HTBYP3Y9T01G8JF1JW87"}'
    assert head["object_id"] == "graph_head:dev"


def test_the_columns_are_those_of_the_format_and_the_key_is_marked() -> None:
    table = v4.encode_rows([], Commit("01M7H9HTBYP3Y9T01G8JF1JW87", "main", 1, None, None, None, 0))
    assert table.schema.equals(MANIFEST_SCHEMA, check_metadata=True)
    assert [field.name for field in table.schema if not field.nullable] == [
        "object_id",
        "object_type",
        "table_key",
    ]
    key = table.schema.field("object_id").metadata
    assert key == {b"lance-schema:unenforced-primary-key": b"true"}


@pytest.mark.parametrize("case", ["empty", "rich", "branches", "schema-evolved"])
def test_schema_files_are_the_engines_byte_for_byte(case: str) -> None:
    with tarfile.open(golden.GOLDEN / case / "graph.tar.gz") as archive:

        def content(name: str) -> bytes:
            file = archive.extractfile(f"graph/{name}")
            assert file is not None
            return file.read()

        source = content("_schema.pg").decode()
        files = v4.schema_files(source, parse_schema(source))
        assert list(files) == ["_schema.pg", "_schema.ir.json", "__schema_state.json"]
        assert {name: content(name) for name in files} == files
