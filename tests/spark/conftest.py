"""Graphs the Spark tests share; each is unpacked or built once and never written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.builder import GraphBuilder
from tests.helpers.golden import unpack

PEOPLE = """
node Person { name: String @key @description("Full name")  age: I32?  level: enum(low, high)? }
node Empty { vec: Vector(2)?  photo: Blob? }
node Gone { word: String }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every type and constraint of the language, with extremes and nulls."""
    return unpack("rich", tmp_path_factory.mktemp("rich"))


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirteen publishes on main."""
    return unpack("history", tmp_path_factory.mktemp("history"))


@pytest.fixture(scope="session")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Columns and types added, renamed and dropped."""
    return unpack("schema-evolved", tmp_path_factory.mktemp("evolved"))


@pytest.fixture(scope="session")
def branched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten branches, lazy and second-level forks among them, at another place than written."""
    return unpack("branches", tmp_path_factory.mktemp("branched"))


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred persons in ten fragments, a ring of edges, and types without rows."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("people") / "graph", PEOPLE)
    persons = [
        {"name": f"p{n:02}", "age": n, "level": "high" if n % 2 else "low"} for n in range(100)
    ]
    ring = [
        {"id": f"k{n:02}", "src": f"p{n:02}", "dst": f"p{(n + 1) % 100:02}"} for n in range(100)
    ]
    graph.append("node:Gone", [{"id": str(n), "word": "x"} for n in range(3)])
    graph.delete("node:Gone", "true")
    graph.write({"node:Person": persons, "edge:Knows": ring}, max_rows_per_file=10)
    return graph.root
