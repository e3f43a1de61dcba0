"""Rows out: lines as the engine's serializer writes them, in order, in bounded memory."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.errors import StorageError, TypeNotFoundError, UnsupportedError
from omnigraph_spark.jsonl import blob_texts, exporting, ordering
from omnigraph_spark.jsonl.exporting import export_jsonl, export_lines
from omnigraph_spark.jsonl.ordering import in_order
from omnigraph_spark.jsonl.rendering import lines_of
from omnigraph_spark.names import Ref, TypeKey
from omnigraph_spark.schema.rust_text import json_text
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers.builder import GraphBuilder

NODE = TypeKey.parse("node:N")


def line(**columns: pa.Array[Any]) -> str:
    batch = pa.RecordBatch.from_pydict({"id": pa.array(["i"]), **columns})
    (text,) = lines_of(NODE, batch)
    return text.decode()


# -- one line ----------------------------------------------------------------------------------


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_written_as_the_engine_writes_them(value: float) -> None:
    expected = json_text({"type": "N", "data": {"id": "i", "x": value}})
    assert line(x=pa.array([value])) == f"{expected}\n"


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_32_bit_floats_are_written_as_the_doubles_they_are(value: float) -> None:
    expected = json_text({"type": "N", "data": {"id": "i", "x": value}})
    assert line(x=pa.array([value], pa.float32())) == f"{expected}\n"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_texts_are_escaped_as_the_engine_escapes_them(value: str) -> None:
    expected = json_text({"type": "N", "data": {"id": "i", "x": value}})
    assert line(x=pa.array([value])) == f"{expected}\n"


def test_values_of_every_type_are_written() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "id": pa.array(["a", "b"]),
            "at": pa.array([1, None], pa.int64()).cast(pa.timestamp("ms", "UTC")),
            "big": pa.array([2**64 - 1, None], pa.uint64()),
            "day": pa.array([-1, None], pa.int32()).cast(pa.date32()),
            "flag": pa.array([True, None]),
            "days": pa.array([[0, None], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
            "vector": pa.array([[0.1, 1.0], None], pa.list_(pa.float32(), 2)),
        }
    )
    first, second = (text.decode() for text in lines_of(NODE, batch))
    assert first == (
        '{"type":"N","data":{"id":"a","at":"1970-01-01T00:00:00.001","big":18446744073709551615,'
        '"day":-1,"flag":true,"days":[0,null],"vector":[0.10000000149011612,1.0]}}\n'
    )
    assert second == json_text({"type": "N", "data": batch.slice(1).to_pylist()[0]}) + "\n"
    # A slice of a batch, as scans yield them, has offsets of its own.
    assert lines_of(NODE, batch.slice(1)) == lines_of(NODE, batch)[1:]
    twice = pa.Table.from_batches([batch, batch]).combine_chunks().to_batches()[0]
    assert lines_of(NODE, twice.slice(1, 2)) == lines_of(NODE, batch)[::-1]


def test_edges_have_their_ends_before_their_data() -> None:
    batch = pa.RecordBatch.from_pydict({"id": ["e"], "src": ["a"], "dst": ["b"], "w": [1]})
    assert lines_of(TypeKey.parse("edge:E"), batch) == [
        b'{"edge":"E","from":"a","to":"b","data":{"id":"e","w":1}}\n'
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_refused_by_id(value: float) -> None:
    columns = (
        pa.array([value]),
        pa.array([value], pa.float32()),
        pa.array([[0.5, None, value]]),
        pa.array([[value, 1.0]], pa.list_(pa.float32(), 2)),
    )
    for column in columns:
        with pytest.raises(UnsupportedError, match=rf"{value} in node:N\.x of id 'i'"):
            line(x=column)


def test_what_lies_below_a_null_vector_does_not_matter() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([math.nan, math.nan], pa.float32()), 2, mask=pa.array([True])
    )
    assert line(x=vectors) == '{"type":"N","data":{"id":"i","x":null}}\n'


# -- in order ----------------------------------------------------------------------------------

IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4), unique=True, max_size=40
)


@given(IDS, st.integers(1, 7))
def test_lines_come_by_the_bytes_of_their_ids(ids: list[str], portion: int) -> None:
    portions = [
        (ids[n : n + portion], [f"{id_!r}\n".encode() for id_ in ids[n : n + portion]])
        for n in range(0, len(ids), portion)
    ]
    expected = [f"{id_!r}\n".encode() for id_ in sorted(ids, key=str.encode)]
    assert list(in_order(iter(portions))) == expected


@pytest.mark.parametrize("kept", [0, 50, 1 << 30])
def test_sorting_on_disk_gives_what_sorting_in_memory_gives(
    kept: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ids = ["b", "", "ä", "a\0b", "a", "\U0001f600", "\uffff", "Z", "a\0a", "aa"]
    portions = [([id_], [f"{id_}\n".encode() * 10]) for id_ in ids]
    expected = [f"{id_}\n".encode() * 10 for id_ in sorted(ids, key=str.encode)]
    assert list(in_order(iter(portions), memory_bytes=kept)) == expected
    assert list(tmp_path.iterdir()) == []


def test_nothing_stays_on_disk_when_the_reader_stops(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lines = in_order(([str(n)], [b"line\n"]) for n in range(100))
    few = in_order((([str(n)], [b"line\n"]) for n in range(100)), memory_bytes=10)
    assert next(few) == next(iter(lines)) == b"line\n"
    assert list(tmp_path.iterdir()) != []
    few.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


# -- a graph -----------------------------------------------------------------------------------

SCHEMA = """
node Doc { slug: String @key  body: Blob?  cover: Blob?  n: I32? }
edge Cites: Doc -> Doc
"""
DOCS = [
    {"slug": f"d{n:02}", "n": n, "body": None if n % 5 == 0 else bytes([n]) * n, "cover": b"c"}
    for n in range(30)
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> SnapshotState:
    graph = GraphBuilder.create(tmp_path_factory.mktemp("docs") / "graph", SCHEMA)
    # Three fragments, not in the order of ids, with rows among them that are no more.
    gone = [{"slug": f"gone{n}", "body": b"gone", "cover": b"x"} for n in range(4)]
    for part in (DOCS[20:], [*gone, *DOCS[:10]], [*DOCS[10:20][::-1], {"slug": "gone"}]):
        graph.write({"node:Doc": part})
    graph.delete("node:Doc", "slug LIKE 'gone%'")
    graph.write({"edge:Cites": [{"id": "c", "src": "d01", "dst": "d02"}]})
    reader = GraphReader.open(str(graph.root), StorageSettings.resolve(None))
    return reader.resolve(Ref.branch())


def docs(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(text)["data"] for text in lines if '"type"' in text]


def test_types_come_by_key_and_rows_by_id(state: SnapshotState) -> None:
    lines = list(export_lines(state))
    assert lines[0] == '{"edge":"Cites","from":"d01","to":"d02","data":{"id":"c"}}'
    found = docs(lines)
    assert [doc["id"] for doc in found] == [doc["slug"] for doc in DOCS]
    assert [doc["body"] is None for doc in found] == [doc["body"] is None for doc in DOCS]
    assert found[3]["body"] == "base64:AwMD"
    assert {doc["cover"] for doc in found} == {"base64:Yw=="}


def test_some_types_can_be_exported_alone(state: SnapshotState) -> None:
    assert len(list(export_lines(state, types=["Cites"]))) == 1
    assert list(export_lines(state, types=["edge:Cites", "Doc", "Cites"])) == list(
        export_lines(state)
    )
    with pytest.raises(TypeNotFoundError, match="Nope"):
        list(export_lines(state, types=["Nope"]))


def test_rows_are_the_same_however_little_is_held_at_a_time(
    state: SnapshotState, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(export_lines(state))
    monkeypatch.setattr(blob_texts, "_WINDOW_ROWS", 4)
    assert list(export_lines(state)) == expected
    small = blob_texts.batches_with_blob_texts
    monkeypatch.setattr(
        exporting, "batches_with_blob_texts", lambda plan, parts: small(plan, parts, slice_bytes=9)
    )
    assert list(export_lines(state)) == expected
    sorting = ordering.in_order
    monkeypatch.setattr(exporting, "in_order", lambda portions: sorting(portions, memory_bytes=0))
    assert list(export_lines(state)) == expected


def test_a_file_appears_whole_or_not_at_all(
    state: SnapshotState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "new" / "graph.jsonl"
    assert export_jsonl(state, place) == {"edge:Cites": 1, "node:Doc": 30}
    before = place.read_bytes()
    assert before.decode().splitlines() == list(export_lines(state))

    def broken(*_: Any) -> Any:
        yield b"half a"
        raise UnsupportedError("this", "that")

    monkeypatch.setattr(exporting, "in_order", broken)
    with pytest.raises(UnsupportedError):
        export_jsonl(state, place)
    assert [file.name for file in place.parent.iterdir()] == ["graph.jsonl"]
    assert place.read_bytes() == before


def test_a_folder_gets_a_file_for_each_type(state: SnapshotState, tmp_path: Path) -> None:
    export_jsonl(state, f"{tmp_path}/new/")
    export_jsonl(state, tmp_path, types=["Doc"])
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "edge-Cites.jsonl",
        "node-Doc.jsonl",
    ]
    whole = (tmp_path / "new" / "node-Doc.jsonl").read_bytes()
    assert (tmp_path / "node-Doc.jsonl").read_bytes() == whole


def test_places_that_cannot_be_written_are_refused(state: SnapshotState, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(StorageError, match="file"):
        export_jsonl(state, tmp_path / "file" / "graph.jsonl")
    with pytest.raises(UnsupportedError, match="local path"):
        export_jsonl(state, "s3://bucket/graph.jsonl")
