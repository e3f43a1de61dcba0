"""Fixtures of the proof: one waiting process that others are forked from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.processes import Processes, missing, waiting_process


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """The process that works are forked from; skipped where system calls cannot be watched."""
    if reason := missing():
        pytest.skip(reason)
    with waiting_process() as processes:
        yield processes
