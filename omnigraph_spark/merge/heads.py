"""The two heads of a merge and their base, read once: everything after this is decided on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph_spark.comparing.candidates import overlap_of
from omnigraph_spark.errors import ConflictError, DamagedGraphError, InvalidOptionError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.merge.base import merge_base
from omnigraph_spark.merge.plan import Outcome, TypePlan, outcome_of, plan_types
from omnigraph_spark.names import CommitRef
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.writing.target import Target


@dataclass(frozen=True)
class Sides:
    """One type on the three sides of a merge."""

    base: ScanSource | None
    source: ScanSource
    target: ScanSource


@dataclass(frozen=True)
class Heads:
    """Source and target as they were when a merge was planned, and where they parted."""

    source: SnapshotState
    target: SnapshotState
    base: SnapshotState
    outcome: Outcome
    #: The types that the source changed since the base.
    types: tuple[TypePlan, ...]
    #: The commit that merged this source before, if one did.
    merged_in: Commit | None = None

    def sides(self, key: str) -> Sides:
        """Return a type as it is on the three sides."""
        base = ScanSource.of(self.base, key) if key in self.base.entries else None
        return Sides(base, ScanSource.of(self.source, key), ScanSource.of(self.target, key))

    @property
    def rows(self) -> int:
        """About how many rows have to be looked at, from metadata."""
        found = 0
        for plan in self.types:
            sides = self.sides(plan.key)
            for side in (sides.source, sides.target):
                overlap = overlap_of(sides.base, side)
                found += overlap.before.rows + overlap.after.rows
        return found


@dataclass(frozen=True)
class Ends:
    """The branches of a merge, each known by more than its name."""

    source: Target
    target: Target

    @classmethod
    def open(cls, reader: GraphReader, source: str, into: str) -> Ends:
        """Take both branches as they are now."""
        if source == into:
            raise InvalidOptionError("into", into, "another branch than the one that is merged")
        return cls(Target(reader, source, taken_whole=True), Target(reader, into))

    def read(self, reader: GraphReader) -> Heads:
        """Find the base of the two heads, and what each type takes to be merged."""
        source, target = self.source.base, self.target.base
        ours = reader.commits(target)
        commits = {commit.id: commit for commit in (*reader.commits(source), *ours)}
        found = merge_base(source.commit, target.commit, commits.values())
        if found is None:
            detail = f"branches {source.branch!r} and {target.branch!r} share no commit"
            raise DamagedGraphError(source.root, detail)
        outcome = outcome_of(found, source.commit, target.commit)
        base = reader.resolve(CommitRef(found.id))
        types: list[TypePlan] = []
        if outcome is not Outcome.UP_TO_DATE:
            _check_same_types(source, target)
            entries = (base.entries, source.entries, target.entries)
            above = list(_ancestors(reader.manifest, target.branch))
            types = plan_types(*entries, target.branch, above)
        merged = (commit for commit in ours if commit.merged_parent_id == source.commit.id)
        return Heads(source, target, base, outcome, tuple(types), next(merged, None))


def _ancestors(manifest: Manifest, branch: str) -> Iterator[str]:
    """Yield the branches that a branch began on, the nearest first; main is not among them."""
    file = manifest.branch_file(branch)
    while file is not None and file.parent is not None:
        yield file.parent
        file = manifest.branch_file(file.parent)


def _check_same_types(source: SnapshotState, target: SnapshotState) -> None:
    if source.entries.keys() != target.entries.keys():
        keys = sorted(source.entries.keys() ^ target.entries.keys())
        detail = f"branches {source.branch!r} and {target.branch!r} do not have the same types"
        raise ConflictError(f"{detail}: {', '.join(keys)}")
