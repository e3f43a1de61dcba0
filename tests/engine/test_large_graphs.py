"""What the driver does is cheap however large a graph is: it looks at types and fragments, once.

The Lance metadata is real; only the rows behind it are not there. Seconds are CPU time of this
process, so a busy machine does not count.
"""

from __future__ import annotations

import json
import pickle
import resource
import time
from pathlib import Path

import lance
import pytest
from lance.fragment import FragmentMetadata

import omnigraph_spark as og
from omnigraph_spark.scan import ScanRequest, plan_columns, plan_scan
from omnigraph_spark.scan_source import ScanSource
from tests.helpers.builder import GraphBuilder

pytestmark = pytest.mark.slow

SCHEMA = "node Person { name: String @key age: I32? }"
PERSON = "node:Person"
FRAGMENTS, TYPES = 100_000, 500
MOST_SECONDS = 5.0
MOST_KIB = 1 << 20


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A type of 100,000 fragments of a million rows and 256 MiB each, which all name one file."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("huge") / "graph", SCHEMA)
    pin = graph.append(PERSON, [{"name": "ada", "age": 36}])
    dataset = lance.dataset(graph.root / pin.path)
    known = dataset.get_fragments()[0].metadata.to_json()
    known |= {"physical_rows": 1_000_000, "row_id_meta": None}
    known["files"] = [{**file, "file_size_bytes": 256 << 20} for file in known["files"]]
    fragments = [
        FragmentMetadata.from_json(json.dumps({**known, "id": number}))
        for number in range(FRAGMENTS)
    ]
    moved = lance.LanceDataset.commit(
        dataset.uri,
        lance.LanceOperation.Overwrite(dataset.schema, fragments),
        read_version=dataset.version,
        enable_stable_row_ids=True,
    )
    graph._moved(pin, moved, "main")
    graph.publish()
    return graph.root


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_scan_of_100_000_fragments_is_planned_within_5_seconds_and_1_gib(huge: Path) -> None:
    before, start = peak_kib(), time.process_time()

    source = ScanSource.of(og.open(huge, mode="r").snapshot()._state, PERSON)
    # As Spark asks: for the schema, for the schema once more, for the tasks, which it pickles.
    for _ in range(2):
        plan_columns(source, ScanRequest())
    plan = plan_scan(source, ScanRequest(columns=("id", "age")))
    pickled = sum(len(pickle.dumps(task)) for task in plan.tasks)

    assert time.process_time() - start < MOST_SECONDS
    assert peak_kib() - before < MOST_KIB
    assert sum(len(task.fragment_ids) for task in plan.tasks) >= FRAGMENTS
    assert pickled < 100 << 20


def test_a_type_of_25_tib_is_read_by_no_more_tasks_than_a_driver_can_keep(huge: Path) -> None:
    source = ScanSource.of(og.open(huge, mode="r").snapshot()._state, PERSON)

    for where in (None, "age > 30"):
        tasks = plan_scan(source, ScanRequest(where=where)).tasks
        assert 10_000 < len(tasks) <= 25_000
        assert len({id_ for task in tasks for id_ in task.fragment_ids}) == FRAGMENTS


def test_a_second_plan_does_not_look_at_100_000_fragments_again(huge: Path) -> None:
    source = ScanSource.of(og.open(huge, mode="r").snapshot()._state, PERSON)
    plan_scan(source, ScanRequest())

    start = time.process_time()
    plan_scan(source, ScanRequest(where="id = 'ada'"))
    assert time.process_time() - start < MOST_SECONDS / 2


def test_a_snapshot_of_500_types_is_opened_within_5_seconds_and_1_gib(tmp_path: Path) -> None:
    names = [f"Type{number}" for number in range(TYPES)]
    og.create(tmp_path / "graph", "\n".join(f"node {name} {{ age: I32? }}" for name in names))
    before, start = peak_kib(), time.process_time()

    snapshot = og.open(tmp_path / "graph", mode="r").snapshot()
    plans = [plan_scan(ScanSource.of(snapshot._state, name), ScanRequest()) for name in names]

    assert time.process_time() - start < MOST_SECONDS
    assert peak_kib() - before < MOST_KIB
    assert len(snapshot.entries) == len(plans) == TYPES
