"""Versions that a cleanup removes under a reader: a typed error, or every row, never fewer."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import HistoryReclaimedError
from omnigraph_spark.scan import ScanRequest, ScanTask, plan_scan, read_task
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.storage.datasets import _open_shared
from omnigraph_spark.storage.lance_session import lance_session
from tests.engine.graphs import PERSON, PERSON_FOLDER, SOCIAL
from tests.helpers.builder import GraphBuilder

ROWS, ROWS_PER_FILE, ROWS_PER_BATCH = 3000, 500, 100


@pytest.fixture
def social(tmp_path: Path) -> GraphBuilder:
    graph = GraphBuilder.create(tmp_path / "graph", SOCIAL)
    people = [{"name": f"p{n}", "age": n} for n in range(ROWS)]
    graph.write({PERSON: people}, max_rows_per_file=ROWS_PER_FILE)
    return graph


def forget_what_is_open() -> None:
    """Be as a process that has opened nothing."""
    _open_shared.cache_clear()
    lance_session.cache_clear()


def planned(graph: GraphBuilder) -> list[ScanTask]:
    """The tasks of a scan, as they reach a process that has opened nothing."""
    source = ScanSource.of(og.open(str(graph.root)).snapshot()._state, PERSON)
    plan = plan_scan(source, ScanRequest(batch_rows=ROWS_PER_BATCH, split_bytes=4_000))
    sent = pickle.dumps(plan.tasks)
    graph.overwrite(PERSON, [])
    graph.publish()
    forget_what_is_open()
    tasks: list[ScanTask] = pickle.loads(sent)
    return tasks


def clean_up(graph: GraphBuilder) -> None:
    """Remove every version but the newest, and the files that only they name."""
    lance.dataset(str(graph.root / PERSON_FOLDER)).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )


def test_a_task_that_comes_late_or_again_is_told_that_its_version_is_gone(
    social: GraphBuilder,
) -> None:
    """RS-60: between planning and a late task, or before the retry of a stage."""
    tasks = planned(social)
    first = sum(batch.num_rows for batch in read_task(tasks[0]))
    assert 0 < first < ROWS
    clean_up(social)
    # A retry runs in another process as well.
    forget_what_is_open()
    for task in tasks:
        with pytest.raises(HistoryReclaimedError, match=f"version reclaimed.*{PERSON}"):
            list(read_task(task))


def test_a_scan_that_is_under_way_is_whole_or_told(social: GraphBuilder) -> None:
    """RS-60: the cleanup comes between two batches."""
    tasks, rows, told = planned(social), 0, False
    try:
        for task in tasks:
            for batch in read_task(task):
                if rows == 0:
                    clean_up(social)
                rows += batch.num_rows
    except HistoryReclaimedError:
        told = True
    assert told or rows == ROWS
