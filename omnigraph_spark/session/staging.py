"""Staging rows of a DataFrame on Spark's executors: each partition writes its own files.

A failed attempt deletes its files itself. But when a job fails nobody hears of the tasks that did
not, and of two attempts at one task Spark counts one. So a finished attempt leaves a note beside
the dataset, and the driver deletes the files of notes that do not count. Only an attempt that is
killed while it writes leaves files; no version ever names them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from omnigraph_spark.errors import StorageError
from omnigraph_spark.stage import StageResult, StageTask
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.staging import discard
from omnigraph_spark.storage.uri import join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stage_frame(frame: DataFrame, task: StageTask) -> list[StageResult]:
    """Stage the rows of a DataFrame; only attempts that Spark counts are in the answer."""
    notes = notes_for(task, uuid4().hex)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        text = stage_noted(task, batches, notes)
        yield pa.RecordBatch.from_pydict({"result": pa.array([text])})

    results: list[StageResult] = []
    try:
        rows = frame.mapInArrow(run, "result string").collect()
        results = [StageResult.from_json(row.result) for row in rows]
    finally:
        discard_uncounted(task, notes, results)
    return results


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
