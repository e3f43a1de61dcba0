"""Failpoints: each stands somewhere in the code, and each has an outcome that a test states."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from omnigraph_spark import failpoints
from omnigraph_spark.failpoints import Failpoint, all_failpoints, arm, disarm
from tests.faults.test_points import OUTCOMES

REPOSITORY = Path(__file__).parent.parent.parent
#: Where outcomes are stated.
TESTS = (
    "tests/engine/test_merge_crashes.py",
    "tests/engine/test_recovery.py",
    "tests/engine/test_recovery_of_writers.py",
    "tests/faults/test_points.py",
)


@cache
def names_in(path: Path) -> Counter[str]:
    """How often each name is used in a module, imports aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used += [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return Counter(used)


def variable_of(point: Failpoint) -> str:
    [name] = [name for name, value in vars(failpoints).items() if value is point]
    return name


@pytest.mark.parametrize("point", all_failpoints(), ids=lambda point: point.name)
def test_every_failpoint_stands_somewhere(point: Failpoint) -> None:
    folder = REPOSITORY / "omnigraph_spark"
    places = [path for path in folder.rglob("*.py") if path.name != "failpoints.py"]
    found = sum(names_in(path)[variable_of(point)] for path in places)
    assert found == 1, "a point names one instant, so it stands in one place"


@pytest.mark.parametrize("point", all_failpoints(), ids=lambda point: point.name)
def test_every_failpoint_has_a_tested_outcome(point: Failpoint) -> None:
    tested = (names_in(REPOSITORY / path)[variable_of(point)] for path in TESTS)
    assert any(tested)


def test_every_failpoint_has_a_work_that_dies_there_and_a_state_it_ends_in() -> None:
    assert {point for point, *_ in OUTCOMES} == set(all_failpoints())


def test_names_are_unique_and_say_what_is_durable() -> None:
    points = all_failpoints()
    assert len({point.name for point in points}) == len(points)
    assert all(point.durable for point in points)
    assert all(point.name.count(".") == 1 for point in points)


def test_an_armed_point_acts_once_and_a_disarmed_one_never() -> None:
    acted: list[int] = []
    point = all_failpoints()[0]
    point.reached()
    arm(point, lambda: acted.append(1), at=2)
    try:
        for _ in range(4):
            point.reached()
    finally:
        disarm()
    point.reached()
    assert acted == [1]
