"""Classes of the jar on their own, without a session: one small Java program, compiled once."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

UNITS = Path(__file__).parent / "units" / "JarUnits.java"
JAVA = Path(__file__).parent.parent.parent / "catalog" / "java"
CASES = {
    "rows": "rows arrive in order, and the message is Python's",
    "early": "rows that Python did not take fail the task",
    "failure": "what fails in Python fails the task",
    "cancelled": "a cancelled task waits for Python and stays cancelled",
    "batch": "a batch that is cut short is refused",
    "ring": "only the memory that was meant is mapped",
    "predicates": "predicates become trees or stay in Spark",
}


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The cases that passed, up to the first that did not."""
    folder = tmp_path_factory.mktemp("units")
    jars = f"{Path(pyspark.__file__).parent}/jars/*"
    sources = [UNITS, *JAVA.rglob("*.java")]
    compiling = [
        "javac",
        "-nowarn",
        "-proc:none",
        "-cp",
        jars,
        "-d",
        str(folder),
        *map(str, sources),
    ]
    compiled = subprocess.run(compiling, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr[-3000:]
    _write_batches(folder)
    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    running = ["java", opens, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{jars}"]
    done = subprocess.run(
        [*running, "io.omnigraph.spark.JarUnits", str(folder), *CASES],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        print(done.stderr[-3000:])
    return done.stdout.split()


def _write_batches(folder: Path) -> None:
    """A batch of two lists, and the same with an end beyond the values."""
    batch = pa.record_batch({"list": pa.array([[1, 2], [3]], pa.list_(pa.int32()))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    whole = sink.getvalue().to_pybytes()
    (folder / "lists.arrow").write_bytes(whole)
    ends = struct.pack("<iii", 0, 2, 3)
    assert whole.count(ends) == 1
    (folder / "wrong.arrow").write_bytes(whole.replace(ends, struct.pack("<iii", 0, 2, 300)))


@pytest.mark.parametrize("case", CASES, ids=CASES.get)
def test_of_the_jar(passed: list[str], case: str) -> None:
    assert case in passed
