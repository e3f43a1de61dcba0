"""Statements whose tasks fail or are tried again: each row once, or nothing and no files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_spark as og
from tests.catalog.statements import Statements
from tests.helpers.files import data_files, named_files


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE og.nodes.Person SET city = broken(name)",
        "INSERT INTO og.nodes.Person (name) SELECT broken(concat(name, '!')) FROM og.nodes.Person",
        """MERGE INTO og.nodes.Person t USING (SELECT broken(name) AS id FROM og.nodes.Person) s
        ON t.id = s.id WHEN MATCHED THEN UPDATE SET age = 9""",
    ],
)
def test_a_statement_that_fails_on_its_way_leaves_no_trace(dml: Statements, statement: str) -> None:
    def broken(name: str) -> str:
        if name.startswith("dan"):
            raise ValueError("on its way")
        return name

    dml.spark.udf.register("broken", broken, "string")
    assert "on its way" in dml.refused(statement)


#: A driver that tries tasks again: the first attempt at each fails when its rows were handed on.
RETRYING = """
import json, os, sys
from pyspark import TaskContext
from pyspark.sql import SparkSession
import omnigraph_spark as og
root, marks = sys.argv[1:3]
builder = (SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2"))
spark = og.configure(builder, og=root).getOrCreate()

def fails_once(name):
    # The last row of the task's: all others were handed on by then.
    if name.startswith("p9"):
        task = TaskContext.get()
        try:
            mark = f"{marks}/{task.stageId()}-{task.partitionId()}"
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return name
        raise RuntimeError("the first attempt fails")
    return name

spark.udf.register("fails_once", fails_once, "string")
spark.sql("UPDATE og.nodes.Person SET city = fails_once(name)")
spark.sql("INSERT INTO og.nodes.Person (name, city) "
          "SELECT concat('q', name), fails_once(name) FROM og.nodes.Person")
spark.sql("MERGE INTO og.nodes.Person t USING (SELECT fails_once(name) AS id FROM og.nodes.Person "
          "WHERE name LIKE 'p%') s ON t.id = s.id WHEN MATCHED AND t.id < 'p5' THEN DELETE "
          "WHEN MATCHED THEN UPDATE SET age = 7")
print(json.dumps({"failed": len(os.listdir(marks))}))
spark.stop()
"""


@pytest.mark.slow
def test_a_task_that_is_tried_again_decides_once(tmp_path: Path) -> None:
    graph = og.create(
        tmp_path / "graph", "node Person { name: String @key age: I32? city: String? }"
    )
    for part in ("p0", "p9"):
        rows = [{"name": f"{part}-{number}"} for number in range(300)]
        graph.write(pa.Table.from_pylist(rows), "Person")
    marks = tmp_path / "marks"
    marks.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RETRYING, graph.root, str(marks)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1])["failed"] >= 3
    rows = graph.refresh().snapshot().arrow("Person").to_pylist()
    assert len(rows) == len({row["id"] for row in rows}) == 900
    assert {row["age"] for row in rows if row["id"].startswith("p9")} == {7}
    assert {row["city"] for row in rows} == {row["id"].lstrip("q") for row in rows}
    assert data_files(graph, "node:Person") >= named_files(graph, "node:Person")
