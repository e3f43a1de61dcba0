"""`Transaction`: many types, one graph commit; the facade of `write`.

Rows come as DataFrames (staged by executors), or as pyarrow Tables, RecordBatchReaders and pandas
DataFrames (staged in this process). What is staged is seen by this transaction alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from omnigraph_spark.checking import find_violations
from omnigraph_spark.errors import InvalidOptionError, UnsupportedError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.given_rows import Rows, session_of, stage_rows
from omnigraph_spark.importing import stage_parquet
from omnigraph_spark.jsonl.sources import Source
from omnigraph_spark.loading import stage_jsonl
from omnigraph_spark.names import AnyRef, TypeKey, TypeKind
from omnigraph_spark.schema.model import GraphSchema, NodeType
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.writing.own_rows import own_rows
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.terms import WriteTerms
from omnigraph_spark.writing.violations import Violation
from omnigraph_spark.writing.workspace import Workspace
from omnigraph_spark.writing.write import Write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Transaction:
    """Changes that become visible together when the ``with`` block ends, or not at all.

    >>> with graph.transaction(branch="dev") as tx:  # doctest: +SKIP
    ...     tx.merge("Person", people)
    ...     tx.append("Knows", knows)
    >>> tx.commit.id  # doctest: +SKIP
    """

    def __init__(
        self,
        reader: GraphReader,
        branch: str,
        terms: WriteTerms,
        create_from: AnyRef | None = None,
        spark: SparkSession | None = None,
        on_commit: Callable[[Commit], None] | None = None,
    ) -> None:
        self._write = Write(reader, branch, terms, create_from)
        self._spark = spark
        self._on_commit = on_commit
        self._ended = False
        self.commit: Commit | None = None

    def append(self, type: str, rows: Rows) -> None:
        """Insert rows; an id that exists already fails the transaction."""
        self._stage(type, WriteMode.APPEND, rows)

    def merge(self, type: str, rows: Rows, columns: Sequence[str] | None = None) -> None:
        """Insert rows, or replace those of the same id: whole, or in some columns only."""
        self._stage(type, WriteMode.MERGE, rows, columns)

    def write_back(self, type: str, rows: Rows, columns: Sequence[str]) -> None:
        """Change some columns of rows that exist; an id that does not fails the transaction."""
        self._refuse_ended()
        _check_written_back(self._write.base.entry(type).type_key, self._write.base.schema, columns)
        self._stage(type, WriteMode.MERGE, rows, columns, existing_only=True)

    def overwrite(self, type: str, rows: Rows) -> None:
        """Let the type hold exactly these rows."""
        self._stage(type, WriteMode.OVERWRITE, rows)

    def delete(
        self, type: str, ids: Rows | Sequence[str] | None = None, where: str | None = None
    ) -> None:
        """Remove rows by id or by condition; edges that end at removed nodes go, too."""
        if (ids is None) == (where is None):
            raise InvalidOptionError("where", str(where), "either ids or a condition")
        self._refuse_ended()
        if where is not None:
            self._write.delete_where(type, where)
            return
        if isinstance(ids, list | tuple):
            try:
                ids = pa.table({"id": pa.array(ids, pa.string())})
            except (pa.ArrowException, UnicodeEncodeError) as error:
                raise InvalidOptionError("ids", str(error), "texts") from error
        self._stage(type, WriteMode.DELETE, ids)

    def arrow(self, type: str) -> pa.Table:
        """Read a type as this transaction leaves it, without Spark: committed and own rows."""
        self._refuse_ended()
        return own_rows(self._write.base, type, self._write.changes, self._write.deletes)

    def nodes(self, name: str) -> DataFrame:
        """Read a node type as this transaction leaves it; use the frame before it ends."""
        return self._frame(TypeKind.NODE, name)

    def edges(self, name: str) -> DataFrame:
        """Read an edge type as this transaction leaves it; use the frame before it ends."""
        return self._frame(TypeKind.EDGE, name)

    def _frame(self, kind: TypeKind, name: str) -> DataFrame:
        from omnigraph_spark.session.own_frames import own_frame

        self._refuse_ended()
        write = self._write
        key = write.base.entry(name if ":" in name else f"{kind}:{name}").type_key
        return own_frame(self._spark, write.base, str(key), write.changes, write.deletes)

    def apply(
        self, mode: WriteMode, type: str, rows: Rows, columns: Sequence[str] | None = None
    ) -> None:
        """Write rows in the mode given; a deletion takes them by their ids."""
        self._stage(type, mode, rows, columns)

    def check(
        self, mode: WriteMode, type: str, rows: Rows, columns: Sequence[str] | None = None
    ) -> tuple[Violation, ...]:
        """Return every rule that rows would break, and forget them; nothing else may be staged."""
        self._refuse_ended()
        return find_violations(self._write, type, mode, rows, columns, self._workspace)

    def load_jsonl(self, source: Source, mode: WriteMode = WriteMode.APPEND) -> None:
        """Write records of any types, in any order, in the engine's interchange format.

        Args:
            source: A file, folder or pattern, the text itself, or lines. A large file, or one of
                an object store, is read by Spark where there is a session, one record a line.
            mode: How rows meet those of the same id, for all types.
        """
        self._refuse_ended()
        for key, task, results in stage_jsonl(self._write, source, mode, self._spark):
            self._write.add(key, task, results)

    def import_parquet(
        self,
        type: str,
        path: str | os.PathLike[str],
        mode: WriteMode = WriteMode.APPEND,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Write the rows of Parquet files of one type, read where they are staged.

        Args:
            type: ``Person``, ``node:Person`` or ``edge:Knows``.
            path: A file, a folder or a pattern, local or on S3; large ones are read by tasks where
                there is a session, and executors must be able to read them then.
            mode: How rows meet those of the same id.
            columns: The columns that a merge changes.
        """
        self._refuse_ended()
        task = self._write.task(type, mode, columns)
        self._write.add(type, task, stage_parquet(task, os.fspath(path), self._spark))

    def _stage(
        self,
        type: str,
        mode: WriteMode,
        rows: Rows,
        columns: Sequence[str] | None = None,
        existing_only: bool = False,
    ) -> None:
        self._refuse_ended()
        task = self._write.task(type, mode, columns, existing_only)
        self._spark = self._spark or session_of(rows)
        self._write.add(type, task, stage_rows(task, rows))

    def _workspace(self) -> AbstractContextManager[Workspace]:
        """Return where the transaction is checked: on Spark when a session has many rows of it."""
        if self._spark is None:
            return self._write.workspace()
        from omnigraph_spark.session.workspace import workspace_for

        return workspace_for(self._spark, self._write)

    def _refuse_ended(self) -> None:
        if self._ended:
            raise UnsupportedError("writing in a transaction that has ended", "begin another one")

    def __enter__(self) -> Self:
        self._refuse_ended()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True
        if error is not None:
            self._write.abort()
            return
        self.commit = self._write.commit_or_abort(self._workspace)
        if self.commit is not None and self._on_commit is not None:
            self._on_commit(self.commit)


def _check_written_back(key: TypeKey, schema: GraphSchema, columns: Sequence[str]) -> None:
    """Refuse columns that say which row it is: changed, it would be another one."""
    declared = schema.get(key)
    keys = {"id", *(declared.key if isinstance(declared, NodeType) else ())}
    named = [name for name in columns if name in keys]
    if named or not columns:
        rule = "one or more columns besides the id and the key, by which rows are found"
        raise InvalidOptionError("columns", ", ".join(columns), rule)
