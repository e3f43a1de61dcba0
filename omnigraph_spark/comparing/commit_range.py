"""Which commits a change feed is about: the first-parent chain of a branch, cut at both ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph_spark.comparing.feed import Feed, Step, plan_feed
from omnigraph_spark.errors import (
    CommitNotFoundError,
    InvalidOptionError,
    TypeNotFoundError,
    VersionNotFoundError,
)
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.lineage import first_parents
from omnigraph_spark.names import check_commit_id
from omnigraph_spark.snapshot import GraphReader, SnapshotState

CommitName = str | int
"""A commit id, or a manifest version."""


@dataclass(frozen=True)
class CommitRange:
    """Commits of a branch, as users name them.

    `since` is left out: changes after it. `starting` is part of the range, as Delta's
    `startingVersion`. Without either the range begins with the graph.
    """

    branch: str
    since: CommitName | None = None
    starting: CommitName | None = None
    until: CommitName | None = None

    def chain(self, reader: GraphReader) -> list[Commit | None]:
        """Return the commits, oldest first, after the one where they begin (None: nothing yet)."""
        lineage = reader.manifest.head(self.branch).lineage
        head = lineage.head
        if head is None:
            return []
        commits = list(reversed(list(first_parents(head, lineage.commits))))
        end = len(commits) - 1 if self.until is None else self._last(commits, self.until)
        if self.starting is not None:
            begin = self._first(commits, self.starting) - 1
        else:
            begin = -1 if self.since is None else self._last(commits, self.since)
        if begin > end:
            rule = "a commit or version at or after the beginning"
            raise InvalidOptionError("until", str(self.until), rule)
        return [commits[begin] if begin >= 0 else None, *commits[begin + 1 : end + 1]]

    def _last(self, commits: Sequence[Commit], name: CommitName) -> int:
        """Return the place of a commit, or of the last one at or before a version."""
        if isinstance(name, str):
            return self._place(commits, name)
        self._check_version(commits, name)
        return max(at for at, each in enumerate(commits) if each.manifest_version <= name)

    def _first(self, commits: Sequence[Commit], name: CommitName) -> int:
        """Return the place of a commit, or of the first one at or after a version."""
        if isinstance(name, str):
            return self._place(commits, name)
        self._check_version(commits, name, at_least=1)
        return min(at for at, each in enumerate(commits) if each.manifest_version >= name)

    def _place(self, commits: Sequence[Commit], id_: str) -> int:
        check_commit_id(id_)
        found = next((at for at, each in enumerate(commits) if each.id == id_), None)
        if found is None:
            reason = f"it is not in the history of branch {self.branch!r}"
            raise CommitNotFoundError(id_, reason)
        return found

    def _check_version(
        self, commits: Sequence[Commit], version: int, at_least: int | None = None
    ) -> None:
        newest = commits[-1].manifest_version
        least = commits[0].manifest_version if at_least is None else at_least
        if not least <= version <= newest:
            reason = f"its commits are of versions {commits[0].manifest_version} to {newest}"
            raise VersionNotFoundError(self.branch, version, newest, reason)


def read_feed(reader: GraphReader, range_: CommitRange, type_name: str, net: bool = False) -> Feed:
    """Plan the change feed of a type along commits, one by one, or only what they come to.

    A net feed is dated with the last commit.
    """
    commits = range_.chain(reader)
    if net and len(commits) > 2:
        commits = [commits[0], commits[-1]]
    known = [each for each in commits if each is not None]
    states = reader.at_commits(known)
    chain: list[Step] = list(zip(known, states, strict=True))
    if len(known) < len(commits):
        chain.insert(0, (None, None))
    return plan_feed(_type_key(type_name, states), chain)


def _type_key(name: str, states: Sequence[SnapshotState]) -> str:
    """Return the type key of a name, by the newest snapshot that has the type."""
    known: tuple[str, ...] = ()
    for state in reversed(states):
        try:
            return str(state.entry(name).type_key)
        except TypeNotFoundError as error:
            known = known or error.known
    raise TypeNotFoundError(name, known)
