"""Rows as JSON texts for people: dates and times as text, what JSON has no number for as text."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa

from omnigraph_spark.jsonl.times import time_texts


def json_texts(rows: pa.StructArray) -> pa.Array[Any]:
    """Return each row as a JSON object, null where there is no row."""
    names = [field.name for field in rows.type]
    columns = [_values(rows.field(name)) for name in names]
    present: list[Any] = rows.is_valid().to_pylist()
    texts = [
        orjson.dumps(dict(zip(names, values, strict=True))).decode() if there else None
        for there, values in zip(present, zip(*columns, strict=True), strict=True)
    ]
    return pa.array(texts, pa.string())


def _values(array: pa.Array[Any]) -> list[Any]:
    if isinstance(array, pa.TimestampArray):
        return time_texts(array)
    if isinstance(array, (pa.ListArray, pa.FixedSizeListArray)):
        return _lists(array)
    values: list[Any] = array.to_pylist()
    return [_number(value) for value in values] if pa.types.is_floating(array.type) else values


def _lists(array: Any) -> list[Any]:
    if isinstance(array, pa.ListArray):
        ends: list[Any] = array.offsets.to_pylist()
    else:
        size = array.type.list_size
        ends = list(range(array.offset * size, (array.offset + len(array)) * size + 1, size))
    items = _values(array.values.slice(ends[0], ends[-1] - ends[0]))
    lists = [items[start - ends[0] : end - ends[0]] for start, end in pairwise(ends)]
    present = array.is_valid().to_pylist()
    return [each if there else None for each, there in zip(lists, present, strict=True)]


def _number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
