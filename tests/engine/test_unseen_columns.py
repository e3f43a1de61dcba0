"""Statements on tables that do not show everything: what they do not show is never lost by them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from pyspark_omnigraph.catalog import GraphCatalog
from pyspark_omnigraph.delta import DeltaWriter
from pyspark_omnigraph.removing import truncate
from pyspark_omnigraph.statement import Statement
from pyspark_omnigraph.writer import TypeWriter

import omnigraph_spark as og
from omnigraph_spark.errors import UnsupportedError
from tests.engine.test_kept_blobs import DELETE, UPDATE, as_decided, contents, shown

SCHEMA = """
node Picture { name: String @key  title: String?  year: I32?  small: Blob?  large: Blob? }
node Note { text: String?  year: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create(tmp_path / "g", SCHEMA)
    blobs = {name: pa.array([name.encode(), None]) for name in ("small", "large")}
    rows = {"name": ["a", "b"], "title": ["A", "B"], "year": [1, 2], **blobs}
    graph.write(pa.table(rows), "Picture")
    graph.write(pa.table({"id": ["n"], "text": ["one"], "year": [1]}), "Note")
    return graph.refresh()


def frame(*names: str) -> StructType:
    """The schema of rows that are given."""
    types = {"year": IntegerType()}
    return StructType([StructField(name, types.get(name, StringType())) for name in names])


def options_of(graph: og.Graph, type_name: str = "Picture", **more: str) -> Mapping[str, str]:
    pin = str(graph.refresh().snapshot().manifest_version)
    options = {"path": graph.root, "type": type_name, "branch": "main", "__catalog": "og", **more}
    return {**options, "__pin": pin, "__reads": json.dumps([])}


def delta(graph: og.Graph, names: list[str], described: tuple[str, ...] = ()) -> DeltaWriter:
    options = {**options_of(graph), "__delta": "true"}
    return DeltaWriter(Statement.parse(options), described, names)


@pytest.mark.parametrize(
    ("names", "described", "unseen"),
    [
        (["id", "name", "title"], (), "year"),
        (["id", "name", "title", "small", "large"], ("small", "large"), "year"),
        (["id", "name", "title", "year", "small"], (), "large"),
    ],
)
def test_rows_without_a_column_that_others_have_are_not_put_in_their_place(
    graph: og.Graph, names: list[str], described: tuple[str, ...], unseen: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"rows of node:Picture without their {unseen} is"):
        delta(graph, names, described)


@pytest.mark.parametrize(("names", "described"), [((), ()), (("small",), ("small",))])
def test_blobs_that_are_not_shown_stay_with_updated_rows(
    graph: og.Graph, names: tuple[str, ...], described: tuple[str, ...]
) -> None:
    before, plain = contents(graph), ("id", "name", "title", "year")
    columns = [*plain, *names]
    rows = shown(graph).select([*columns, "_rowid", "_rowaddr"])
    writer = delta(graph, columns, described)
    decided = as_decided(rows, [UPDATE, DELETE], title=["new", None])
    writer.commit([writer.write(iter([decided]))])
    assert contents(graph) == {"a": {**before["a"], "title": "new"}}


@pytest.mark.parametrize(
    ("overwrite", "more"),
    [
        (True, {}),
        (False, {"writeMode": "merge"}),
        (False, {"__replace": json.dumps([{"op": "=", "args": [{"col": "year"}, {"lit": 1}]}])}),
    ],
)
def test_new_rows_that_take_the_place_of_others_have_all_columns(
    graph: og.Graph, overwrite: bool, more: dict[str, str]
) -> None:
    statement = Statement.parse({**options_of(graph, "Note"), **more})
    with pytest.raises(UnsupportedError, match="replacing rows of node:Note without their text"):
        TypeWriter(statement, overwrite, frame("id", "year"))
    TypeWriter(statement, overwrite, frame("id", "text", "year"))


@pytest.mark.parametrize("more", [{}, {"writeMode": "delete"}])
def test_rows_that_take_no_place_need_not_have_all_columns(
    graph: og.Graph, more: dict[str, str]
) -> None:
    TypeWriter(Statement.parse({**options_of(graph, "Note"), **more}), False, frame("id", "year"))


@pytest.mark.parametrize("leaving_out", [{"where": "year > 1"}, {"limit": "1"}])
def test_rows_that_are_not_shown_are_not_replaced(
    graph: og.Graph, leaving_out: dict[str, Any]
) -> None:
    given = options_of(graph, "Note", **leaving_out)
    [option] = leaving_out
    said = f"table does not show is not supported; use .* without the option {option}"
    with pytest.raises(UnsupportedError, match=said):
        TypeWriter(Statement.parse(given), True, frame("id", "text", "year"))
    with pytest.raises(UnsupportedError, match=said):
        truncate(GraphCatalog.of({"path": graph.root}), given)
    assert len(contents(graph, "Note")) == 1
    TypeWriter(Statement.parse(given), False, frame("id", "text", "year"))
