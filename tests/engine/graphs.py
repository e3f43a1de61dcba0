"""Small graphs for the tests of the engine, and what is asked of them again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import lance
import pytest

import omnigraph_spark as og
from tests.helpers.builder import GraphBuilder

SOCIAL = """
node Person { name: String @key age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""

PERSON, COMPANY, KNOWS = "node:Person", "node:Company", "edge:Knows"
#: Where the format puts Person: the FNV-1a hash of its name.
PERSON_FOLDER = "nodes/40d76f1f51639ec0"


def write_social(root: Path) -> GraphBuilder:
    """A graph of two commits on main: Alice and Bob, who know each other, then Carol."""
    graph = GraphBuilder.create(root, SOCIAL)
    graph.write(
        {
            PERSON: [{"name": "Alice", "age": 30}, {"name": "Bob", "age": 41}],
            COMPANY: [{"name": "Acme"}],
            KNOWS: [{"id": "k1", "src": "Alice", "dst": "Bob"}],
        }
    )
    graph.write({PERSON: [{"name": "Carol", "age": 7}]})
    return graph


def add_people(graph: GraphBuilder, branch: str = "main", **ages: int) -> str:
    """Append people and publish; return the commit."""
    rows = [{"name": name, "age": age} for name, age in ages.items()]
    return graph.write({PERSON: rows}, branch=branch)


def ages(snapshot: og.Snapshot | og.Graph) -> dict[str, int | None]:
    """Everyone's age by name: the state of a graph at a glance."""
    at = snapshot.snapshot() if isinstance(snapshot, og.Graph) else snapshot
    rows = at.arrow(PERSON, columns=["name", "age"]).to_pylist()
    return {row["name"]: row["age"] for row in rows}


def delete_branch(root: Path, name: str) -> None:
    """Delete a branch as the engine does: from the manifest, then from each dataset that has it."""
    lance.dataset(str(root / "__manifest")).branches.delete(name)
    for folder in sorted((*root.glob("nodes/*"), *root.glob("edges/*"))):
        dataset = lance.dataset(str(folder))
        if name in dataset.branches.list():
            dataset.branches.delete(name)


def newest_version_file(dataset: Path) -> Path:
    """The Lance manifest of a dataset's newest version; Lance names them newest first."""
    return min((dataset / "_versions").glob("*.manifest"))


def listing(root: Path) -> Mapping[str, tuple[int, int]]:
    """Size and modification time of everything at and below a path."""
    found = [root, *root.rglob("*")] if root.exists() else []
    return {
        str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in found
    }


@contextmanager
def refused(error: type[og.OmnigraphError], root: Path, *words: str) -> Iterator[None]:
    """Expect an error whose text starts with its code and holds these words; nothing is written."""
    before = listing(root)
    with pytest.raises(error) as caught:
        yield
    text = str(caught.value)
    assert caught.type is error, text
    assert text.startswith(f"[{error.code}] ")
    assert [word for word in words if word not in text] == [], text
    assert listing(root) == before
