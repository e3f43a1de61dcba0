"""Planted bugs: the laws notice each one, so they would notice it if somebody made it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.histories import History
from tests.faults.judging import Violation
from tests.faults.plants import PLANTS
from tests.faults.processes import Processes
from tests.faults.sweep import Place, deciding_cuts, sweep

pytestmark = pytest.mark.slow


def in_history(step: str, law: str) -> Callable[[str, Processes, Path], None]:
    """Let one kind of step of a history notice the bug, by the words of a law."""

    def notice(plant: str, processes: Processes, folder: Path) -> None:
        processes.value("tests.faults.histories:begin", folder / "g")
        history = History(folder / "g", 0, processes, plant=plant)
        history.steps = [(1, getattr(history, f"step_{step}"))]
        with pytest.raises(Violation, match=law):
            history.run(10)

    return notice


def in_sweep(work: str, law: str) -> Callable[[str, Processes, Path], None]:
    """Let the cuts of a work notice the bug, by the words of a law."""

    def notice(plant: str, processes: Processes, folder: Path) -> None:
        place = Place(folder, processes, work)
        cuts = [*deciding_cuts(place.events), len(place.events)]
        assert any(law in line.violation for line in sweep(place, cuts[2:], plant))

    return notice


#: Which bug which part of the proof notices.
NOTICED = {
    "publish_without_expectations": in_history("other_writer_deletes", "no refusal"),
    "commit_without_fence": in_history("stray_commit", "written over"),
    "sidecar_after_the_commits": in_sweep("delete with cascade", "but at"),
    "cascade_dropped": in_sweep("delete with cascade", "dangle"),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_noticed(plant: str, processes: Processes, tmp_path: Path) -> None:
    NOTICED[plant](plant, processes, tmp_path)


@pytest.mark.parametrize("step", ["other_writer_deletes", "stray_commit"])
def test_without_a_bug_there_is_nothing_to_notice(
    step: str, processes: Processes, tmp_path: Path
) -> None:
    processes.value("tests.faults.histories:begin", tmp_path / "g")
    history = History(tmp_path / "g", 0, processes)
    history.steps = [(1, getattr(history, f"step_{step}"))]
    history.run(2)
