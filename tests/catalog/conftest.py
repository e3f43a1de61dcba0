"""A session with the jar, and graphs as its catalogs: `og` is never written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.catalog.statements import Statements
from tests.conftest import small_session
from tests.helpers import secrets
from tests.helpers.builder import GraphBuilder

SCHEMA = """
node Person @description("Somebody") {
    name: String @key @description("Full name")  age: I32?  level: enum(low, high)?  photo: Blob?
    @range(age, 0..150)
}
node Empty { vec: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture(scope="session")
def people(shared_graph: GraphBuilder) -> GraphBuilder:
    """The graph that is the catalog `og`; see `shared_graph`."""
    return shared_graph


@pytest.fixture(scope="session")
def shared_graph(tmp_path_factory: pytest.TempPathFactory) -> GraphBuilder:
    """A hundred persons in ten fragments and a ring of edges; another person on `dev`."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("people") / "graph", SCHEMA)
    persons = [
        {"name": f"p{n:02}", "age": n, "level": "high" if n % 2 else "low"} for n in range(100)
    ]
    ring = [
        {"id": f"k{n:02}", "src": f"p{n:02}", "dst": f"p{(n + 1) % 100:02}"} for n in range(100)
    ]
    graph.write({"node:Person": persons[:50]}, max_rows_per_file=10)
    graph.write({"node:Person": persons[50:], "edge:Knows": ring}, max_rows_per_file=10)
    for branch in ("dev", "feature/x", "nodes"):
        graph.create_branch(branch)
    graph.write({"node:Person": [{"name": "dev", "age": None}]}, branch="dev")
    return graph


@pytest.fixture(scope="session")
def spark(shared_graph: GraphBuilder, event_log: Path) -> Iterator[SparkSession]:
    """One small session with the jar; the catalog `og` is the shared graph."""
    # Keys that a session starts with are hidden; a graph on disk has no use for them.
    keys = {"aws_secret_access_key": secrets.MOTO, "aws_session_token": secrets.TOKEN}
    options = {f"storage.{name}": value for name, value in keys.items()}
    builder = og.configure(small_session(event_log), options=options, og=str(shared_graph.root))
    # Arrow then names who allocated what was not freed.
    builder = builder.config("spark.driver.extraJavaOptions", "-Darrow.memory.debug.allocator=true")
    session = builder.getOrCreate()
    yield session
    session.stop()


#: A graph to write to: its catalog is made by `dml`.
WRITTEN = """
node Person { name: String @key  age: I32?  city: String? }
node Note { text: String?  at: DateTime?  size: U64? }
node Picture { title: String?  content: Blob? }
edge Knows: Person -> Person { since: Date? }
edge Owns: Person -> Note @card(0..2)
"""


@pytest.fixture
def dml(tmp_path: Path, spark: SparkSession) -> Statements:
    """SQL on a graph of the test's own: four persons, two notes, edges between them."""
    graph = og.create(tmp_path / "graph", WRITTEN)
    with graph.transaction() as tx:
        people = {"name": ["ann", "bob", "cy", "dan"], "age": [1, 2, 3, None], "city": ["Ulm"] * 4}
        tx.append("Person", pa.table(people))
        tx.append("Note", pa.table({"id": ["n1", "n2"], "text": ["one", "two"]}))
        ends = {"src": ["ann", "bob"], "dst": ["bob", "cy"]}
        tx.append("Knows", pa.table({"id": ["ab", "bc"], **ends}))
        tx.append("Owns", pa.table({"id": ["a1"], "src": ["ann"], "dst": ["n1"]}))
    return Statements(spark, graph)
