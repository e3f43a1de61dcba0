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


def test_the_demonstration_shows_all_of_it_and_says_where_to_go_next(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The session of the tests is the one the demonstration gets, and it goes on after it. It has no
    # jar, so the demonstration falls back to views.
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    monkeypatch.setattr("omnigraph_spark.session.local.local_session", lambda *_, **__: spark)
    monkeypatch.setattr("omnigraph_spark.session.configure.jar_path", lambda: None)
    run_demo()
    shown = capsys.readouterr().out
    parts = (
        "4 types",
        "|apollo|2     |[London, Paris]|",
        "DivergentUpdate",
        "bob is now lead",
        "5 persons, bob is lead",
        "died with exit code 86",
        "readers see 5 persons, as before: 5",
        "recovered: ",
        "0 left",
        "written by the OmniGraph engine",
        "Where to go next",
    )
    assert [part for part in parts if part not in shown] == []
    [picture] = re.findall(r"\S+history\.svg", shown)
    assert "<svg" in Path(picture).read_text(encoding="utf-8")
