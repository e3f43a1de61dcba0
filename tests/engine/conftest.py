"""Fixtures of the engine's tests: graphs that `GraphBuilder` wrote, real Lance files, no JVM."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import omnigraph_spark as og
from tests.engine.graphs import write_social
from tests.engine.writing import write_staffed
from tests.helpers import crashes
from tests.helpers.builder import GraphBuilder
from tests.helpers.racers import Racers, waiting_racers

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Races between processes are slow, whatever they are about, and so are graphs on S3."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "racers" in fixtures or (item.path.is_relative_to(_HERE) and _on_s3(item, fixtures)):
            item.add_marker("slow")


def _on_s3(item: pytest.Item, fixtures: Collection[str]) -> bool:
    """Whether a test asks for the server, or is the case on S3 of one that also runs on a disk."""
    case = getattr(item, "callspec", None)
    given = case.params.values() if case is not None else ()
    # Some tests are given frames, which cannot be compared with a name.
    return "s3" in fixtures or any(isinstance(value, str) and value == "s3" for value in given)


@pytest.fixture(scope="session")
def social_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One graph for all tests that only read: Alice, Bob, Carol and their company."""
    return write_social(tmp_path_factory.mktemp("original") / "social").root


@pytest.fixture
def social(social_root: Path, tmp_path: Path) -> GraphBuilder:
    """The same graph, a copy of one's own to write to or to damage."""
    return GraphBuilder.open(Path(shutil.copytree(social_root, tmp_path / "social")))


@pytest.fixture(scope="session")
def racers() -> Iterator[Racers]:
    """Two processes that race, started once."""
    with waiting_racers() as racers:
        yield racers


@pytest.fixture(scope="session")
def staffed_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with every kind of rule, written once."""
    root = tmp_path_factory.mktemp("original") / "staffed"
    write_staffed(root)
    return root


@pytest.fixture
def graph(staffed_root: Path, tmp_path: Path) -> og.Graph:
    """The same graph, a copy of one's own to write to."""
    return og.open(shutil.copytree(staffed_root, tmp_path / "g"), actor="ann")


@pytest.fixture(scope="session")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One graph that this package wrote: Alice and Bob, who know each other."""
    root = tmp_path_factory.mktemp("written") / "social"
    crashes.write_social(root)
    return root


@pytest.fixture
def written(written_once: Path, tmp_path: Path) -> Path:
    """A copy of it of one's own."""
    return Path(shutil.copytree(written_once, tmp_path / "social"))
