"""The README's examples run as they stand, on the graph of the demonstration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from omnigraph_spark.demo import run_demo, unpack_demo_graph

README = Path(__file__).parent.parent.parent / "README.md"
_BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture
def blocks(tmp_path: Path) -> list[tuple[str, str]]:
    """Code and expected output, with the README's roots in a folder of the test."""
    social = unpack_demo_graph(tmp_path)
    text = README.read_text(encoding="utf-8")
    text = text.replace("/data/social", str(social)).replace("/data/people", f"{tmp_path}/people")
    return _BLOCK.findall(text)


def test_every_python_block_runs_and_prints_what_it_says(
    blocks: list[tuple[str, str]], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(blocks) >= 7
    names: dict[str, Any] = {"spark": spark}
    for code, expected in blocks:
        capsys.readouterr()
        exec(compile(code, "README.md", "exec"), names)
        printed = capsys.readouterr().out
        if expected:
            assert printed.strip() == expected.strip(), code


def test_the_demonstration_reads_a_graph_of_the_engine_and_says_where_to_go_next(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The session of the tests is the one the demonstration gets, and it goes on after it.
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    run_demo()
    shown = capsys.readouterr().out
    for part in ("written by the OmniGraph engine", "Time travel", "Branches:", "where to go next"):
        assert part.lower() in shown.lower()
