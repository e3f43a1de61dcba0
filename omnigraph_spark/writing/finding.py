"""Committed rows by a few values of theirs: which scans find them, and how little those read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph_spark.filters import in_texts
from omnigraph_spark.scan import (
    ScanRequest,
    plan_columns,
    plan_scan,
    read_task,
    read_task_with_places,
    schema_of,
)
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.storage.known_ids import fragments_with
from omnigraph_spark.storage.parts import looked_up_fragments

#: Values that rows are looked for by, of each column of text; a row with any of them is meant.
Values = Mapping[str, Sequence[str]]


def values_filter(values: Values) -> str:
    """Write the values as a condition."""
    return " OR ".join(in_texts(column, texts) for column, texts in values.items())


def plan_look_up(source: ScanSource, request: ScanRequest, values: Values) -> list[ScanRequest]:
    """Return the scans that find every row with one of the values; others may come along."""
    if not values:
        return []
    if list(values) != ["id"]:
        return [_filtered(request, values)]
    dataset = source.open()
    usable = dataset.may_use_indexes("id", source.settings)
    indexed = looked_up_fragments(dataset.indexes(), ["id"]) if usable else frozenset()
    small, large = fragments_with(dataset, values["id"], indexed)
    requests = [replace(_filtered(request, values), fragment_ids=large)] if large else []
    return [*requests, replace(request, fragment_ids=small)] if small else requests


def _filtered(request: ScanRequest, values: Values) -> ScanRequest:
    return replace(request, where=values_filter(values), own_filter=True, keys=tuple(values))


def scan_all(
    source: ScanSource, request: ScanRequest, parts: Sequence[ScanRequest], places: bool
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Read what parts of a request ask for, perhaps none; with `places` where each row lies."""
    schema = schema_of(plan_columns(source, request), request.blobs, places)
    tasks = [task for part in parts for task in plan_scan(source, part).tasks]
    read = read_task_with_places if places else read_task
    return schema, (batch for task in tasks for batch in read(task))
