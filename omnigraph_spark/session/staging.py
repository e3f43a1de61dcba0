"""Staging rows of a DataFrame on Spark's executors: each partition writes its own files.

Few rows that lie in the driver are staged there (see `local_rows`).

A failed attempt deletes its files itself. But when a job fails nobody hears of the tasks that did
not, and of two attempts at one task Spark counts one. So a finished attempt leaves a note beside
the dataset, and the driver deletes the files of notes that do not count. Only an attempt that is
killed while it writes leaves files; no version ever names them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import pyarrow as pa

from omnigraph_spark.errors import StorageError
from omnigraph_spark.session.local_rows import local_rows
from omnigraph_spark.session.tasks import run_tasks
from omnigraph_spark.session.types import arrow_schema_of
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.staging import discard
from omnigraph_spark.storage.uri import join
from omnigraph_spark.writing.stage import StageResult, StageTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Part(Protocol):
    """Rows that can be read in any process; it can be pickled."""

    def reader(self) -> pa.RecordBatchReader:
        """Stream the rows."""


def stage_frame(frame: DataFrame, task: StageTask) -> list[StageResult]:
    """Stage the rows of a DataFrame; only attempts that Spark counts are in the answer."""
    # Here, and also without rows: from a task it would be a traceback of Spark's, and a name that
    # Spark cannot find again, because it is there twice or has a dot, would not even get there.
    task.check(arrow_schema_of(frame.schema))
    if (rows := local_rows(frame)) is not None:
        return [task.run(rows)]
    notes = notes_for(task, uuid4().hex)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        text = stage_noted(task, batches, notes)
        yield pa.RecordBatch.from_pydict({"result": pa.array([text])})

    results: list[StageResult] = []
    try:
        answers = frame.mapInArrow(run, "result string").collect()
        results = [StageResult.from_json(row.result) for row in answers]
    finally:
        discard_uncounted(task, notes, results)
    return results


def stage_parts(
    spark: SparkSession, shares: Sequence[Sequence[Part]], task: StageTask
) -> list[StageResult]:
    """Stage rows that tasks can read themselves, a share each; none of them is seen by the JVM."""
    notes = notes_for(task, uuid4().hex)
    results: list[StageResult] = []
    try:
        answers = run_tasks(spark, [partial(_stage_share, task, share, notes) for share in shares])
        results = [StageResult.from_json(text) for each in answers for text in json.loads(each)]
    finally:
        discard_uncounted(task, notes, results)
    return results


def _stage_share(task: StageTask, share: Sequence[Part], notes: str) -> str:
    return json.dumps([stage_noted(task, part.reader(), notes) for part in share])


def notes_for(task: StageTask, token: str) -> str:
    """Return the folder of the notes of one job about one type."""
    return join(task.address.base, f"_staging-{token}")


def stage_noted(task: StageTask, batches: Iterable[pa.RecordBatch], notes: str) -> str:
    """Stage one partition and leave a note of its files; return the result as text."""
    result = task.run(batches)
    text = result.to_json()
    if result.files:
        try:
            store = objects_at(notes, task.settings)
            store.write(join(notes, f"{uuid4().hex}.json"), text.encode())
        except BaseException:
            discard(task.address, result.files, task.settings)
            raise
    return text


def discard_uncounted(task: StageTask, notes: str, counted: Iterable[StageResult]) -> None:
    """Delete the files of attempts that do not count, and all notes."""
    kept = {file.path for result in counted for file in result.files}
    store = objects_at(notes, task.settings)
    try:
        for name, _ in list(store.listing(notes)):
            note = store.read(join(notes, name)) if name.endswith(".json") else None
            if note is not None:
                files = StageResult.from_json(note.decode()).files
                others = [file for file in files if file.path not in kept]
                discard(task.address, others, task.settings)
        store.delete_below(notes)
    except StorageError as error:
        # Files that nobody names harm nobody; what happened to the rows is what counts.
        warnings.warn(f"staged files stayed behind: {error}", stacklevel=3)
