"""Storage that fails under a work: its error is clear and true, and the graph is whole.

Here a few works meet a full disk and a denied one at changes that decide something, and a disk that
loses one single write of two. `make faults` takes every work and every change.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.faults.failing import fail_sweep
from tests.faults.processes import Processes
from tests.faults.shim import How
from tests.faults.sweep import Place, deciding_cuts

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES], ids=["full", "denied"])
@pytest.mark.parametrize(
    "work", ["create", "transaction of three types", "merge of branches", "recovery, all moved"]
)
def test_a_disk_that_takes_no_more_costs_nothing_but_the_work(
    work: str, error: int, processes: Processes, tmp_path: Path
) -> None:
    place = Place(tmp_path, processes, work)
    # A full disk at every second change, a denied one at the others.
    cuts = deciding_cuts(place.events)[:-1][error == errno.EACCES :: 2]
    lines = list(fail_sweep(place, cuts, [(How.FAIL_ON, error)]))
    assert [line for line in lines if line.violation] == []


@pytest.mark.parametrize("work", ["create", "append", "delete with cascade", "manifest compaction"])
def test_one_write_that_gets_lost_damages_nothing(
    work: str, processes: Processes, tmp_path: Path
) -> None:
    """Lance does not notice when the last write to a file of rows or deletions fails."""
    place = Place(tmp_path, processes, work)
    last = {event.path: at for at, event in enumerate(place.events) if event.name == "write"}
    some = list(last.values())[::2]
    lines = list(fail_sweep(place, some, [(How.FAIL_ONCE, errno.ENOSPC)]))
    assert [line for line in lines if line.violation] == []
