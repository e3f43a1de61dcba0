"""The facade users touch: `open`, `create` and `Graph`.

Everything works without Spark; methods that return DataFrames import `session` when first called.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph_spark import branches as branching
from omnigraph_spark.branches import Branch
from omnigraph_spark.create import create_graph
from omnigraph_spark.display import counted
from omnigraph_spark.errors import (
    BranchInUseError,
    ConflictingOptionsError,
    InvalidOptionError,
    UnsupportedError,
)
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.given_rows import Rows, session_of
from omnigraph_spark.manifest import Entry
from omnigraph_spark.moving import Moving
from omnigraph_spark.names import MAIN, AnyRef, BranchRef, Ref, check_actor, check_branch_name
from omnigraph_spark.recovery.sweep import heal, recover_on_open
from omnigraph_spark.reviewing import Review
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.sharing import Sharing
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.uri import canonical_root
from omnigraph_spark.store_settings import settings_at
from omnigraph_spark.transaction import Transaction
from omnigraph_spark.upkeep import Upkeep
from omnigraph_spark.view import Snapshot
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.stage import StageLimits
from omnigraph_spark.writing.terms import WriteTerms
from omnigraph_spark.writing.violations import Violation
from omnigraph_spark.writing.write_options import check_word, terms_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open(
    root: str | Path,
    branch: str = MAIN,
    mode: str = "rw",
    actor: str | None = None,
    storage: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Graph:
    """Open a graph at the head of a branch.

    For writing, unfinished writes of processes that died are finished or undone first (see
    `Graph.recover`). What cannot be is a warning here, and an error of the first write.

    Args:
        root: A local path, ``file://`` or ``s3://`` address.
        branch: The branch the graph is bound to.
        mode: ``"r"`` promises never to write, recovery included; ``"rw"`` is the default.
        actor: Who writes, recorded in commits; ``$OMNIGRAPH_ACTOR`` or the user by default.
        storage: Settings of the object store; they win over the session's and the AWS variables.
        spark: The session for DataFrames; by default the active one when it is needed.

    >>> open("/data/social").snapshot().arrow("Person", columns=["name"])  # doctest: +SKIP
    """
    if mode not in ("r", "rw"):
        raise InvalidOptionError("mode", mode, "'r' or 'rw'")
    at = canonical_root(str(root))
    reader = GraphReader.open(at, settings_at(at, storage, spark))
    name = check_branch_name(branch)
    if mode == "rw":
        recover_on_open(reader.manifest)
    return Graph(reader, name, spark, actor, read_only=mode == "r")


def create(
    root: str | Path,
    schema: str | Path | GraphSchema,
    actor: str | None = None,
    storage: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Graph:
    """Create an empty graph and open it.

    Args:
        root: Where: a local path, ``file://`` or ``s3://`` address with nothing there yet.
        schema: The text of a schema, the path of a ``.pg`` file, or a `GraphSchema`.
        actor: Who writes, as for `open`.
        storage: Settings of the object store, as for `open`.
        spark: The session for DataFrames, as for `open`.

    >>> create("/data/social", schema="node Person { name: String @key }")  # doctest: +SKIP
    """
    at = canonical_root(str(root))
    create_graph(at, _schema_text(schema), settings_at(at, storage, spark))
    return open(root, actor=actor, storage=storage, spark=spark)


def _schema_text(schema: str | Path | GraphSchema) -> str:
    if isinstance(schema, GraphSchema):
        return schema.to_pg()
    # A text has braces or is empty; a path of a schema file has neither and a suffix.
    if isinstance(schema, Path) or (schema.endswith(".pg") and "{" not in schema):
        return Path(schema).read_text(encoding="utf-8")
    return schema


class Graph(Moving, Review, Sharing, Upkeep):
    """A graph bound to a branch; its snapshot stays until `refresh` or a write of its own."""

    def __init__(
        self,
        reader: GraphReader,
        branch: str = MAIN,
        spark: SparkSession | None = None,
        actor: str | None = None,
        read_only: bool = False,
    ) -> None:
        self._reader = reader
        self._spark = spark
        self._actor = None if actor is None else check_actor(actor)
        self._read_only = read_only
        self._bound = reader.resolve(BranchRef(branch))
        #: Whether this graph wrote since it was bound; it is bound anew when it is next read.
        self._behind = False

    @property
    def _state(self) -> SnapshotState:
        return self.refresh()._bound if self._behind else self._bound

    @property
    def root(self) -> str:
        """The canonical address of the graph."""
        return self._bound.root

    @property
    def branch(self) -> str:
        """The branch this graph is bound to."""
        return self._bound.branch

    @property
    def schema(self) -> GraphSchema:
        """The graph's schema."""
        return self._state.schema

    def snapshot(self, ref: AnyRef | None = None) -> Snapshot:
        """Return one snapshot for everything read together: the bound one, or another by ref."""
        state = self._state if ref is None else self._reader.resolve(ref)
        return Snapshot(state, self._spark)

    def at(
        self,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        timestamp: str | dt.datetime | None = None,
    ) -> Snapshot:
        """Return the snapshot at a branch head, commit, manifest version or time.

        A version or time is one of the bound branch, or of `branch` when it is given too.

        >>> graph.at(version=12)  # doctest: +SKIP
        """
        given = {"commit": commit, "version": version, "timestamp": timestamp}
        chosen = [name for name, value in given.items() if value is not None]
        if len(chosen) > 1 or (commit is not None and branch is not None):
            names = tuple(chosen) if len(chosen) > 1 else ("commit", "branch")
            raise ConflictingOptionsError(names, "name one snapshot")
        on = self.branch if branch is None else branch
        if commit is not None:
            return self.snapshot(Ref.commit(commit))
        if version is not None:
            return self.snapshot(Ref.version(version, on))
        if timestamp is not None:
            return self.snapshot(Ref.timestamp(timestamp, on))
        return self.snapshot(Ref.branch(on))

    def as_branch(self, name: str) -> Graph:
        """Return the same graph bound to another branch."""
        name = check_branch_name(name)
        return Graph(self._reader, name, self._spark, self._actor, self._read_only)

    def refresh(self) -> Graph:
        """Bind to the newest commit of the branch, and return the graph itself."""
        self._bound = self._reader.resolve(BranchRef(self.branch))
        self._behind = False
        return self

    def nodes(self, name: str) -> DataFrame:
        """Read a node type of the bound snapshot as a DataFrame."""
        return self.snapshot().nodes(name)

    def edges(self, name: str) -> DataFrame:
        """Read an edge type of the bound snapshot as a DataFrame."""
        return self.snapshot().edges(name)

    def triplets(self, name: str) -> DataFrame:
        """Read edges of the bound snapshot with both ends: structs src, edge and dst."""
        return self.snapshot().triplets(name)

    def table(self, name: str) -> DataFrame:
        """Read a table about the graph, such as ``commits``, as a DataFrame."""
        return self.snapshot().table(name)

    def register_views(self, prefix: str = "og") -> list[str]:
        """Make a temporary view ``<prefix>_<Type>`` of every type and return their names."""
        return self.snapshot().register_views(prefix)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The pinned dataset of each type in the bound snapshot, by type key."""
        return self._state.entries

    def entity(self, type: str, id: str, version: int | None = None) -> dict[str, Any] | None:
        """Return one entity by id at the bound snapshot or at a version; None when absent.

        >>> graph.entity("Person", "alice", version=12)  # doctest: +SKIP
        """
        snapshot = self.snapshot() if version is None else self.at(version=version)
        return snapshot.entity(type, id)

    def branches(self) -> list[Branch]:
        """List the branches of the graph as they are now, by name."""
        return branching.read_branches(self._reader.manifest)

    def history(self, limit: int | None = None) -> list[Commit]:
        """List the commits of the bound snapshot, newest first."""
        if limit is not None and limit < 0:
            raise InvalidOptionError("limit", str(limit), "a whole number, zero or more")
        commits = self._reader.commits(self._state)
        return commits if limit is None else commits[:limit]

    def history_frame(self) -> DataFrame:
        """Return the commits of the bound snapshot as a DataFrame."""
        return self.table("commits")

    # -- writing -----------------------------------------------------------------------------------

    def transaction(
        self,
        branch: str | None = None,
        create_from: str | AnyRef | None = None,
        actor: str | None = None,
        on_conflict: str | None = None,
        expected_table_versions: Mapping[str, int] | None = None,
        if_graph_commit: str | None = None,
        txn_app_id: str | None = None,
        txn_version: str | int | None = None,
        check: str = "all",
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        allow_external_blobs: bool = False,
    ) -> Transaction:
        """Begin a transaction over many types; it commits when its ``with`` block ends.

        Args:
            branch: The branch to write to; by default the bound one.
            create_from: What to fork the branch from when it does not exist: a branch or a ref.
            actor: Who writes, recorded in the commit.
            on_conflict: ``rebase`` or ``fail`` when another commit landed meanwhile; by default
                what only adds rebases, and what overwrites or deletes fails.
            expected_table_versions: Publish only if these types are at these dataset versions.
            if_graph_commit: Publish only if the head of the branch is this commit.
            txn_app_id: Together with `txn_version` names this piece of work; done once, it is not
                done again.
            txn_version: See `txn_app_id`.
            check: ``all``, or ``rows`` to skip the checks across rows of trusted bulk loads.
            max_rows_per_file: How many rows a staged file may have.
            max_bytes_per_file: How many bytes a staged file may have.
            allow_external_blobs: Take text given for a Blob as the address of a file.
        """
        self._refuse_read_only()
        terms = terms_of(
            actor or self._actor,
            on_conflict,
            expected_table_versions,
            if_graph_commit,
            txn_app_id,
            txn_version,
            check,
            StageLimits.of(max_rows_per_file, max_bytes_per_file),
            allow_external_blobs,
        )
        name = self.branch if branch is None else check_branch_name(branch)
        origin = Ref.branch(create_from) if isinstance(create_from, str) else create_from
        # Before its snapshot is taken, which then holds what is recovered here.
        heal(self._reader.manifest, name, held=False)
        return Transaction(self._reader, name, terms, origin, self._spark, self._written)

    def write(
        self,
        rows: Rows,
        type: str,
        mode: str = "append",
        merge_columns: Sequence[str] | None = None,
        **terms: Any,
    ) -> Commit | None:
        """Write rows of one type in one commit; further arguments as for `transaction`.

        Args:
            rows: A Spark or pandas DataFrame, pyarrow Table, RecordBatch or RecordBatchReader.
            type: ``Person``, ``node:Person`` or ``edge:Knows``.
            mode: ``append``, ``merge``, ``overwrite``, or ``delete`` (by the column id).
            merge_columns: The columns a merge changes; others keep their values.
            terms: Arguments of `transaction`.

        Returns:
            The commit; None when there was nothing to write.
        """
        check_word("mode", mode, WriteMode)
        with self.transaction(**terms) as tx:
            tx.apply(WriteMode(mode), type, rows, merge_columns)
        return tx.commit

    def delete(
        self,
        type: str,
        ids: Rows | Sequence[str] | None = None,
        where: str | None = None,
        **terms: Any,
    ) -> Commit | None:
        """Delete rows by id or condition, and the edges of deleted nodes, in one commit."""
        with self.transaction(**terms) as tx:
            tx.delete(type, ids, where)
        return tx.commit

    def check(
        self,
        rows: Rows,
        type: str,
        mode: str = "append",
        merge_columns: Sequence[str] | None = None,
    ) -> DataFrame | list[Violation]:
        """Return every rule that rows would break, without writing them; arguments as for `write`.

        A DataFrame (rule, type_key, column, message, ids, count) of Spark rows, else a list. Rules
        across rows are checked once all rows keep those of single rows.
        """
        check_word("mode", mode, WriteMode)
        spark = self._spark or session_of(rows)
        with Transaction(self._reader, self.branch, WriteTerms(), spark=spark) as tx:
            found = tx.check(WriteMode(mode), type, rows, merge_columns)
        if session_of(rows) is None:
            return list(found)
        from omnigraph_spark.session.frames import violations_frame

        return violations_frame(spark, found)

    def create_branch(self, name: str, from_: str | AnyRef = MAIN) -> Branch:
        """Create a branch from the head of another, or from a commit, version or time."""
        self._refuse_read_only()
        origin = Ref.branch(from_) if isinstance(from_, str) else from_
        state = self._reader.resolve_surely(origin)
        return branching.create_branch(self._reader.manifest, name, state)

    def delete_branch(self, name: str) -> None:
        """Delete a branch; one that others began on, or that this graph is bound to, is refused."""
        self._refuse_read_only()
        if name == self.branch:
            raise BranchInUseError(name, "this graph is bound to it")
        branching.delete_branch(self._reader.manifest, name)

    def _written(self, commit: Commit) -> None:
        """Follow a commit of our own on the bound branch when next read: that costs a request."""
        self._behind = self._behind or commit.branch == self.branch

    def _refuse_read_only(self) -> None:
        if self._read_only:
            raise UnsupportedError("writing a graph opened with mode='r'", "open it with mode='rw'")

    def __repr__(self) -> str:
        types, rows = len(self.entries), sum(entry.rows for entry in self.entries.values())
        return (
            f"Graph({self.root}, branch {self.branch}, {counted(types, 'type')}, "
            f"{counted(rows, 'row')})"
        )

    def _repr_html_(self) -> str:
        return self.snapshot()._repr_html_()
