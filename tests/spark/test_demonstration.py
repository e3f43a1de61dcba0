"""The demonstration in a session without the jar: views stand in for the catalog."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph_spark.demo import run_demo


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
