"""README runs as it stands: typed in an empty folder, in its order, it prints what it says."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent.parent / "README.md"


def test_every_block_of_python_and_sql_and_every_command_runs_in_an_empty_folder(
    tmp_path: Path,
) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.catalog.readme_blocks", str(README)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ran = ast.literal_eval(done.stdout.splitlines()[-1])
    assert ran["python"] >= 15
    assert ran["sql"] >= 3
    assert ran["command"] >= 4
    assert {each.name for each in tmp_path.iterdir()} >= {"data"}
