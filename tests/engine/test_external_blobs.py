"""Blobs that are files of the user's: taken by their address when that is allowed, else refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    ConstraintViolationError,
    InvalidOptionError,
    InvalidRecordsError,
    SchemaMismatchError,
)
from omnigraph_spark.writing.write_options import WriteOptions
from tests.engine.writing import files
from tests.helpers.engine import engine_export

SCHEMA = "node Doc { slug: String @key  size: I64?  payload: Blob? }"


@pytest.fixture
def docs(tmp_path: Path) -> og.Graph:
    return og.create(tmp_path / "g", SCHEMA)


@pytest.fixture
def outside(tmp_path: Path) -> str:
    """A file that is no part of the graph."""
    file = tmp_path / "outside.bin"
    file.write_bytes(b"from outside")
    return file.as_uri()


def payloads(graph: og.Graph, blobs: str = "descriptor") -> dict[str, Any]:
    rows = graph.refresh().snapshot().arrow("Doc", blobs=blobs).to_pylist()
    return {row["slug"]: row["payload"] for row in rows}


def doc(slug: str, payload: str | None) -> pa.Table:
    return pa.table({"slug": [slug], "payload": pa.array([payload], pa.string())})


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_text_is_an_address_in_every_mode(docs: og.Graph, outside: str, mode: str) -> None:
    docs.write(pa.table({"slug": ["a"], "payload": [b"inside"]}), "Doc")
    slug = "b" if mode == "append" else "a"
    docs.write(doc(slug, outside), "Doc", mode=mode, allow_external_blobs=True)
    assert payloads(docs)[slug]["kind"] == "external"
    assert payloads(docs)[slug]["uri"] == outside
    assert payloads(docs, "bytes")[slug] == b"from outside"


def test_a_file_keeps_its_address_when_other_columns_change(docs: og.Graph, outside: str) -> None:
    docs.write(doc("a", outside), "Doc", allow_external_blobs=True)
    docs.write(pa.table({"slug": ["b"], "payload": [b"inside"]}), "Doc")
    before = payloads(docs)
    docs.write_back(pa.table({"id": ["a", "b"], "size": [1, 2]}), "Doc", columns=["size"])
    after = payloads(docs)
    assert after["a"] == before["a"]
    assert payloads(docs, "bytes") == {"a": b"from outside", "b": b"inside"}


def test_text_is_refused_where_it_is_not_allowed(docs: og.Graph, outside: str) -> None:
    before = files(Path(docs.root))
    with pytest.raises(SchemaMismatchError, match="allowExternalBlobs"):
        docs.write(doc("a", outside), "Doc")
    stored = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])
    as_stored = pa.table(
        {"slug": ["a"], "payload": pa.array([{"data": None, "uri": outside}], stored)}
    )
    with pytest.raises(ConstraintViolationError, match="allowExternalBlobs"):
        docs.write(as_stored, "Doc")
    assert files(Path(docs.root)) == before


def test_a_path_is_no_address(docs: og.Graph) -> None:
    with pytest.raises(ConstraintViolationError, match="the address of the blob"):
        docs.write(doc("a", "/some/file"), "Doc", allow_external_blobs=True)


def test_addresses_of_records_need_the_same_leave(docs: og.Graph, outside: str) -> None:
    record = f'{{"type":"Doc","data":{{"slug":"a","payload":"{outside}"}}}}'
    with pytest.raises((ConstraintViolationError, InvalidRecordsError)):
        docs.load_jsonl([record])
    docs.load_jsonl([record], allow_external_blobs=True)
    assert payloads(docs)["a"]["uri"] == outside


def test_the_option_is_true_or_false() -> None:
    given = {"path": "/g", "type": "Doc"}
    assert WriteOptions.parse({**given, "allowExternalBlobs": "True"}).terms().external_blobs
    assert not WriteOptions.parse(given).terms().external_blobs
    with pytest.raises(InvalidOptionError, match="`true` or `false`"):
        WriteOptions.parse({**given, "allowExternalBlobs": "maybe"})


@pytest.mark.engine
def test_the_engine_exports_the_address(docs: og.Graph, outside: str) -> None:
    docs.write(doc("a", outside), "Doc", allow_external_blobs=True)
    [record] = engine_export(Path(docs.root))
    assert record["data"]["payload"] == outside
