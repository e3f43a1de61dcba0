"""The commits visible on a branch: its head, its history, its state at a time. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from omnigraph_spark.clock import random_half
from omnigraph_spark.errors import DamagedGraphError
from omnigraph_spark.formats.profile import Commit, CommitRow, FormatProfile


class Lineage:
    """The commit rows of one manifest version, decoded when first asked for.

    `root` is only for the error about a row that cannot be decoded.
    """

    def __init__(self, rows: Sequence[CommitRow], profile: FormatProfile, root: str) -> None:
        self._rows = rows
        self._profile = profile
        self._root = root

    @cached_property
    def commits(self) -> tuple[Commit, ...]:
        """All commits, oldest first."""
        return tuple(sorted(map(self._decode, self._rows), key=commit_order))

    @cached_property
    def head(self) -> Commit | None:
        """The newest commit; only candidates are decoded, however long the history."""
        return self._newest(self._rows)

    def find(self, commit_id: str) -> Commit | None:
        """Return the commit with that id, if it is visible here."""
        row = next((row for row in self._rows if row.id == commit_id), None)
        return None if row is None else self._decode(row)

    def find_repeat(self, commit_id: str) -> Commit | None:
        """Return the commit whose id has the same random half, which names one piece of work."""
        half = random_half(commit_id)
        # Whoever commits asks this of the whole history: to call a function for each row shows.
        row = next((row for row in self._rows if row.id.endswith(half)), None)
        return None if row is None else self._decode(row)

    def mentions(self, text: str) -> bool:
        """Tell whether a text is in any commit row; sure when it is not, and nothing is decoded."""
        return any(text in row.detail for row in self._rows)

    def followed_by(self, rows: Sequence[CommitRow]) -> Lineage:
        """Return the lineage with newer commits."""
        lineage = Lineage([*self._rows, *rows], self._profile, self._root)
        # Whoever commits in a row would look for the head among all commits each time.
        heads = filter(None, (self.head, self._newest(rows)))
        lineage.head = max(heads, key=commit_order, default=None)
        return lineage

    def _newest(self, rows: Sequence[CommitRow]) -> Commit | None:
        newest = max((row.manifest_version for row in rows), default=0)
        candidates = (row for row in rows if row.manifest_version == newest)
        return max(map(self._decode, candidates), key=commit_order, default=None)

    def _decode(self, row: CommitRow) -> Commit:
        try:
            return self._profile.decode_commit(row)
        except ValueError as error:
            raise DamagedGraphError(self._root, str(error)) from error


def commit_order(commit: Commit) -> tuple[int, int, str]:
    """Return the format's order of commits: manifest version, then time, then id."""
    return (commit.manifest_version, commit.created_at_us, commit.id)


def first_parents(head: Commit, commits: Iterable[Commit]) -> Iterator[Commit]:
    """Walk from a head through first parents, newest first."""
    by_id = {commit.id: commit for commit in commits}
    at: Commit | None = head
    while at is not None:
        yield at
        # Taking a commit out as it is passed ends the walk even on a damaged, circular history.
        del by_id[at.id]
        at = by_id.get(at.parent_id) if at.parent_id else None


def last_at_or_before(at_us: int, head: Commit, commits: Iterable[Commit]) -> Commit | None:
    """Return the newest commit on the first-parent chain that was made at or before a time.

    Commit times may go backwards along a chain (clocks differ), so the chain decides the order.
    """
    chain = first_parents(head, commits)
    return next((commit for commit in chain if commit.created_at_us <= at_us), None)
