"""Writing what a SQL statement decided row by row: updates, inserts and deletions of one type.

Every row says what becomes of it and which row of the type it was, then come the columns. To the
engine it is one write that replaces, adds and deletes, and is told where the rows lie.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph_spark.jsonl.spool import RowsByType
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.storage.staging import discard
from omnigraph_spark.writing.collected import all_but_blobs
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.places import places_of, stage_places
from omnigraph_spark.writing.stage import StageResult, StageTask
from omnigraph_spark.writing.violations import Violation, merge, violation_of
from pyspark_omnigraph.blob_columns import KeptBlobs
from pyspark_omnigraph.given_rows import given_rows
from pyspark_omnigraph.plainly import plainly
from pyspark_omnigraph.statement import Statement
from pyspark_omnigraph.worker import tune_worker

#: The columns before those of the type: what becomes of a row, and of the row it was its id, its
#: number and its place.
FACTS = OPERATION, ROW, ROW_NUMBER, ROW_PLACE = "__op", "__id", "__rowid", "__rowaddr"
#: What an operation is to the engine, by its number.
MODES = (WriteMode.DELETE, WriteMode.MERGE, WriteMode.APPEND)
_TRUE = pa.array([True])
_KEPT = "an update keeps the id, and the key it is made of: delete the row and insert another"


@dataclass
class StagedDelta(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed here
    """What one task staged, in the order of `MODES`, as small texts."""

    results: tuple[str, ...]


class DeltaWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes the decisions of one statement in one graph commit."""

    def __init__(
        self, statement: Statement, described: tuple[str, ...] = (), shown: Collection[str] = ()
    ) -> None:
        """Begin the write.

        `described` are the blob columns of which rows have descriptors, `shown` all columns that
        rows have: none where the statement only deletes.
        """
        self._statement = statement
        self._type = statement.options.type_name()
        self._write = statement.begin()
        self._columns, self._kept = None, None
        if described:
            self._kept = KeptBlobs(statement.source(self._type), described)
        if shown or described:
            declared = self._write.task(self._type, WriteMode.DELETE).declared
            plain = all_but_blobs(declared)
            blobs = {*arrow_schema(declared).names} - {"id", *plain}
            # Blobs are given as bytes, all of them, or stay with their rows.
            if blobs and not {*shown} & blobs - {*described}:
                self._columns = plain
            if shown:
                kept = blobs if self._columns else ()
                statement.refuse_unseen_columns(declared, {*shown, *kept})
        self._tasks = [
            self._write.task(self._type, mode, None if mode is WriteMode.DELETE else self._columns)
            for mode in MODES
        ]

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedDelta:
        """Stage one partition."""
        key = str(self._tasks[0].declared.type_key)
        moved: list[Violation] = []
        results: list[StageResult] = []
        with RowsByType(decided(iterator, key, moved, self._kept)) as rows, ExitStack() as undo:
            undo.callback(self._discard, results)
            for mode, task in zip(MODES, self._tasks, strict=True):
                results.append(_staged(task, rows, mode))
            found = merge((*moved, *(_plainer(v) for each in results for v in each.violations)))
            if not found:
                undo.pop_all()
        if found:
            results = [StageResult(violations=found), StageResult(), StageResult()]
        tune_worker()
        return StagedDelta(tuple(result.to_json() for result in results))

    @plainly
    def commit(self, messages: list[StagedDelta | None]) -> None:
        """Check everything and make it visible in one commit."""
        try:
            for task, results in self._staged(messages):
                self._write.add(self._type, task, results)
        except BaseException:
            self._write.abort()
            self.abort(messages)
            raise
        texts = [message.results for message in messages if message]
        staged = {str(mode): [each[at] for each in texts] for at, mode in enumerate(MODES)}
        self._statement.end(self._write, staged, columns=self._columns)
        tune_worker()

    def abort(self, messages: list[StagedDelta | None]) -> None:
        """Delete what was staged, unless a version or a sidecar may own it already.

        Spark calls this after a failed `commit` as well, in a process that knows nothing of it.
        """
        for task, results in self._staged(messages):
            self._write.discard_unowned(task, results)

    def _staged(
        self, messages: Iterable[StagedDelta | None]
    ) -> Iterator[tuple[StageTask, list[StageResult]]]:
        texts = [message.results for message in messages if message]
        for number, task in enumerate(self._tasks):
            yield task, [StageResult.from_json(each[number]) for each in texts]

    def _discard(self, results: Iterable[StageResult]) -> None:
        files = [file for result in results for file in result.all_files]
        discard(self._tasks[0].address, files, self._tasks[0].settings)


def decided(
    batches: Iterable[pa.RecordBatch],
    type_key: str,
    moved: list[Violation],
    kept: KeptBlobs | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Take batches apart by what becomes of their rows; updates that change an id are `moved`.

    Rows that are updated leave the blobs that are `kept` as they are.
    """
    for batch in batches:
        for number, mode in enumerate(MODES):
            mine = batch.filter(pc.equal(batch.column(OPERATION), pa.scalar(number, pa.int32())))
            if not mine.num_rows:
                continue
            rows = mine.select(mine.schema.names[len(FACTS) :])
            if mode is WriteMode.APPEND:
                yield mode, given_rows(rows, type_key)
                continue
            places = places_of(*(mine.column(name) for name in (ROW, ROW_NUMBER, ROW_PLACE)))
            yield _places(mode), places
            if mode is WriteMode.DELETE:
                yield mode, pa.RecordBatch.from_arrays([mine.column(ROW)], ["id"])
                continue
            same = pc.is_in(pc.equal(mine.column("id"), mine.column(ROW)), _TRUE)
            if not pc.all(same).as_py():
                ids = mine.column(ROW).filter(pc.invert(same))
                moved.append(violation_of("key", type_key, "id", _KEPT, ids))
            yield mode, rows if kept is None else kept.checked(rows, places)


def _staged(task: StageTask, rows: RowsByType, mode: WriteMode) -> StageResult:
    """Stage the rows of one operation, and where those lie that it is about."""
    if mode not in rows:
        return StageResult()
    result = task.run(rows[mode])
    if result.violations or mode is WriteMode.APPEND:
        return result
    try:
        places = stage_places(task.address, task.settings, rows[_places(mode)])
    except BaseException:
        discard(task.address, result.files, task.settings)
        raise
    return replace(result, places=places)


def _places(mode: WriteMode) -> str:
    return f"places of {mode}"


def _plainer(found: Violation) -> Violation:
    """Say of a changed key what an SQL user did, not what became of it."""
    return replace(found, rule="key", message=_KEPT) if found.rule == "id" else found
