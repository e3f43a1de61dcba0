"""Delta tables into a graph: all rows once, then what Delta's change data feed says, exactly once.

Which versions of a table a branch has taken in stands in the ids of its commits, and nowhere else:
their random half is drawn from the table's id and version (`txnAppId`, `txnVersion`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from omnigraph_spark.clock import derived_ulid, random_half
from omnigraph_spark.errors import InvalidOptionError, UnsupportedError
from omnigraph_spark.lineage import Lineage
from omnigraph_spark.names import BranchRef
from omnigraph_spark.schema.model import EntityType, NodeType
from omnigraph_spark.session.lakehouse.delta import DeltaTable
from omnigraph_spark.session.staging import stage_frame
from omnigraph_spark.session.workspace import workspace_for
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.terms import OnConflict, WriteTerms
from omnigraph_spark.writing.write import Write

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from omnigraph_spark.formats.profile import Commit

#: What Delta adds to the columns of a change data feed.
_CHANGE = ("_change_type", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True)
class Ingest:
    """One run: a table, the type and branch that take it, and how."""

    reader: GraphReader
    branch: str
    table: DeltaTable
    type: str
    mode: WriteMode
    terms: WriteTerms

    def run(self) -> Commit | None:
        """Take in what is new; return the commit of the table's newest version, if it has one."""
        table_id = self.table.table_id()
        if table_id is None:
            raise InvalidOptionError("path", self.table.path, "the path of a Delta table")
        newest = self.table.version()
        state = self.reader.manifest.head(self.branch)
        base = self.reader.resolve(BranchRef(self.branch))
        key = base.entry(self.type).type_key
        app = f"delta:{table_id}:{key}"
        done = taken_in(state.lineage, app, newest)
        if done == newest:
            return state.lineage.find_repeat(derived_ulid(app, str(newest)))
        # Rows that come by id land on top of other commits; a whole table must not.
        conflict = None if self.mode is WriteMode.OVERWRITE else OnConflict.REBASE
        terms = replace(self.terms, once=(app, str(newest)), on_conflict=conflict)
        whole = done is None or self.mode is WriteMode.OVERWRITE
        write = Write(self.reader, self.branch, terms, mixed=not whole)
        try:
            if done is None or whole:
                _stage(write, self.type, self.mode, self.table.read(newest))
            else:
                self._stage_changes(write, done + 1, newest, base.schema.get(key))
        except BaseException:
            write.abort()
            raise
        return write.commit_or_abort(lambda: workspace_for(self.table.spark, write))

    def _stage_changes(
        self, write: Write, first: int, last: int, declared: EntityType | None
    ) -> None:
        feed = self.table.feed(first, last)
        net = net_changes(feed, self._identity(feed, declared))
        kept = _recorded(net, first, last)
        try:
            upserts = kept.where("_change_type <> 'delete'").drop(*_CHANGE, "_id")
            gone = kept.where("_change_type = 'delete'").select(f.col("_id").alias("id"))
            grows = kept.where("_change_type <> 'insert'").isEmpty()
            if self.mode is WriteMode.APPEND and not grows:
                raise UnsupportedError(
                    f"appending versions {first} to {last}, which update or delete rows,",
                    "use mode='merge'",
                )
            if not upserts.isEmpty():
                _stage(write, self.type, self.mode, upserts)
            if not gone.isEmpty():
                _stage(write, self.type, WriteMode.DELETE, gone)
        finally:
            kept.unpersist()

    def _identity(self, feed: DataFrame, declared: EntityType | None) -> Column:
        """Return what the id of a row will be."""
        if "id" in feed.columns:
            return f.col("id").cast("string")
        if isinstance(declared, NodeType) and declared.key and declared.key[0] in feed.columns:
            return f.col(declared.key[0]).cast("string")
        raise UnsupportedError(
            f"following the changes of a table whose rows have no id ({self.type})",
            "give the table a column id, or use mode='overwrite'",
        )


def taken_in(lineage: Lineage, app: str, newest: int) -> int | None:
    """Return the newest version that a branch has taken in, by the ids of its commits."""
    halves = {random_half(commit.id) for commit in lineage.commits}
    versions = range(newest, -1, -1)
    return next((v for v in versions if random_half(derived_ulid(app, str(v))) in halves), None)


def net_changes(feed: DataFrame, identity: Column) -> DataFrame:
    """Keep the last change of every id: `_id`, the columns, and what it comes to.

    The row before an update counts as deleted: where the id stayed, the row after it comes later.
    """
    kind = f.col("_change_type")
    gone = kind.isin("delete", "update_preimage")
    told = feed.withColumns(
        {"_change_type": f.when(gone, f.lit("delete")).otherwise(kind), "_id": identity}
    )
    order = f.struct(f.col("_commit_version"), f.when(gone, 0).otherwise(1))
    last = told.groupBy("_id").agg(f.max_by(f.struct("*"), order).alias("last"))
    return last.select("last.*")


def _recorded(changes: DataFrame, first: int, last: int) -> DataFrame:
    """Keep changes at hand; planning to read them is when Delta says that it has not any."""
    try:
        return changes.persist()
    except AnalysisException as error:
        if "CHANGE_DATA" not in (error.getCondition() or ""):
            raise
        raise UnsupportedError(
            f"taking in versions {first} to {last} of a table without a change data feed",
            "set its property delta.enableChangeDataFeed, or use mode='overwrite'",
        ) from error


def _stage(write: Write, type: str, mode: WriteMode, rows: DataFrame) -> None:
    task = write.task(type, mode)
    write.add(type, task, stage_frame(rows, task))
