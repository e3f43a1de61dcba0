"""From a ref to the datasets it pins: branch heads, commits, versions and times become snapshots.

One `SnapshotState` is one manifest version; whatever is read from it belongs together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from omnigraph_spark.errors import (
    BranchNotFoundError,
    CommitNotFoundError,
    DamagedGraphError,
    TimestampNotFoundError,
    TypeAmbiguousError,
    TypeNotFoundError,
    VersionNotFoundError,
)
from omnigraph_spark.formats.profile import Commit, FormatProfile
from omnigraph_spark.lineage import last_at_or_before
from omnigraph_spark.manifest import Entry, Manifest, ManifestState
from omnigraph_spark.names import (
    MAIN,
    AnyRef,
    BranchRef,
    CommitRef,
    TimestampRef,
    TypeKind,
    VersionRef,
    timestamp_text,
)
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.storage.datasets import VersionTag
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings

# A commit row names the manifest version its writer planned. When a configuration change slipped in
# between, Lance lands the publish that many versions later, so the row is looked for there.
_VERSIONS_LATE = 8


@dataclass(frozen=True)
class SnapshotState:
    """The datasets of a graph pinned at one manifest version of one branch."""

    root: str
    settings: StorageSettings
    branch: str
    manifest_version: int
    commit: Commit
    entries: Mapping[str, Entry]
    schema: GraphSchema

    def entry(self, name: str) -> Entry:
        """Return the entry of a type given as ``node:Person``, ``edge:Knows`` or a bare name."""
        candidates = [name] if ":" in name else [f"{kind}:{name}" for kind in TypeKind]
        keys = [key for key in candidates if key in self.entries]
        if not keys:
            raise TypeNotFoundError(name, tuple(self.entries))
        if len(keys) > 1:
            raise TypeAmbiguousError(name)
        return self.entries[keys[0]]


@dataclass(frozen=True)
class GraphReader:
    """A graph opened for reading: resolves refs, reads the schema, lists branches."""

    manifest: Manifest

    @classmethod
    def open(cls, root: str, settings: StorageSettings) -> GraphReader:
        """Address a graph by its canonical root; nothing is read yet."""
        return cls(Manifest(root, settings))

    def resolve(self, ref: AnyRef) -> SnapshotState:
        """Turn a ref into a snapshot."""
        return self._snapshot(self._manifest_state(ref))

    def resolve_surely(self, ref: AnyRef) -> SnapshotState:
        """Do the same for who takes the snapshot whole: an old listing does not hide its newest."""
        if isinstance(ref, BranchRef):
            return self._snapshot(self.manifest.surely_head(ref.branch))
        return self.resolve(ref)

    def at_commits(self, commits: Iterable[Commit]) -> list[SnapshotState]:
        """Return the snapshots of commits that were found in the history of a branch."""
        heads: dict[str, ManifestState] = {}
        found = []
        for commit in commits:
            if commit.branch not in heads:
                heads[commit.branch] = self.manifest.head(commit.branch)
            found.append(self._snapshot(self._state_of(commit, heads[commit.branch])))
        return found

    def _snapshot(self, state: ManifestState) -> SnapshotState:
        commit = state.lineage.head
        if commit is None:
            raise DamagedGraphError(self.manifest.root, "its __manifest has no graph commit")
        return SnapshotState(
            root=self.manifest.root,
            settings=self.manifest.settings,
            branch=state.branch,
            manifest_version=state.version,
            commit=commit,
            entries=state.entries,
            schema=self._schema(state),
        )

    def commits(self, snapshot: SnapshotState) -> list[Commit]:
        """Return the commits visible at a snapshot, newest first."""
        state = self.manifest.at(snapshot.branch, snapshot.manifest_version)
        if state.lineage.find(snapshot.commit.id) is None:
            raise _made_again(snapshot.commit)
        return list(reversed(state.lineage.commits))

    def _schema(self, state: ManifestState) -> GraphSchema:
        """Return the schema, read again only when the branch was published to meanwhile.

        A schema apply publishes to main and needs it to be the only branch, so a branch that did
        not change since has the schema it had.
        """
        schema, settled = _read_schema(
            self.manifest, state.profile, state.branch, state.schema_since
        )
        if not settled:
            # The apply renames its files after it published: this version's may still change.
            _read_schema.cache_clear()
        return schema

    def _manifest_state(self, ref: AnyRef) -> ManifestState:
        match ref:
            case BranchRef(branch):
                return self.manifest.head(branch)
            case VersionRef(number, branch):
                return self.manifest.at(branch, number)
            case CommitRef(commit_id):
                return self._state_by_id(commit_id)
            case TimestampRef(at_us, branch):
                return self._state_at(at_us, branch)

    def _state_by_id(self, commit_id: str) -> ManifestState:
        for branch in self._branches_main_first():
            try:
                head = self.manifest.head(branch)
            except BranchNotFoundError:
                # Deleted between the listing and the reading.
                continue
            if commit := head.lineage.find(commit_id):
                return self._state_of(commit, head)
        raise CommitNotFoundError(commit_id)

    def _branches_main_first(self) -> Iterator[str]:
        # Most commits are on main, so the others are only listed when it is not there.
        yield MAIN
        yield from (name for name in self.manifest.branch_names() if name != MAIN)

    def _state_at(self, at_us: int, branch: str) -> ManifestState:
        head = self.manifest.head(branch)
        commits = head.lineage.commits
        commit = last_at_or_before(at_us, commits[-1], commits) if commits else None
        if commit is None:
            earliest = timestamp_text(commits[0].created_at_us) if commits else "never"
            raise TimestampNotFoundError(branch, timestamp_text(at_us), earliest)
        return self._state_of(commit, head)

    def _state_of(self, commit: Commit, head: ManifestState) -> ManifestState:
        """Return the first state at or after the recorded version that holds the commit.

        `head` is where the commit was found; when that is its own branch, storage is not asked for
        the newest version again.
        """
        newest = head.newest if head.branch == commit.branch else None
        for version in range(commit.manifest_version, commit.manifest_version + _VERSIONS_LATE):
            try:
                state = self.manifest.at(commit.branch, version, newest)
            except (BranchNotFoundError, VersionNotFoundError) as error:
                raise CommitNotFoundError(commit.id, error.describe()) from error
            if state.lineage.find(commit.id):
                return state
        raise _made_again(commit)


def _made_again(commit: Commit) -> CommitNotFoundError:
    reason = f"branch {commit.branch!r} was deleted and made again since"
    return CommitNotFoundError(commit.id, reason)


@lru_cache(maxsize=64)
def _read_schema(
    manifest: Manifest, profile: FormatProfile, branch: str, newest: VersionTag
) -> tuple[GraphSchema, bool]:
    """Return the schema, and whether no schema apply was under way (branch and tag are the key)."""
    store = objects_at(manifest.root, manifest.settings)
    schema = profile.read_schema(manifest.root, store, lambda: manifest.branch_names() == [MAIN])
    return schema, not manifest.schema_apply_in_progress()


def forget_schemas() -> None:
    """Read the schema of every graph again when it is next asked for: its files were replaced."""
    _read_schema.cache_clear()
