"""Interchange records into staged rows: read in this process, or by Spark when there are many.

Either way the whole input is read before any of it is kept, and one bad record refuses all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph_spark.errors import InvalidOptionError
from omnigraph_spark.given_rows import session_in_use
from omnigraph_spark.jsonl.reading import read_jsonl
from omnigraph_spark.jsonl.sources import Source
from omnigraph_spark.storage.staging import discard
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.stage import StageResult, StageTask
from omnigraph_spark.writing.violations import refuse
from omnigraph_spark.writing.write import Write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: From this size on lines are read by Spark: below it one process is done before tasks have begun.
LARGE_BYTES = 64 << 20

_PATTERN = frozenset("*?[]{}\\")

Staged = tuple[str, StageTask, Sequence[StageResult]]


def stage_jsonl(
    write: Write, source: Source, mode: WriteMode, spark: SparkSession | None
) -> list[Staged]:
    """Stage the rows of all types; if any row breaks a rule, every violation is in the error."""
    if mode is WriteMode.DELETE:
        raise InvalidOptionError("mode", mode, "append, merge or overwrite")
    spark = spark or session_in_use()
    staged: list[Staged] = []
    with ExitStack() as undo:
        undo.callback(_discard, staged)
        if spark is not None and isinstance(source, str | os.PathLike) and is_large(source):
            staged += _stage_by_spark(write, os.fspath(source), mode, spark)
        else:
            with read_jsonl(source, write.base.schema) as rows:
                for key, batches in rows.items():
                    task = write.task(key, mode)
                    staged.append((key, task, [task.run(batches)]))
        refuse(found for _, _, results in staged for each in results for found in each.violations)
        undo.pop_all()
    return staged


def _discard(staged: Sequence[Staged]) -> None:
    for _, task, results in staged:
        discard(task.address, (file for each in results for file in each.files), task.settings)


def is_large(source: str | os.PathLike[str]) -> bool:
    """Tell whether a source is worth tasks: a remote one, or large files."""
    text = os.fspath(source)
    if text.lstrip()[:1] in ("{", ""):
        return False
    if "://" in text:
        return True
    path = Path(text)
    if path.exists() and _PATTERN.intersection(text):
        # To Spark it would be a pattern, and stand for other files.
        return False
    if path.is_dir():
        files = list(path.iterdir())
    else:
        files = [path] if path.exists() else [Path(name) for name in glob(text, recursive=True)]
    return sum(file.stat().st_size for file in files if file.is_file()) >= LARGE_BYTES


def _stage_by_spark(
    write: Write, place: str, mode: WriteMode, spark: SparkSession
) -> Iterator[Staged]:
    from omnigraph_spark.session.lines import stage_lines

    tasks = {
        str(declared.type_key): write.task(str(declared.type_key), mode)
        for declared in write.base.schema.types()
        if str(declared.type_key) in write.base.entries
    }
    # Not as a URI: a pattern would be escaped in it.
    place = place if "://" in place else f"file://{Path(place).absolute()}"
    for key, results in stage_lines(spark, place, write.base.schema, tasks).items():
        yield key, tasks[key], results
