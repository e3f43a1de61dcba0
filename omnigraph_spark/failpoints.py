"""Named points at which tests end a process; each says what is durable at that instant.

Reaching a point that nobody armed does nothing. A point stands right after something became durable
(or right before the first such thing), so a crash at every point is a crash at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Failpoint:
    """One instant of a write or of a recovery."""

    name: str
    #: What a crash here leaves behind.
    durable: str

    def reached(self) -> None:
        """Do what was armed for this point, if anything was."""
        action = _armed.get(self.name)
        if action is not None:
            action()


#: What is to happen at which point, in this process.
_armed: dict[str, Callable[[], None]] = {}


def arm(point: Failpoint, action: Callable[[], None], at: int = 1) -> None:
    """Run an action when a point is reached for the `at`-th time from now on, and only then."""
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1
        if count == at:
            action()

    _armed[point.name] = counted


def disarm() -> None:
    """Let every point do nothing again."""
    _armed.clear()


ROOT_CLAIMED = Failpoint(
    "create.root_claimed", "the first schema file, which says whose the root is; no graph"
)
SCHEMA_FILE_WRITTEN = Failpoint(
    "create.schema_file_written", "one schema file more of a graph that is not there yet"
)
DATASET_CREATED = Failpoint(
    "create.dataset_created", "the schema files, and one empty dataset more; no graph"
)
GRAPH_CREATED = Failpoint("create.graph_created", "the graph, whole")
GRAPH_UNMADE = Failpoint(
    "create.graph_unmade", "a new graph is taken back: no manifest, so no graph; all else is there"
)
DATASET_UNMADE = Failpoint("create.dataset_unmade", "the same, and one empty dataset less")
SCHEMA_FILE_UNMADE = Failpoint("create.schema_file_unmade", "the same, and one schema file less")
BRANCH_RESERVED = Failpoint(
    "branches.reserved", "the folder of a branch is taken; there is no branch"
)
BRANCH_NAMED = Failpoint(
    "branches.named", "a branch with its ref; its reservation and the flags of its rows are due"
)
BRANCH_FINISHED = Failpoint("branches.finished", "a branch that lacks nothing")
BRANCH_UNNAMED = Failpoint("branches.unnamed", "the ref is gone; the folder of the branch is there")
BRANCH_REMOVED = Failpoint("branches.removed", "ref and folder of a branch are gone")
ROWS_STAGED = Failpoint("staging.rows_written", "files of rows that no version names")
MERGE_STAGED = Failpoint(
    "staging.merge_written", "files of rows and of deletions that no version names"
)
DELETIONS_STAGED = Failpoint(
    "staging.deletions_written", "one file of deletions more that no version names"
)
SEGMENT_BUILT = Failpoint("indexing.segment_built", "an index segment that no version names")
SEGMENTS_JOINED = Failpoint(
    "indexing.segments_joined", "one segment of several, which are gone; no version names it"
)
FRAGMENTS_REWRITTEN = Failpoint(
    "compacting.fragments_rewritten", "files of the same rows in one, which no version names"
)
FORK_CREATED = Failpoint(
    "forks.created", "a dataset has a branch that the manifest does not place; nothing else"
)
BEFORE_SIDECAR = Failpoint("landing.before_sidecar", "staged files that no version names")
SIDECAR_WRITTEN = Failpoint("landing.sidecar_written", "the sidecar; no dataset has moved")
DATASET_COMMITTED = Failpoint(
    "landing.dataset_committed", "the sidecar, and one dataset more that has moved"
)
MERGE_CONFIRMED = Failpoint(
    "landing.merge_confirmed",
    "the sidecar of a merge, with the versions that every dataset reached",
)
BEFORE_PUBLISH = Failpoint("landing.before_publish", "the sidecar; every dataset has moved")
PUBLISH_LANDED = Failpoint(
    "publish.landed", "the commit is visible; the manifest may be due for a compaction"
)
MANIFEST_REWRITTEN = Failpoint(
    "compaction.manifest_rewritten", "the commit is visible; a smaller manifest, not yet in force"
)
MANIFEST_COMPACTED = Failpoint(
    "compaction.manifest_compacted", "the commit is visible, in a manifest of few fragments"
)
AFTER_PUBLISH = Failpoint("landing.after_publish", "the commit is visible; the sidecar is there")
SIDECAR_DELETED = Failpoint("landing.sidecar_deleted", "the commit is visible; nothing is pending")
DATASET_RESTORED = Failpoint(
    "recovery.dataset_restored", "one dataset more stands at its pinned content again, unpublished"
)
RECOVERY_PUBLISHED = Failpoint(
    "recovery.published", "manifest and datasets agree; schema files and the audit row may be due"
)
SCHEMA_FILE_MOVED = Failpoint(
    "recovery.schema_file_moved", "one staged schema file more has its final name"
)
LEDGER_BEGUN = Failpoint(
    "recovery.ledger_begun", "all is done; the table of recoveries is there, and empty"
)
RECOVERY_AUDITED = Failpoint(
    "recovery.audited", "all is done and recorded; the sidecar is still there"
)
RECOVERY_ENDED = Failpoint("recovery.ended", "all is done and recorded; nothing is pending")


def all_failpoints() -> list[Failpoint]:
    """Return every point, in the order of a write and its recovery."""
    return [value for value in globals().values() if isinstance(value, Failpoint)]
