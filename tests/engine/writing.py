"""A graph of every kind of rule to write to, and how to see what a write did or left behind.

Quick to import, because racing processes import it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph_spark as og
from omnigraph_spark.storage.datasets import DatasetAddress, probe_version
from omnigraph_spark.storage.settings import StorageSettings

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    mail: String? @unique
    code: String?
    @range(age, 0..150)
    @check(code, "^[a-z]+$")
}
node Company {
    name: String @key
    size: enum(small, large)?
    city: String?
    street: String?
    @unique(city, street)
}
node Note {
    text: String
    tags: [String]?
    mood: Vector(2)?
    payload: Blob?
}
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1) { title: String? }
edge Owns: Person -> Company @card(1..2)
edge About: Note -> Person
"""

PERSON, COMPANY, NOTE = "node:Person", "node:Company", "node:Note"
KNOWS, WORKS_AT, OWNS, ABOUT = "edge:Knows", "edge:WorksAt", "edge:Owns", "edge:About"


def write_staffed(root: Path | str, storage: Mapping[str, str] | None = None) -> None:
    """Make a graph of two commits: it is created, then everybody comes at once."""
    graph = og.create(root, SCHEMA, actor="ann", storage=storage)
    with graph.transaction() as tx:
        tx.append("Person", people(Ann=30, Bob=41, Cid=None))
        tx.append("Company", pa.table({"name": ["Acme", "Umbra"], "size": ["small", None]}))
        tx.append("Note", pa.table({"id": ["n1"], "text": ["about Ann"]}))
        tx.append("Knows", edges(k1="Ann-Bob", k2="Bob-Cid", k3="Cid-Cid"))
        tx.append("WorksAt", edges(w1="Ann-Acme"))
        tx.append("Owns", edges(o1="Bob-Umbra"))
        tx.append("About", edges(a1="n1-Ann"))


def transact(
    graph: og.Graph, *steps: Callable[[og.Transaction], object], **terms: Any
) -> og.Commit | None:
    """Take steps in one transaction."""
    with graph.transaction(**terms) as tx:
        for step in steps:
            step(tx)
    return tx.commit


def people(**ages: int | None) -> pa.Table:
    """People by name and age."""
    values = list(ages.values())
    return pa.table({"name": pa.array(ages, pa.string()), "age": pa.array(values, pa.int32())})


def edges(**ends: str) -> pa.Table:
    """Edges by id, with their ends as `from-to`."""
    pairs = [text.split("-") for text in ends.values()]
    return pa.table(
        {
            "id": pa.array(ends, pa.string()),
            "src": pa.array([src for src, _ in pairs], pa.string()),
            "dst": pa.array([dst for _, dst in pairs], pa.string()),
        }
    )


def ids(graph: og.Graph | og.Snapshot, type: str) -> list[str]:
    """The ids of a type, in order, read from its dataset."""
    at = graph.snapshot() if isinstance(graph, og.Graph) else graph
    found = list(map(str, at.arrow(type, columns=["id"]).column("id").to_pylist()))
    assert len(found) == at.rows(type), "the manifest counts what is there"
    return sorted(found)


def all_ids(graph: og.Graph | og.Snapshot) -> dict[str, list[str]]:
    """The ids of every type."""
    return {key: ids(graph, key) for key in graph.entries}


def ages(graph: og.Graph) -> dict[str, int | None]:
    """Everybody's age by name, at the newest commit."""
    rows = graph.refresh().snapshot().arrow("Person", columns=["name", "age"]).to_pylist()
    return {row["name"]: row["age"] for row in rows}


def dangling(graph: og.Graph | og.Snapshot) -> list[tuple[str, str]]:
    """Edges without both ends, as (type, id)."""
    at = graph.snapshot() if isinstance(graph, og.Graph) else graph
    found = []
    for edge in at.schema.edges:
        rows = at.arrow(str(edge.type_key), columns=["id", "src", "dst"]).to_pylist()
        for column, node in (("src", edge.from_type), ("dst", edge.to_type)):
            there = set(ids(at, f"node:{node}"))
            found += [(edge.name, row["id"]) for row in rows if row[column] not in there]
    return found


def files(root: Path) -> dict[str, bytes]:
    """Every file of a graph and what is in it, but for the locks of writers, which are empty."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def data_files(root: Path) -> set[str]:
    """The data files of all types."""
    found = (*root.glob("nodes/*/**/*.lance"), *root.glob("edges/*/**/*.lance"))
    return {str(path.relative_to(root)) for path in found if path.is_file()}


def heads(graph: og.Graph) -> Mapping[str, Any]:
    """The newest version of the manifest and of every dataset that the bound branch reads."""
    settings = StorageSettings()
    found: dict[str, Any] = {"__manifest": graph.refresh().snapshot().manifest_version}
    for key, entry in graph.entries.items():
        address = DatasetAddress(graph.root, entry.path, entry.dataset_branch)
        tag = probe_version(address, settings)
        found[key] = (entry.dataset_version, None if tag is None else tag.number)
    return found


def assert_whole(graph: og.Graph) -> None:
    """No dataset is ahead of its pin, no edge dangles, no id comes twice, nothing is unfinished."""
    graph.refresh()
    own = None if graph.branch == "main" else graph.branch
    for key, found in heads(graph).items():
        # A branch may read what another has written on.
        if key != "__manifest" and graph.entries[key].dataset_branch == own:
            assert found[0] == found[1], f"{key} is pinned at {found[0]} and stands at {found[1]}"
    for key, found_ids in all_ids(graph).items():
        assert len(set(found_ids)) == len(found_ids), key
    assert dangling(graph) == []
    assert list(Path(graph.root, "__recovery").glob("*.json")) == []
