"""An empty blob stays an empty blob: never written where it would read back as null."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import ConstraintViolationError
from omnigraph_spark.writing import preparing
from tests.engine.writing import files
from tests.helpers.engine import engine_export

SCHEMA = "node Doc { slug: String @key  first: Blob?  second: Blob?  needed: Blob }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create(tmp_path / "g", SCHEMA)


def docs(*rows: tuple[str, bytes | None, bytes | None]) -> pa.Table:
    """Documents by name, with both blobs that may be null; the one that is needed is empty."""
    slugs, first, second = zip(*rows, strict=True)
    return pa.table(
        {
            "slug": pa.array(slugs),
            "first": pa.array(first, pa.binary()),
            "second": pa.array(second, pa.binary()),
            "needed": pa.array([b""] * len(rows), pa.binary()),
        }
    )


def stored(graph: og.Graph) -> list[tuple[Any, ...]]:
    table = graph.refresh().snapshot().arrow("Doc", blobs="bytes")
    assert set(table.column("needed").to_pylist()) <= {b""}
    return sorted((row["slug"], row["first"], row["second"]) for row in table.to_pylist())


KEPT: dict[str, Sequence[tuple[str, bytes | None, bytes | None]]] = {
    "after bytes": [("a", b"x", None), ("b", b"", None)],
    "before bytes": [("a", b"", None), ("b", None, None), ("c", b"x", None)],
    "in both columns": [("a", b"", b""), ("b", b"", b"y"), ("c", b"x", b"")],
    "many": [("a", b"", None), ("b", b"", b""), ("c", b"x" * 1000, b"")],
    "none": [("a", None, None), ("b", b"x", None)],
}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("what", KEPT)
def test_an_empty_blob_is_kept_where_other_rows_have_bytes(
    graph: og.Graph, what: str, mode: str
) -> None:
    graph.write(docs(("before", b"old", None)), "Doc")
    graph.write(docs(*KEPT[what]), "Doc", mode=mode)
    before = [("before", b"old", None)] if mode == "append" else []
    assert stored(graph) == sorted([*KEPT[what], *before])


@pytest.mark.engine
def test_the_engine_reads_them_as_empty_too(graph: og.Graph) -> None:
    rows = KEPT["in both columns"]
    graph.write(docs(*rows), "Doc")
    read = {row["data"]["slug"]: row["data"] for row in engine_export(Path(graph.root))}
    assert {slug: (data["first"] == "base64:") for slug, data in read.items()} == {
        slug: first == b"" for slug, first, _ in rows
    }


MISTAKABLE: dict[str, Sequence[tuple[str, bytes | None, bytes | None]]] = {
    "alone": [("a", b"", None)],
    "among nulls": [("a", None, None), ("b", b"", None)],
    "among its like": [("a", b"", b""), ("b", b"", b"")],
}


@pytest.mark.parametrize("mode", ["append", "overwrite", "merge", "large merge"])
@pytest.mark.parametrize("what", MISTAKABLE)
def test_an_empty_blob_that_would_read_back_as_null_is_refused(
    graph: og.Graph, what: str, mode: str
) -> None:
    graph.write(docs(("a", b"old", b"old")), "Doc")
    before = files(Path(graph.root))
    few = 0 if mode == "large merge" else preparing.SMALL_MERGE_ROWS
    with (
        patch.object(preparing, "SMALL_MERGE_ROWS", few),
        pytest.raises(ConstraintViolationError, match=r"blob on node:Doc\.first.* write null"),
    ):
        graph.write(docs(*MISTAKABLE[what]), "Doc", mode=mode.removeprefix("large "))
    assert files(Path(graph.root)) == before
    assert stored(graph) == [("a", b"old", b"old")]


def test_a_merge_keeps_an_empty_blob_or_refuses_it(graph: og.Graph) -> None:
    graph.write(docs(("a", b"x", None), ("b", b"", None), ("c", b"z", None)), "Doc")
    graph.write(docs(("a", b"new", None), ("d", b"", None)), "Doc", mode="merge")
    expected = [("a", b"new", None), ("b", b"", None), ("c", b"z", None), ("d", b"", None)]
    assert stored(graph) == expected
    # The columns that a merge leaves alone are written again as well.
    some = pa.table({"id": ["b"], "second": [b"y"]})
    with pytest.raises(ConstraintViolationError, match=r"blob on node:Doc\.first"):
        graph.write(some, "Doc", mode="merge", merge_columns=["second"])
    assert stored(graph) == expected
