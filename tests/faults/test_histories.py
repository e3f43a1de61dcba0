"""Random histories of writers, crashes, a second writer and the engine keep every law at each step.

Short ones here; `make faults` runs long ones. RS-16, RS-22, RS-25, RS-27 and RS-67 are among the
steps.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faults.histories import History
from tests.faults.processes import Processes

pytestmark = pytest.mark.slow

SEEDS = range(40)
#: As long as fits into a minute: a step takes about 0.11 s, judged by every law.
LENGTH = 12
WITH_ENGINE = 8
#: Seeds whose history broke a law once, with their length: writes that another one overtook, namely
#: two that broke a rule only in the state they were planned on, a deletion after a merge that
#: changed no value, one that found nothing to delete before the other one came.
REGRESSIONS = [(41110, 12), (41347, 25), (41410, 31), (43033, 18)]


@pytest.fixture(scope="session")
def original(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph that every history begins with."""
    root = tmp_path_factory.mktemp("history") / "original"
    processes.value("tests.faults.histories:begin", root)
    return root


@pytest.mark.parametrize("first", range(0, len(SEEDS), 5))
def test_every_law_holds_after_every_step(
    first: int, processes: Processes, original: Path, tmp_path: Path
) -> None:
    for seed in SEEDS[first : first + 5]:
        root = Path(shutil.copytree(original, tmp_path / f"g{seed}"))
        history = History(root, seed, processes).run(LENGTH)
        assert len(history.trace) == LENGTH


@pytest.mark.engine
@pytest.mark.parametrize("seed", [1001, 1002])
def test_every_law_holds_when_the_engine_takes_turns(
    seed: int, processes: Processes, original: Path, tmp_path: Path
) -> None:
    """RS-27."""
    root = Path(shutil.copytree(original, tmp_path / "g"))
    History(root, seed, processes, engine=True).run(WITH_ENGINE)


@pytest.mark.parametrize(("seed", "length"), REGRESSIONS)
def test_a_history_that_broke_a_law_once_breaks_none(
    seed: int, length: int, processes: Processes, original: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(original, tmp_path / "g"))
    # They are from before branches were merged.
    History(root, seed, processes, merges=False).run(length)
