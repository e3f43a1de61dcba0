"""Random transactions against a reference that knows the rules and nothing of datasets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark.errors import ConstraintViolationError, KeyConflictError
from omnigraph_spark.writing import preparing
from omnigraph_spark.writing.pending import WriteMode
from tests.engine.reference import (
    COLUMNS,
    EMPTY,
    ROWS,
    SCHEMA,
    Reference,
    Step,
    beginnings,
    state_of,
    table_of,
)
from tests.engine.writing import assert_whole

pytestmark = pytest.mark.slow


@st.composite
def transactions(draw: st.DrawFn) -> list[Step]:
    deletes = draw(st.sampled_from([False, False, False, True]))
    types = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4))
    modes: dict[str, WriteMode] = {}
    steps = []
    for type in types:
        drawn = draw(st.sampled_from([WriteMode.MERGE, WriteMode.APPEND, WriteMode.OVERWRITE]))
        mode = WriteMode.DELETE if deletes else modes.setdefault(type, drawn)
        # Mostly without a repeated id, which every mode refuses.
        unique = (lambda row: str(row["id"])) if draw(st.integers(0, 9)) else None
        steps.append(Step(type, mode, draw(st.lists(ROWS[type], max_size=4, unique_by=unique))))
    return steps


NUMBERS = itertools.count()


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    begin=beginnings(),
    rest=st.lists(transactions(), min_size=3, max_size=8),
    large=st.booleans(),
    branch=st.sampled_from(["main", "dev"]),
    rows_per_file=st.sampled_from([1, 2, 1000]),
)
def test_a_transaction_does_what_the_rules_say_or_nothing(
    tmp_path: Path,
    begin: list[Step],
    rest: list[list[Step]],
    large: bool,
    branch: str,
    rows_per_file: int,
) -> None:
    graph = og.create(tmp_path / f"g{next(NUMBERS)}", SCHEMA)
    if branch != "main":
        graph.create_branch(branch)
        graph = graph.as_branch(branch)
    few = 0 if large else preparing.SMALL_MERGE_ROWS
    state = EMPTY
    with patch.object(preparing, "SMALL_MERGE_ROWS", few):
        for steps in (begin, *rest):
            expected = Reference.after(state, steps)
            before = graph.refresh().history(1)
            problem, commit = write(graph, steps, rows_per_file)
            event("refused" if problem else "landed" if commit else "nothing to do")
            assert bool(problem) == (expected is None), (steps, problem)
            state = state if expected is None else expected
            assert state_of(graph) == state
            assert graph.history(1) == ([commit] if commit else before)
    assert_whole(graph)


def write(
    graph: og.Graph, steps: Sequence[Step], rows_per_file: int
) -> tuple[str, og.Commit | None]:
    """Take steps in a transaction; what is wrong with them, or the commit."""
    try:
        with graph.transaction(max_rows_per_file=rows_per_file) as tx:
            for step in steps:
                tx.apply(step.mode, step.type, table_of(step))
    except (ConstraintViolationError, KeyConflictError) as error:
        return str(error), None
    return "", tx.commit
