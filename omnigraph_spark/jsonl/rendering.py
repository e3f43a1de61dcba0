"""Rows as the engine exports them: one compact object a line, byte for byte.

Dates are days, times ISO text without a zone, 32-bit floats widened to doubles. Floats and escapes
are written by orjson exactly as by the engine's serializer (a test holds both together).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.jsonl.times import time_texts
from omnigraph_spark.names import TypeKey, TypeKind


def lines_of(key: TypeKey, batch: pa.RecordBatch) -> list[bytes]:
    """Write the public rows of a type as lines, in their order; blobs are there as their text."""
    columns = {name: _values(key, batch, name) for name in batch.schema.names}
    name = key.name
    # Adding the line end copies the text: what orjson returns keeps its buffer, ten times as large.
    if key.kind is TypeKind.NODE:
        return [orjson.dumps({"type": name, "data": data}) + b"\n" for data in _objects(columns)]
    ends = zip(columns.pop("src"), columns.pop("dst"), strict=True)
    return [
        orjson.dumps({"edge": name, "from": source, "to": target, "data": data}) + b"\n"
        for (source, target), data in zip(ends, _objects(columns), strict=True)
    ]


def _objects(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    names = tuple(columns)
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(names, values, strict=True)) for values in rows]


def _values(key: TypeKey, batch: pa.RecordBatch, name: str) -> list[Any]:
    column = batch.column(name)
    _check_finite(key, batch, name)
    return _json_values(column)


def _json_values(array: pa.Array[Any]) -> list[Any]:
    """Return the values of a column as JSON has them."""
    match array:
        case pa.Date32Array():
            return array.view(pa.int32()).to_pylist()
        case pa.TimestampArray():
            return time_texts(array)
        case pa.ListArray():
            offsets: list[Any] = array.offsets.to_pylist()
            first, last = offsets[0], offsets[-1]
            items = _json_values(array.values.slice(first, last - first))
            lists = [items[start - first : end - first] for start, end in pairwise(offsets)]
        case pa.FixedSizeListArray():
            size = array.type.list_size
            items = _json_values(array.values.slice(array.offset * size, len(array) * size))
            lists = [items[start : start + size] for start in range(0, len(items), size)]
        case _:
            return array.to_pylist()
    present = array.is_valid().to_pylist()
    return [each if there else None for each, there in zip(lists, present, strict=True)]


def _check_finite(key: TypeKey, batch: pa.RecordBatch, name: str) -> None:
    """Refuse NaN and infinity: JSON has no such numbers, and null would be another value."""
    column = batch.column(name)
    items = (
        column.flatten() if isinstance(column, (pa.ListArray, pa.FixedSizeListArray)) else column
    )
    if not pa.types.is_floating(items.type) or pc.all(pc.is_finite(items)).as_py() is not False:
        return
    for id_, value in zip(batch.column("id").to_pylist(), column.to_pylist(), strict=True):
        for number in value if isinstance(value, list) else [value]:
            if number is not None and not abs(number) < float("inf"):
                raise UnsupportedError(
                    f"exporting {number} in {key}.{name} of id {id_!r} as JSON",
                    "JSON has no such number: correct the row first, or read it as Arrow",
                )
