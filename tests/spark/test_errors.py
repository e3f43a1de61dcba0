"""Errors through Spark: the code and the advice survive, secrets and tracebacks do not."""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession

from tests.helpers.builder import GraphBuilder
from tests.helpers.golden import unpack
from tests.helpers.sources import failure, read

SECRET = "hush-9f31c0"


def last_line(text: str) -> str:
    """The line a user reads first; Spark may add its own state after it."""
    lines = [line for line in text.splitlines() if line.strip()]
    return next(line for line in reversed(lines) if "SQLSTATE" not in line)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "Persn"}, "[OMNIGRAPH_TYPE_NOT_FOUND] type 'Persn' is not in this snapshot"),
        ({"type": "Person", "branch": "dev"}, "[OMNIGRAPH_BRANCH_NOT_FOUND] branch 'dev'"),
        ({"type": "Person", "brnch": "dev"}, "unknown option 'brnch'; did you mean 'branch'?"),
        ({"type": "Person", "columns": "agee"}, "no column 'agee'; did you mean 'age'?"),
        ({"type": "Person", "where": "agee > 1"}, "[OMNIGRAPH_FILTER_INVALID] filter 'agee > 1'"),
        ({"table": "comits"}, "[OMNIGRAPH_OPTION_INVALID] option 'table' is 'comits'"),
        ({}, "[OMNIGRAPH_OPTION_MISSING] option 'type' is required"),
    ],
    ids=str,
)
def test_an_error_survives_with_its_code_and_advice(
    spark: SparkSession, people: Path, options: dict[str, Any], message: str
) -> None:
    text = failure(lambda: read(spark, people, **options))
    assert message in last_line(text)
    assert "/omnigraph_spark/" not in text, "frames of the engine"
    assert "direct cause" not in text


def test_wrong_options_fail_at_load_not_at_the_first_action(
    spark: SparkSession, people: Path
) -> None:
    with pytest.raises(AnalysisException, match="OMNIGRAPH_TYPE_NOT_FOUND"):
        read(spark, people, type="Nobody")


def test_a_folder_that_is_no_graph_is_named(spark: SparkSession, tmp_path: Path) -> None:
    text = failure(lambda: read(spark, tmp_path, type="Person"))
    assert f"[OMNIGRAPH_GRAPH_NOT_FOUND] '{tmp_path}' is not a graph" in text


def test_a_user_s_schema_that_does_not_fit_is_refused(spark: SparkSession, people: Path) -> None:
    def rows(schema: str) -> list[Any]:
        reader = spark.read.format("omnigraph").schema(schema).option("type", "Person")
        return reader.load(str(people)).collect()

    assert "was given as string but is int" in failure(lambda: rows("age string"))
    assert "has no column 'Age'; did you mean 'age'?" in failure(lambda: rows("Age int"))
    assert "given as several columns but is one" in failure(lambda: rows("age int, age int"))


def test_a_reclaimed_version_names_branch_type_and_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = unpack("cleaned-branch", tmp_path)
    text = failure(lambda: read(spark, root, type="Knows", branch="keep"))
    assert (
        "[OMNIGRAPH_HISTORY_RECLAIMED] version reclaimed: dataset version 5 of edge:Knows" in text
    )
    assert "pinned on branch 'keep'" in text


