"""The branch a write goes to: one that is there, or one that the write makes first.

A name is not enough to know a branch by: one that was deleted and made again is another.
"""

from __future__ import annotations

from omnigraph_spark.branches import create_branch
from omnigraph_spark.errors import BranchExistsError, BranchNotFoundError, ConflictError
from omnigraph_spark.manifest import ManifestState
from omnigraph_spark.names import MAIN, AnyRef, BranchRef
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.branches import BranchFile
from omnigraph_spark.storage.uri import is_s3
from omnigraph_spark.writing.heads import PlanAgain


class Target:
    """A branch to write to, as it was when the write was planned."""

    def __init__(
        self,
        reader: GraphReader,
        name: str,
        create_from: AnyRef | None = None,
        *,
        taken_whole: bool = False,
    ) -> None:
        read = reader.resolve_surely if taken_whole else reader.resolve
        self.name = name
        self._reader = reader
        self._is_new = False
        self._born = self._branch_file()
        try:
            self.base = read(BranchRef(name))
        except BranchNotFoundError:
            if create_from is None:
                raise
            self.base = reader.resolve_surely(create_from)
            self._is_new = True

    def state(self) -> ManifestState:
        """Return the newest state of the branch, or of what it is going to begin at."""
        manifest = self._reader.manifest
        if self._is_new:
            if self._branch_file() is not None:
                raise self._made_meanwhile()
            return manifest.at(self.base.branch, self.base.manifest_version)
        state = manifest.head(self.name)
        if self._branch_file() != self._born or state.lineage.find(self.base.commit.id) is None:
            # What was staged may have gone with the branch.
            raise ConflictError(f"branch {self.name!r} was deleted and made again meanwhile")
        return state

    def make(self) -> None:
        """Make the branch if it is new."""
        if not self._is_new:
            return
        try:
            create_branch(self._reader.manifest, self.name, self.base)
        except BranchExistsError as error:
            raise self._made_meanwhile() from error
        self._is_new, self._born = False, self._branch_file()

    def newest(self, surely: bool = False) -> SnapshotState:
        """Return the snapshot at the head of the branch, surely also where a listing is older."""
        read = self._reader.resolve_surely if surely else self._reader.resolve
        return read(BranchRef(self.name))

    def is_behind(self) -> bool:
        """Tell whether the base was not the newest: object stores may list what was before."""
        if self._is_new or not is_s3(self.base.root):
            return False
        return self.newest(surely=True).manifest_version > self.base.manifest_version

    def _made_meanwhile(self) -> PlanAgain:
        self._is_new, self._born = False, self._branch_file()
        return PlanAgain(f"branch {self.name!r} was made by another writer")

    def _branch_file(self) -> BranchFile | None:
        return None if self.name == MAIN else self._reader.manifest.branch_file(self.name)
