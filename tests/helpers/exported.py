"""Rows of an Arrow table as the engine exports them, to compare value for value.

The engine writes dates as days, times as ISO text without a zone, 32-bit floats widened to doubles
and blobs as base64 text.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECONDS_IN = {"s": 1_000_000, "ms": 1_000, "us": 1}


def exported_rows(type_key: str, table: pa.Table) -> list[dict[str, Any]]:
    """One object per row, in the order and the shape of `omnigraph export`."""
    columns = {
        name: [exported_value(value) for value in table.column(name)] for name in table.column_names
    }
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    rows.sort(key=lambda row: str(row["id"]).encode())
    kind, _, name = type_key.partition(":")
    if kind == "node":
        return [{"type": name, "data": row} for row in rows]
    return [
        {"edge": name, "from": row.pop("src"), "to": row.pop("dst"), "data": row} for row in rows
    ]


def exported_value(value: pa.Scalar[Any]) -> Any:
    """One Arrow value as the JSON value the engine writes."""
    if not value.is_valid:
        return None
    match value:
        case pa.TimestampScalar():
            return _time_text(_integer(value) * _MICROSECONDS_IN[value.type.unit])
        case pa.Date64Scalar():
            return _time_text(_integer(value) * _MICROSECONDS_IN["ms"])
        case pa.Date32Scalar():
            return value.cast(pa.int32()).as_py()
        case pa.StringScalar() | pa.LargeStringScalar():  # which are binary scalars too
            return value.as_py()
        case pa.BinaryScalar() | pa.LargeBinaryScalar():
            return "base64:" + base64.b64encode(value.as_py()).decode()
        case pa.ListScalar() | pa.LargeListScalar() | pa.FixedSizeListScalar():
            return [exported_value(item) for item in value.values or ()]
        case _:
            return value.as_py()


def _integer(value: pa.Scalar[Any]) -> int:
    return int(value.cast(pa.int64()).as_py())


def lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Rows as text, which unlike `==` tells 1 from 1.0, 0.0 from -0.0, one key order from another.

    Both sides of a comparison go through here, so how a number is printed does not matter.
    """
    return [json.dumps(row, ensure_ascii=False) for row in rows]


def _time_text(microseconds: int) -> str:
    time = _EPOCH + dt.timedelta(microseconds=microseconds)
    if microseconds % 1_000_000 == 0:
        return time.isoformat(timespec="seconds")
    return time.isoformat(timespec="milliseconds" if microseconds % 1_000 == 0 else "microseconds")
