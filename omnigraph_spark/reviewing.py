"""Branches as proposals: the part of `Graph` that brings results back and compares what differs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from omnigraph_spark.changes import Changes
from omnigraph_spark.comparing.commit_range import CommitName, CommitRange
from omnigraph_spark.diff import Diff
from omnigraph_spark.given_rows import Rows, session_in_use, session_of, table_of
from omnigraph_spark.merge import merging
from omnigraph_spark.merge.decisions import Decisions
from omnigraph_spark.merge.heads import Ends, Heads
from omnigraph_spark.merge.preview import MergePlan, preview
from omnigraph_spark.names import MAIN, AnyRef, Ref, check_branch_name, is_commit_id
from omnigraph_spark.recovery.sweep import heal
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.writing.workspace import DuckWorkspace, Workspace
from omnigraph_spark.writing.write_options import actor_or_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph_spark.formats.profile import Commit
    from omnigraph_spark.transaction import Transaction

AnyName = str | int | AnyRef
"""A branch, a commit id, a manifest version of the bound branch, or a ref."""


class Review:
    """What `Graph` offers for working on a branch and looking at it before it is merged."""

    if TYPE_CHECKING:
        _reader: GraphReader
        _spark: SparkSession | None
        _actor: str | None
        _read_only: bool

        def _refuse_read_only(self) -> None: ...

        def _written(self, commit: Commit) -> None: ...

        @property
        def branch(self) -> str: ...

        def transaction(self, *args: Any, **terms: Any) -> Transaction: ...

    def diff(self, before: AnyName, after: AnyName, type: str | None = None) -> Diff:
        """Compare two snapshots row by row, by id.

        The answer is used like a DataFrame: type_key, id, change (``added``, ``removed`` or
        ``changed``), before and after as JSON text, columns (the names of those that differ). With
        `type` it is typed: before and after are structs. `Diff.summary` counts, `Diff.batches`
        streams without Spark.

        Only what can differ is read: files that both snapshots have are skipped. Values are
        compared exactly, NaN equals NaN, blobs by content. A column that only one side has counts
        as null on the other.

        Args:
            before: A branch, a commit id, a manifest version of the bound branch, or a `Ref`.
            after: The same.
            type: ``Person``, ``node:Person`` or ``edge:Knows``; all types by default.

        >>> graph.diff("main", "dev").summary()  # doctest: +SKIP
        """
        old, new = (self._reader.resolve(self._ref(name)) for name in (before, after))
        return Diff(old, new, type, self._spark)

    def changes(
        self,
        since: CommitName | None = None,
        until: CommitName | None = None,
        *,
        type: str,
        net: bool = False,
    ) -> Changes:
        """Read the change feed of a type: what the commits of the bound branch did to its rows.

        The answer is used like a DataFrame: the columns of the type, then ``_change_type``
        (``insert``, ``update_preimage``, ``update_postimage``, ``delete``), ``_commit_version``,
        ``_commit_timestamp``, ``_commit_id`` and ``_commit_actor``. `Changes.batches` streams it
        without Spark. A merge is one block, against its first parent; compaction is silent; an
        overwrite shows what changed by id.

        Args:
            since: A commit id or manifest version: changes after it. By default all there are.
            until: A commit id or manifest version, included. By default the head of the branch.
            type: ``Person``, ``node:Person`` or ``edge:Knows``.
            net: Only what it all comes to, dated with the last commit.

        Raises:
            SchemaBoundaryError: The columns of the type changed within the range.
            HistoryReclaimedError: A version that would have to be read was removed.
            CommitNotFoundError: A commit is not in the history of the branch.

        >>> graph.changes(since=12, type="Person").show()  # doctest: +SKIP
        """
        commits = CommitRange(self.branch, since=since, until=until)
        return Changes(self._reader, commits, type, net, self._spark)

    def _ref(self, name: AnyName) -> AnyRef:
        """Turn what a user calls a snapshot into a ref; a branch wins over a commit."""
        if isinstance(name, int):
            return Ref.version(name, self.branch)
        if not isinstance(name, str):
            return name
        if is_commit_id(name) and name not in self._reader.manifest.branch_names():
            return Ref.commit(name)
        return Ref.branch(name)

    def write_back(
        self,
        rows: Rows,
        type: str,
        columns: Sequence[str],
        branch: str | None = None,
        **terms: Any,
    ) -> Commit | None:
        """Write computed columns back to rows that exist, in one commit.

        Only these columns change: all others, and which row it is (`_rowid`), stay.

        Args:
            rows: Rows as for `write`, with ``id`` or the key, and the columns.
            type: ``Person``, ``node:Person`` or ``edge:Knows``.
            columns: The columns to change; neither the id nor a key.
            branch: The branch to write to; by default the bound one.
            terms: Further arguments of `transaction`, such as ``create_from``.

        Returns:
            The commit; None when there were no rows.

        Raises:
            ConstraintViolationError: An id does not exist, or a value breaks a rule; the message
                names the ids, and nothing was written.

        >>> graph.write_back(  # doctest: +SKIP
        ...     ranks, "Person", columns=["pagerank"], branch="analytics", create_from="main"
        ... )
        """
        with self.transaction(branch=branch, **terms) as tx:
            tx.write_back(type, rows, columns)
        return tx.commit

    def preview_merge(
        self, source: str, into: str = MAIN, resolve: str | Rows | None = None
    ) -> MergePlan:
        """Say what merging a branch would do: outcome, rows by type, conflicts; change nothing.

        Arguments are those of `merge`. In a notebook the plan shows itself as tables.

        >>> graph.preview_merge("dev", into="main").counts  # doctest: +SKIP
        {'node:Person': Counts(inserted=2, updated=1, deleted=0)}
        """
        ends = self._ends(source, into)
        heads, decisions = ends.read(self._reader), _decisions(resolve)
        with self._merge_space(heads, resolve) as space:
            return preview(space, heads, decisions, may_stage=not self._read_only)

    def merge(
        self,
        source: str,
        into: str = MAIN,
        actor: str | None = None,
        resolve: str | Rows | None = None,
    ) -> Commit:
        """Merge a branch into another, row by row, in one commit that has both as parents.

        Args:
            source: The branch whose changes are merged.
            into: The branch that takes them.
            actor: Who merges, recorded in the commit.
            resolve: Who wins rows that both branches changed: ``"ours"`` (`into`), ``"theirs"``
                (`source`), or rows of ``type_key``, ``id`` and ``decision`` (ours or theirs).

        Returns:
            The merge commit. When `into` has all of `source` already nothing is written, and it is
            the commit that merged it, or the head.

        Raises:
            MergeConflictsError: Conflicts are left, see `.conflicts`; nothing was published.
            HeadMovedError: Another commit landed on `into` meanwhile; nothing was published.
            ConflictError: A branch was deleted and made again meanwhile; nothing was published.

        >>> graph.merge("dev", into="main", resolve="theirs")  # doctest: +SKIP
        """
        self._refuse_read_only()
        heal(self._reader.manifest, check_branch_name(into), held=False)
        ends = self._ends(source, into)
        heads, decisions = ends.read(self._reader), _decisions(resolve)
        who = actor_or_user(actor or self._actor)
        with self._merge_space(heads, resolve) as space:
            commit = merging.merge(self._reader, ends, heads, space, decisions, who)
        self._written(commit)
        return commit

    def _ends(self, source: str, into: str) -> Ends:
        return Ends.open(self._reader, check_branch_name(source), check_branch_name(into))

    def _merge_space(
        self, heads: Heads, resolve: str | Rows | None
    ) -> AbstractContextManager[Workspace]:
        """Return where a merge is worked out: on Spark when many rows of it may differ."""
        spark = self._spark or session_of(resolve) or session_in_use()
        if spark is None:
            return DuckWorkspace()
        from omnigraph_spark.session.workspace import merge_workspace

        return merge_workspace(spark, heads.rows)


def _decisions(resolve: str | Rows | None) -> Decisions:
    named = resolve is None or isinstance(resolve, str)
    return Decisions.parse(resolve if named else table_of(resolve))
