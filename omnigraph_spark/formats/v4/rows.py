"""The row kinds of a v4 `__manifest`: which columns mean what, and which may not be null."""

from __future__ import annotations

import json
from typing import TypeVar

import pyarrow as pa

from omnigraph_spark.formats.profile import CommitRow, ManifestRows, PinRow, TombstoneRow

_T = TypeVar("_T")

#: The columns that are read. The engine takes no other types either, not even larger ones.
_COLUMNS: dict[str, pa.DataType] = {
    "object_id": pa.utf8(),
    "object_type": pa.utf8(),
    "location": pa.utf8(),
    "metadata": pa.utf8(),
    "table_key": pa.utf8(),
    "table_version": pa.uint64(),
    "table_branch": pa.utf8(),
    "row_count": pa.uint64(),
}


def split_rows(table: pa.Table) -> ManifestRows:
    """Sort manifest rows by kind; kinds this format does not know are skipped, as by the engine."""
    for name, expected in _COLUMNS.items():
        if name not in table.column_names:
            raise ValueError(f"__manifest has no column {name!r}")
        if (found := table.schema.field(name).type) != expected:
            raise ValueError(f"column {name!r} of __manifest is {found}, not {expected}")
    locations: dict[str, str] = {}
    pins: list[PinRow] = []
    tombstones: list[TombstoneRow] = []
    commits: list[CommitRow] = []
    columns = (table.column(name).to_pylist() for name in _COLUMNS)
    for object_id, kind, location, metadata, key, version, branch, rows in zip(
        *columns, strict=True
    ):
        if kind == "table":
            locations[key] = _given(location, object_id, "location")
        elif kind == "table_version":
            pins.append(
                PinRow(
                    key,
                    _given(version, object_id, "table_version"),
                    # The engine writes null for main and accepts the name as well.
                    None if branch == "main" else branch,
                    _given(rows, object_id, "row_count"),
                    _given(metadata, object_id, "metadata"),
                )
            )
        elif kind == "table_tombstone":
            tombstones.append(TombstoneRow(key, _given(version, object_id, "table_version")))
        elif kind == "graph_commit":
            detail = _given(metadata, object_id, "metadata")
            commits.append(
                CommitRow(object_id, _given(version, object_id, "table_version"), branch, detail)
            )
    return ManifestRows(locations, pins, tombstones, commits)


def dataset_tag(row: PinRow) -> str | None:
    """Return the tag of the Lance manifest that the writer of this pin recorded, if it did."""
    try:
        tag = json.loads(row.detail).get("e_tag")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"the metadata of {row.type_key} is not a JSON object") from error
    if tag is not None and not isinstance(tag, str):
        raise ValueError(f"the e_tag of {row.type_key} is not text")
    return tag


def _given(value: _T | None, object_id: str, column: str) -> _T:
    if value is None:
        raise ValueError(f"row {object_id!r} of __manifest has no {column}")
    return value
