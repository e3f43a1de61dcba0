"""Interchange records read by Spark: every task parses its lines and stages the rows of all types.

Spark hands out lines in any order, so here a record is on one line, and problems quote the record
instead of its line number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from omnigraph_spark.errors import InvalidRecordsError
from omnigraph_spark.jsonl.problems import SHOWN_PROBLEMS
from omnigraph_spark.jsonl.reading import rows_from_lines
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.session.staging import discard_uncounted, notes_for, stage_noted
from omnigraph_spark.writing.stage import StageResult, StageTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What stands for the type in an answer that lists problems.
_PROBLEMS = "problems"


def stage_lines(
    spark: SparkSession, place: str, schema: GraphSchema, tasks: Mapping[str, StageTask]
) -> dict[str, list[StageResult]]:
    """Stage the records of text files by type key; bad records refuse everything."""
    token = uuid4().hex

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lines = (line for batch in batches for line in batch.column(0).to_pylist())
        for key, answer in _stage_part((line for line in lines if line), schema, tasks, token):
            yield pa.RecordBatch.from_pydict({"key": pa.array([key]), "answer": pa.array([answer])})

    staged: dict[str, list[StageResult]] = {}
    try:
        frame = spark.read.option("lineSep", "\n").text(place)
        # As bytes: Spark takes for text what is not UTF-8, and would replace it or fail on it.
        frame = frame.selectExpr("CAST(value AS BINARY) AS value")
        rows = frame.mapInArrow(run, "key string, answer string").collect()
        _refuse([json.loads(row.answer) for row in rows if row.key == _PROBLEMS])
        for row in rows:
            staged.setdefault(row.key, []).append(StageResult.from_json(row.answer))
    finally:
        for key, task in tasks.items():
            discard_uncounted(task, notes_for(task, token), staged.get(key, ()))
    return staged


def _refuse(answers: Iterable[tuple[list[str], int]]) -> None:
    problems: list[str] = []
    more = 0
    for texts, count in answers:
        problems += texts
        more += count
    if problems:
        shown = tuple(problems[:SHOWN_PROBLEMS])
        raise InvalidRecordsError(shown, more + len(problems) - len(shown))


def _stage_part(
    lines: Iterable[bytes], schema: GraphSchema, tasks: Mapping[str, StageTask], token: str
) -> list[tuple[str, str]]:
    try:
        with rows_from_lines(lines, schema, numbered=False) as rows:
            return [
                (key, stage_noted(tasks[key], batches, notes_for(tasks[key], token)))
                for key, batches in rows.items()
            ]
    except InvalidRecordsError as error:
        # As an answer: an exception of a task is tried again, and reaches the user as a traceback.
        return [(_PROBLEMS, json.dumps([error.problems, error.more]))]
