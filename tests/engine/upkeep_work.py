"""A graph whose indexes matter, and questions that an index and a plain read must answer alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import omnigraph_spark as og

SCHEMA = """
node Doc {
    slug: String @key
    size: I32? @index
    title: String? @index
    vector: Vector(2)? @index
    payload: Blob?
}
edge Cites: Doc -> Doc { why: String? }
"""
DOC, CITES = "node:Doc", "edge:Cites"
DECLARED = {
    DOC: {"id": "BTree", "size": "BTree", "slug": "Inverted", "title": "Inverted"},
    CITES: {"id": "BTree", "src": "BTree", "dst": "BTree"},
}


def docs(sizes: dict[str, int]) -> pa.Table:
    """Docs by slug and size; title, vector and payload follow from the size."""
    values = list(sizes.values())
    return pa.table(
        {
            "slug": pa.array(sizes, pa.string()),
            "size": pa.array(values, pa.int32()),
            "title": [f"of size number{size}" for size in values],
            "vector": pa.array([[float(size), 1.0] for size in values], pa.list_(pa.float32(), 2)),
            "payload": pa.array([f"bytes {size}".encode() for size in values], pa.binary()),
        }
    )


def cites(pairs: Iterable[tuple[str, str]]) -> pa.Table:
    """Edges between docs; an id names its ends as they were first."""
    ends = list(pairs)
    return pa.table(
        {
            "id": [f"{src}-{dst}" for src, dst in ends],
            "src": [src for src, _ in ends],
            "dst": [dst for _, dst in ends],
        }
    )


def write_library(root: Path | str) -> og.Graph:
    """Sixteen docs in four commits, and a ring of citations."""
    graph = og.create(root, SCHEMA, actor="ann")
    for start in range(0, 16, 4):
        graph.write(docs({f"d{i}": i for i in range(start, start + 4)}), "Doc")
    graph.write(cites((f"d{i}", f"d{(i + 1) % 16}") for i in range(16)), "Cites")
    return graph


def dataset(graph: og.Graph, key: str = DOC) -> lance.LanceDataset:
    """The dataset of a type as it is pinned."""
    entry = graph.refresh().entries[key]
    folder = Path(graph.root, entry.path)
    if entry.dataset_branch is not None:
        folder = folder / "tree" / entry.dataset_branch
    return lance.dataset(str(folder), version=entry.dataset_version)


def indexes(graph: og.Graph, key: str = DOC) -> dict[str, tuple[str, list[set[int]]]]:
    """The indexes of a type by column: kind, and the fragments of each segment."""
    return {
        index.field_names[0]: (
            index.index_type,
            [set(segment.fragment_ids) for segment in index.segments],
        )
        for index in dataset(graph, key).describe_indices()
    }


def fragments(graph: og.Graph, key: str = DOC) -> set[int]:
    """The numbers of a type's fragments."""
    return {fragment.fragment_id for fragment in dataset(graph, key).get_fragments()}


def assert_answers_agree(graph: og.Graph, key: str, wheres: Iterable[str]) -> None:
    """Whatever an index answers is what the rows say."""
    data = dataset(graph, key)
    data.validate()
    for where in wheres:
        fast = data.to_table(columns=["id"], filter=where)
        slow = data.to_table(columns=["id"], filter=where, use_scalar_index=False)
        ours = graph.snapshot().arrow(key, columns=["id"], where=where)
        answers = [sorted(map(str, t.column("id").to_pylist())) for t in (fast, slow, ours)]
        assert answers[0] == answers[1] == answers[2], where


def questions(sizes: Iterable[int]) -> Iterator[str]:
    """Conditions on docs, with and against the grain of an index."""
    for size in sizes:
        yield f"size = {size}"
        yield f"size <> {size}"
        yield f"size >= {size} AND size < {size + 3}"
        yield f"id = 'd{size % 20}'"


def found_texts(graph: og.Graph, word: str) -> list[str]:
    """The slugs of docs whose title holds a word, through the index of texts."""
    table = dataset(graph).to_table(columns=["slug"], full_text_query=word)
    return sorted(map(str, table.column("slug").to_pylist()))


def nearest(graph: og.Graph, size: float) -> str:
    """The slug of the doc whose vector is nearest, through the index of vectors."""
    query: dict[str, Any] = {"column": "vector", "q": [size, 1.0], "k": 1}
    table = dataset(graph).to_table(columns=["slug"], nearest=query)
    [slug] = table.column("slug").to_pylist()
    return str(slug)


def content(graph: og.Graph | og.Snapshot) -> dict[str, list[dict[str, Any]]]:
    """Every row of every type, blobs whole, by id."""
    at = graph.refresh().snapshot() if isinstance(graph, og.Graph) else graph
    return {
        key: sorted(at.arrow(key, blobs="bytes").to_pylist(), key=lambda row: str(row["id"]))
        for key in at.entries
    }


def row_facts(graph: og.Graph, key: str = DOC) -> list[dict[str, Any]]:
    """The id, number, and dates of every row as Lance keeps them."""
    system = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    table = dataset(graph, key).to_table(columns=["id", *system])
    return sorted(table.to_pylist(), key=lambda row: str(row["id"]))