@pytest.mark.smoke
def test_an_error_inside_a_task_survives_too(spark: SparkSession, tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", "node Person { name: String @key }")
    graph.write({"node:Person": [{"name": "a"}]})
    frame = read(spark, graph.root, type="Person")
    for files in graph.root.glob("nodes/*/data"):
        shutil.rmtree(files)
    with pytest.raises(PythonException, match="OMNIGRAPH_GRAPH_DAMAGED") as caught:
        frame.count()
    assert "omnigraph_spark/scan.py" not in str(caught.value)


def test_a_time_beyond_spark_s_range_is_refused_and_the_rest_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", "node Event { at: DateTime }")
    graph.write({"node:Event": [{"id": "far", "at": 2**62}]})
    frame = read(spark, graph.root, type="Event")
    assert "[OMNIGRAPH_UNSUPPORTED] a value of column 'at'" in failure(frame.collect)
    assert read(spark, graph.root, type="Event", columns="id").collect() == [("far",)]


# -- injection: nothing a caller types is ever more than a name or a condition -----------------


@pytest.mark.parametrize(
    "options",
    [
        {"type": "Person'; DROP TABLE x; --"},
        {"type": "../../etc/passwd"},
        {"type": "node:Person`"},
        {"type": "Person", "branch": "../../nodes"},
        {"type": "Person", "branch": "x' OR '1'='1"},
        {"type": "Person", "commit": "' OR 1=1 --"},
        {"type": "Person", "columns": "name, (SELECT 1)"},
        {"type": "Person", "columns": "name`, `age"},
        {"type": "Person", "where": "age = 1) OR (1 = 1"},
        {"type": "Person", "where": "age = 1; SELECT 1"},
        {"type": "Person", "where": "age = 1 --"},
        {"type": "Person", "where": "age = 1 /* */"},
        {"type": "Person", "where": '"age" = "age"'},
        {"type": "Person", "where": "age = (SELECT 1)"},
        {"type": "Person", "where": "nobody(age)"},
        {"table": "commits; x"},
    ],
    ids=str,
)
def test_an_injection_attempt_is_an_error(
    spark: SparkSession, people: Path, options: dict[str, Any]
) -> None:
    text = failure(lambda: read(spark, people, **options).collect())
    assert "[OMNIGRAPH_" in last_line(text)


def test_text_in_quotes_is_only_text(spark: SparkSession, tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", "node Person { name: String @key }")
    odd = "x'; -- /* `\" */ DROP"
    graph.write({"node:Person": [{"name": odd}, {"name": "other"}]})
    quoted = odd.replace("'", "''")
    frame = read(spark, graph.root, type="Person", where=f"name = '{quoted}'")
    assert frame.collect() == [(odd, odd)]


# -- secrets -----------------------------------------------------------------------------------


def secret_options() -> dict[str, str]:
    return {
        "storage.aws_secret_access_key": SECRET,
        "storage.aws_session_token": SECRET,
        "storage.aws_access_key_id": SECRET,
    }


@pytest.mark.smoke
def test_secrets_are_in_no_plan(spark: SparkSession, people: Path) -> None:
    frame = read(spark, people, type="Person", **secret_options()).where("age > 3")
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for mode in ("extended", "formatted", "cost", "codegen"):
            frame.explain(mode=mode)
    assert "BatchScan omnigraph" in shown.getvalue()
    assert SECRET not in shown.getvalue()
    frame.createOrReplaceTempView("secret_person")
    described = spark.sql("DESCRIBE EXTENDED secret_person").collect()
    explained = spark.sql("EXPLAIN EXTENDED SELECT * FROM secret_person").collect()
    assert SECRET not in repr(frame) + str(described) + str(explained)


@pytest.mark.parametrize("wrong", [{"type": "Nobody"}, {"type": "Person", "storag.x": SECRET}])
def test_secrets_are_in_no_error(spark: SparkSession, people: Path, wrong: dict[str, str]) -> None:
    text = failure(lambda: read(spark, people, **secret_options(), **wrong))
    assert "[OMNIGRAPH_" in text
    assert SECRET not in text


def test_secrets_are_in_no_error_of_the_object_store(spark: SparkSession) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        options = {
            **secret_options(),
            "storage.aws_endpoint": f"http://127.0.0.1:{port}",
            "storage.allow_http": "true",
            "storage.aws_region": "eu-west-1",
        }
        text = failure(lambda: read(spark, "s3://bucket/graph", type="Person", **options))
    assert "[OMNIGRAPH_STORAGE]" in last_line(text)
    assert SECRET not in text
