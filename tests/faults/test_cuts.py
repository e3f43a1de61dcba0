"""RS-19: a process that dies after any change to a file leaves the state before or after its work.

Here every work dies right after every second change that decides something: of one work the even
ones, of the next the odd ones. `make faults` takes every change there is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.processes import Processes
from tests.faults.shim import Cut, How
from tests.faults.sweep import Place, deciding_cuts, replayed, sizes, sweep, sweep_twice
from tests.faults.works import WORKS

pytestmark = pytest.mark.slow

RECOVERIES = [name for name in WORKS if name.startswith("recovery")]
#: What the engine is asked about here.
WITH_ENGINE = ["transaction of three types", "first touch of a branch"]


@pytest.mark.parametrize("work", WORKS)
def test_a_work_that_dies_is_finished_or_undone(
    work: str, processes: Processes, tmp_path: Path
) -> None:
    """RS-10, RS-11, RS-13, RS-14, RS-17 and RS-18: each is a cut of some work."""
    place = Place(tmp_path, processes, work)
    # Of a creation that is taken back nothing is there in the end, as before.
    is_same = WORKS[work].keeps_rows or place.post is None
    assert (place.pre == place.post) == is_same or work in RECOVERIES
    lines = list(sweep(place, deciding_cuts(place.events)[list(WORKS).index(work) % 2 :: 2]))
    assert lines
    assert [line for line in lines if line.violation] == []
    ends = [line.ended for line in lines]
    assert ends == sorted(ends, reverse=True), "once it is finished, it stays so at later cuts"


@pytest.mark.engine
@pytest.mark.parametrize("work", WITH_ENGINE)
def test_the_engine_ends_where_we_end(work: str, processes: Processes, tmp_path: Path) -> None:
    place = Place(tmp_path, processes, work)
    cuts = deciding_cuts(place.events)[1::2]
    lines = list(sweep(place, cuts, engine=lambda at: True))
    assert [line for line in lines if line.violation] == []
    assert all(line.engine for line in lines)


@pytest.mark.parametrize("work", ["recovery, half moved", "recovery, all moved"])
def test_a_recovery_that_dies_twice_converges(
    work: str, processes: Processes, tmp_path: Path
) -> None:
    """RS-18."""
    place = Place(tmp_path, processes, work)
    cuts = deciding_cuts(place.events)[1:]
    lines = list(sweep_twice(place, [(cut, 3) for cut in cuts[::2]]))
    assert [line for line in lines if line.violation] == []


@pytest.mark.parametrize("work", ["create", "transaction of three types", "branch delete"])
def test_no_change_to_a_file_goes_unseen(work: str, processes: Processes, tmp_path: Path) -> None:
    """The log alone says which files there are, and how long each is; of a whole work always."""
    place = Place(tmp_path, processes, work)
    place.put()
    before, half = sizes(place.root), len(place.events) // 2
    ended = place.run(Cut(How.KILL, half))
    assert ended.died
    assert len(ended.events) == half
    assert replayed(before, ended.events) == sizes(place.root)
