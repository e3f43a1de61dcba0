"""Staging rows of a DataFrame on Spark's executors: each partition writes its own files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph_spark.stage import StageResult, StageTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stage_frame(frame: DataFrame, task: StageTask) -> list[StageResult]:
    """Stage the rows of a DataFrame; only attempts that Spark counts are in the answer.

    A failed attempt deletes its files itself; one that is killed leaves files that no version ever
    names.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result = task.run(batches)
        yield pa.RecordBatch.from_pydict({"result": pa.array([result.to_json()])})

    rows = frame.mapInArrow(run, "result string").collect()
    return [StageResult.from_json(row.result) for row in rows]
