"""The branches of a graph: where each began, its newest commit, and the types it made its own."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from omnigraph_spark.errors import BranchNotFoundError, DamagedGraphError
from omnigraph_spark.formats.profile import Commit, graph_branch
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.names import MAIN


@dataclass(frozen=True)
class Branch:
    """One branch; main has no parent."""

    name: str
    head: Commit
    parent: str | None
    created_at_us: int
    manifest_version: int
    #: Types whose dataset has a branch of this name, because they were written here.
    forked_types: tuple[str, ...]

    @property
    def created_at(self) -> dt.datetime:
        """When the branch was made, in UTC (Lance records whole seconds)."""
        return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=self.created_at_us)

    def __repr__(self) -> str:
        origin = f" from {self.parent}" if self.parent else ""
        return f"Branch({self.name}{origin}, head {self.head.id})"


def read_branches(manifest: Manifest) -> list[Branch]:
    """Read all branches of a graph, in byte order of their names."""
    branches = []
    for name in manifest.branch_names():
        try:
            branches.append(read_branch(manifest, name))
        except BranchNotFoundError:
            # Deleted between the listing and the reading: it does not exist, so it is not listed.
            continue
    return branches


def read_branch(manifest: Manifest, name: str) -> Branch:
    """Read one branch."""
    state = manifest.head(name)
    head = state.lineage.head
    if head is None:
        raise DamagedGraphError(manifest.root, f"branch {name!r} has no graph commit")
    if name == MAIN:
        created_at_us, parent = state.lineage.commits[0].created_at_us, None
    else:
        file = manifest.branch_file(name)
        if file is None:
            raise BranchNotFoundError(name, tuple(manifest.branch_names()))
        created_at_us, parent = file.created_at_us, graph_branch(file.parent)
    forked = (key for key, entry in state.entries.items() if entry.dataset_branch == name)
    return Branch(name, head, parent, created_at_us, state.version, tuple(forked))
