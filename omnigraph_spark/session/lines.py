"""Interchange records read by Spark: every task parses its lines and stages the rows of all types.

Spark hands out lines in any order, so here a record is on one line, and problems quote the record
instead of its line number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph_spark.errors import InvalidRecordsError
from omnigraph_spark.jsonl.problems import SHOWN_PROBLEMS
from omnigraph_spark.jsonl.reading import rows_from_lines
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.stage import StageResult, StageTask
from omnigraph_spark.storage.staging import discard

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What stands for the type in an answer that lists problems.
_PROBLEMS = "problems"


def stage_lines(
    spark: SparkSession, place: str, schema: GraphSchema, tasks: Mapping[str, StageTask]
) -> dict[str, list[StageResult]]:
    """Stage the records of text files by type key; bad records refuse everything."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lines = (line for batch in batches for line in batch.column(0).to_pylist())
        for key, answer in _stage_part((line for line in lines if line), schema, tasks):
            yield pa.RecordBatch.from_pydict({"key": pa.array([key]), "answer": pa.array([answer])})

    frame = spark.read.option("lineSep", "\n").text(place)
    rows = frame.mapInArrow(run, "key string, answer string").collect()
    staged: dict[str, list[StageResult]] = {}
    problems: list[str] = []
    more = 0
    for row in rows:
        if row.key == _PROBLEMS:
            texts, count = json.loads(row.answer)
            problems += texts
            more += count
        else:
            staged.setdefault(row.key, []).append(StageResult.from_json(row.answer))
    if problems:
        for key, results in staged.items():
            _discard(tasks[key], results)
        shown = tuple(problems[:SHOWN_PROBLEMS])
        raise InvalidRecordsError(shown, more + len(problems) - len(shown))
    return staged


def _stage_part(
    lines: Iterable[str], schema: GraphSchema, tasks: Mapping[str, StageTask]
) -> list[tuple[str, str]]:
    done: list[tuple[str, StageResult]] = []
    try:
        with rows_from_lines(lines, schema, numbered=False) as rows:
            for key, batches in rows.items():
                done.append((key, tasks[key].run(batches)))
    except InvalidRecordsError as error:
        # As an answer: an exception of a task is tried again, and reaches the user as a traceback.
        return [(_PROBLEMS, json.dumps([error.problems, error.more]))]
    except BaseException:
        for key, result in done:
            _discard(tasks[key], [result])
        raise
    return [(key, result.to_json()) for key, result in done]


def _discard(task: StageTask, results: Iterable[StageResult]) -> None:
    discard(task.address, (file for result in results for file in result.files), task.settings)
