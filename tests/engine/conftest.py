"""Fixtures of the engine's tests: graphs that `GraphBuilder` wrote, real Lance files, no JVM."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.graphs import write_social
from tests.helpers.builder import GraphBuilder
from tests.helpers.racers import Racers, waiting_racers


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
