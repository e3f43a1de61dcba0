"""Results of benchmarks: two sessions share a file, ratios never cross from one to the other."""

from __future__ import annotations

import ast
import sys
from itertools import chain
from pathlib import Path

import pytest

from benchmarks.chart import chart
from benchmarks.measure import Sample, Timing
from benchmarks.report import Results, markdown, table
from benchmarks.targets import Beside

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
#: What the environment of lance-spark has beside the standard library.
INSTALLED = {"pyspark", "numpy", "pyarrow", "pandas"}


def took(seconds: float) -> Timing:
    return Timing((Sample(seconds, seconds),))


OURS = {"parquet": took(2.0), "omnigraph": took(1.0)}
THEIRS = {"parquet (3.5)": took(10.0), "lance-spark": took(8.0)}


@pytest.fixture
def results() -> Results:
    return Results(1_000_000, "2 cores", {"Spark": "4.2.0"}).with_work("count", OURS)


def test_sessions_that_measure_one_after_the_other_keep_what_each_measured(
    results: Results, tmp_path: Path
) -> None:
    results.with_work("count", THEIRS).with_versions({"lance-spark": "0.4.0"}).save(tmp_path)
    kept = Results.load(tmp_path, 1_000_000)
    assert kept is not None
    again = kept.with_work("count", {"parquet": took(4.0), "omnigraph": took(1.0)})
    assert {who: timing.wall_s for who, timing in again.works["count"].items()} == {
        "parquet": 4.0,
        "omnigraph": 1.0,
        "parquet (3.5)": 10.0,
        "lance-spark": 8.0,
    }
    assert again.versions == {"Spark": "4.2.0", "lance-spark": "0.4.0"}


def test_a_work_measured_anew_forgets_who_no_longer_took_part_in_its_session(
    results: Results,
) -> None:
    anew = results.with_work("count", THEIRS).with_work("count", {"parquet": took(3.0)})
    assert list(anew.works["count"]) == ["parquet", "parquet (3.5)", "lance-spark"]


def test_everybody_is_compared_with_the_parquet_of_its_own_session(results: Results) -> None:
    page = "\n".join(markdown(results.with_work("count", THEIRS)))
    assert "| count | **2 (2)** | 1 (1) = 0.50 | **10 (10)** | 8 (8) = 0.80 |" in page
    assert "a session of its own" in page
    assert next(table("count", THEIRS)) == "count (÷ parquet (3.5))"
    assert "0.80  (8.00 s)" in chart({"count": OURS | THEIRS}, "title")


def test_where_a_session_has_no_baseline_only_seconds_are_told(results: Results) -> None:
    alone = {"delta": took(30.0), "omnigraph": took(3.0), "lance-spark": took(20.0)}
    page = "\n".join(markdown(results.with_work("upsert 1%", alone)))
    assert "| 20 (20) |" in page
    assert ">(20.00 s)<" in chart({"upsert 1%": alone}, "title")
    assert any("lance-spark" in line and "    -" in line for line in table("upsert 1%", alone))


def test_to_be_ahead_of_lance_spark_is_judged_by_both_ratios() -> None:
    target = Beside("count", "lance-spark", 1.0)
    assert target.ratio({"count": OURS | THEIRS}) == pytest.approx(0.5 / 0.8)
    assert target.ratio({"count": OURS}) is None


def test_the_command_for_spark_3_needs_nothing_that_is_made_for_spark_4() -> None:
    package = BENCHMARKS / "lance_spark"
    waiting, seen = sorted(package.glob("*.py")), set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for module in imported(ast.parse(path.read_text(encoding="utf-8"))):
            top, *below = module.split(".")
            if top == "benchmarks":
                found = BENCHMARKS.joinpath(*below).with_suffix(".py") if below else None
                waiting += [found] if found and found.exists() and found not in seen else []
            else:
                assert top in INSTALLED | sys.stdlib_module_names, f"{path.name} imports {module}"
    assert BENCHMARKS / "report.py" in seen


def imported(tree: ast.Module) -> set[str]:
    """What is imported when a module is: not what functions import, nor what only types need."""
    plain = [node for node in tree.body if isinstance(node, ast.Import)]
    names = {alias.name for alias in chain.from_iterable(node.names for node in plain)}
    return names | {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
