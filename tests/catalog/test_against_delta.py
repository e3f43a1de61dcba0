"""The same statements on a graph and on a Delta table give the same rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_spark.session.lakehouse.delta_jar import delta_jar

#: How many sequences run, each with every kind of statement; `OMNIGRAPH_DML_SEQUENCES=100` takes a
#: quarter of an hour.
SEQUENCES = os.environ.get("OMNIGRAPH_DML_SEQUENCES", "2")


@pytest.mark.slow
def test_random_statements_give_the_rows_that_delta_gives(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.catalog.beside_delta"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, str(tmp_path), "0", SEQUENCES, delta_jar()],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        # Each statement takes up to a second on both; a busy machine is some times slower.
        timeout=180 + 60 * int(SEQUENCES),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["differed"] == []
    assert {"INSERT", "UPDATE", "DELETE", "MERGE"} <= set(answer["ran"])
