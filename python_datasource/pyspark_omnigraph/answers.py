"""Every question the jar asks: a name and arguments in options, the answer in a field's metadata.

An error raised on purpose is an answer too: raised, it would end the worker that Spark reuses, and
its text would arrive at the end of a traceback.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from omnigraph_spark.errors import OmnigraphError, UnsupportedError
from pyspark_omnigraph.catalog import GraphCatalog
from pyspark_omnigraph.jar_options import ARGUMENTS, CALL
from pyspark_omnigraph.removing import delete_where, truncate
from pyspark_omnigraph.worker import tune_worker

#: What may be asked, by name; arguments are those of the function.
QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "list_namespaces": GraphCatalog.list_namespaces,
    "describe_namespace": GraphCatalog.describe_namespace,
    "list_tables": GraphCatalog.list_tables,
    "load_table": GraphCatalog.load_table,
    "reload_table": GraphCatalog.reload_table,
    "load_changes": GraphCatalog.load_changes,
    "count_rows": GraphCatalog.count_rows,
    "look_up": GraphCatalog.look_up,
    "describe_procedures": GraphCatalog.describe_procedures,
    "call_procedure": GraphCatalog.call_procedure,
    "delete_where": delete_where,
    "truncate": truncate,
}


def answer(options: Mapping[str, str]) -> StructType:
    """Answer the question in these options, as a schema of one field."""
    said = json.dumps(_said(options))
    tune_worker()
    return StructType([StructField("answer", StringType(), True, {"answer": said})])


def _said(options: Mapping[str, str]) -> dict[str, Any]:
    try:
        question = QUESTIONS.get(options[CALL])
        if question is None:
            advice = "the jar and the Python package are of different releases: update both"
            raise UnsupportedError(f"question {options[CALL]!r}", advice)
        return {"ok": question(GraphCatalog.of(options), **json.loads(options[ARGUMENTS]))}
    except OmnigraphError as error:
        return {"error": error.code, "message": str(error)}
