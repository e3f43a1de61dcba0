"""Every change that decides something has a named point right behind it, with a known outcome."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph_spark import failpoints as points
from omnigraph_spark.failpoints import Failpoint
from tests.faults.points import points_of, told_events
from tests.faults.processes import Processes
from tests.faults.sweep import Place
from tests.faults.works import WORKS

pytestmark = pytest.mark.slow

_VERSION, _REF = r"link \S+/_versions/\d+\.manifest", r"link \S+/_refs/branches/\S+\.json"
_GONE = r"unlink \S+/_versions/\d+\.manifest"
_SIDECAR = r"__recovery/\w+\.json"
#: What each point stands behind; the others stand where nothing is decided yet, or any more.
STANDS_BEHIND: dict[Failpoint, str] = {
    points.ROOT_CLAIMED: r"link _schema\.pg",
    points.SCHEMA_FILE_WRITTEN: r"rename _+schema[\w.]+",
    points.DATASET_CREATED: _VERSION,
    points.GRAPH_CREATED: _VERSION,
    points.GRAPH_UNMADE: _GONE,
    points.DATASET_UNMADE: _GONE,
    points.SCHEMA_FILE_UNMADE: r"unlink _+schema[\w.]+",
    # Lance makes both in one call; half a branch is none.
    points.BRANCH_NAMED: f"{_VERSION}, {_REF}",
    # Of an empty dataset: Lance forgets to keep the ids of its rows.
    points.BRANCH_FINISHED: r"(rename \S+/_versions/\d+\.manifest)?",
    points.BRANCH_UNNAMED: _REF.replace("link", "unlink"),
    # Without its ref the folder decides nothing.
    points.BRANCH_REMOVED: f"{_GONE}(, {_GONE})*",
    points.SIDECAR_WRITTEN: f"rename {_SIDECAR}",
    points.DATASET_COMMITTED: _VERSION,
    points.MERGE_CONFIRMED: f"rename {_SIDECAR}",
    points.PUBLISH_LANDED: _VERSION,
    points.MANIFEST_COMPACTED: _VERSION,
    points.SIDECAR_DELETED: f"unlink {_SIDECAR}",
    points.DATASET_RESTORED: _VERSION,
    points.SCHEMA_FILE_MOVED: r"rename (_+schema[\w.]+), unlink \1\.staging",
    points.LEDGER_BEGUN: _VERSION,
    points.RECOVERY_AUDITED: _VERSION,
    points.RECOVERY_ENDED: f"unlink {_SIDECAR}",
}

BEFORE, AFTER = "before", "after"
#: Which work dies at which point, the how manieth time it gets there, and where the graph ends.
OUTCOMES: list[tuple[Failpoint, str, int, str]] = [
    (points.ROOT_CLAIMED, "create", 1, BEFORE),
    (points.SCHEMA_FILE_WRITTEN, "create", 2, BEFORE),
    (points.DATASET_CREATED, "create", 2, BEFORE),
    (points.GRAPH_CREATED, "create", 1, AFTER),
    # What comes in the end is that there is nothing, as before.
    (points.GRAPH_UNMADE, "creation that is taken back", 1, BEFORE),
    (points.DATASET_UNMADE, "creation that is taken back", 2, BEFORE),
    (points.SCHEMA_FILE_UNMADE, "creation that is taken back", 1, BEFORE),
    (points.BRANCH_RESERVED, "branch create", 1, BEFORE),
    (points.BRANCH_NAMED, "branch create", 1, AFTER),
    (points.BRANCH_FINISHED, "branch create", 1, AFTER),
    (points.BRANCH_UNNAMED, "branch delete", 1, AFTER),
    (points.BRANCH_REMOVED, "branch delete", 1, AFTER),
    (points.ROWS_STAGED, "first touch of a branch", 2, BEFORE),
    (points.FORK_CREATED, "first touch of a branch", 2, BEFORE),
    (points.MERGE_STAGED, "first touch of a branch", 1, BEFORE),
    (points.BEFORE_SIDECAR, "first touch of a branch", 1, BEFORE),
    (points.SIDECAR_WRITTEN, "first touch of a branch", 1, BEFORE),
    (points.DELETIONS_STAGED, "delete with cascade", 2, BEFORE),
    (points.DATASET_COMMITTED, "delete with cascade", 1, BEFORE),
    (points.MERGE_CONFIRMED, "merge of branches", 1, AFTER),
    (points.BEFORE_PUBLISH, "merge of branches", 1, AFTER),
    # No row changes: what is before and what is after look the same.
    (points.SEGMENT_BUILT, "optimize", 1, AFTER),
    (points.SEGMENTS_JOINED, "optimize", 1, AFTER),
    (points.FRAGMENTS_REWRITTEN, "optimize", 1, AFTER),
    (points.PUBLISH_LANDED, "manifest compaction", 1, AFTER),
    (points.MANIFEST_REWRITTEN, "manifest compaction", 1, AFTER),
    (points.MANIFEST_COMPACTED, "manifest compaction", 1, AFTER),
    (points.AFTER_PUBLISH, "manifest compaction", 1, AFTER),
    (points.SIDECAR_DELETED, "manifest compaction", 1, AFTER),
    (points.DATASET_RESTORED, "recovery, half moved", 1, AFTER),
    (points.RECOVERY_PUBLISHED, "recovery, half moved", 1, AFTER),
    (points.SCHEMA_FILE_MOVED, "recovery of a schema, a type more", 2, AFTER),
    (points.LEDGER_BEGUN, "recovery, half moved", 1, AFTER),
    (points.RECOVERY_AUDITED, "recovery, half moved", 1, AFTER),
    (points.RECOVERY_ENDED, "recovery, half moved", 1, AFTER),
]


@pytest.mark.parametrize("work", WORKS)
def test_every_deciding_change_of_a_work_has_a_point_right_behind_it(
    work: str, processes: Processes, tmp_path: Path
) -> None:
    root = tmp_path / "g"
    for step in range(len(WORKS[work].begin)):
        made = processes.call("tests.faults.works:begin", root, work, step)
        assert not made.error, made.text
    root.mkdir(exist_ok=True)
    stands_behind = {point.name: changes for point, changes in STANDS_BEHIND.items()}
    reached = points_of(told_events(root, work, processes))
    assert len(reached) > 1
    for name, changes in reached:
        expected = stands_behind.get(name, "")
        assert re.fullmatch(expected, ", ".join(changes)), f"{name or 'the end'}: {changes}"


@pytest.mark.parametrize("work", sorted({work for _, work, _, _ in OUTCOMES}))
def test_a_work_that_dies_at_a_point_ends_where_the_table_says(
    work: str, processes: Processes, tmp_path: Path
) -> None:
    place = Place(tmp_path, processes, work)
    expected = {point.name: ends for point, of, _, ends in OUTCOMES if of == work}
    ended = {}
    for point, of, at, _ in OUTCOMES:
        if of != work:
            continue
        place.put()
        died = processes.call("tests.faults.points:run_to", place.root, work, point.name, at)
        assert died.died, f"{point.name} was not reached {at} times"
        ended[point.name] = place.judge()["ended"]
    assert ended == expected
