"""The rows of a v4 `__manifest` as the engine writes them, byte for byte.

The text in `metadata` is compact JSON with its keys in a fixed order. A commit comes with the row
of its branch's head: every publish on a branch rewrites that one row, which is what makes two
racing publishers collide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from omnigraph_spark.formats.profile import Commit, LocationRow, NewRow, PinRow, TombstoneRow
from omnigraph_spark.names import MAIN
from omnigraph_spark.schema.rust_text import json_text

#: The annotation makes Lance see that two writers insert the same row. It counts only when the
#: dataset is created with it.
_PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}

MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.utf8(), nullable=False, metadata=_PRIMARY_KEY),
        pa.field("object_type", pa.utf8(), nullable=False),
        pa.field("location", pa.utf8()),
        pa.field("metadata", pa.utf8()),
        pa.field("base_objects", pa.list_(pa.field("item", pa.utf8()))),
        pa.field("table_key", pa.utf8(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.utf8()),
        pa.field("row_count", pa.uint64()),
    ]
)

#: Lance's own record of the version that brought each row, and the columns that name the row.
PUBLISHER_COLUMNS: tuple[str, ...] = (
    "object_id",
    "object_type",
    "_row_created_at_version",
    "_row_last_updated_at_version",
)


def pin_detail(manifest_path: str, manifest_size: int | None, e_tag: str | None) -> str:
    """Return the text of a pin: where its Lance manifest lies (no leading slash), size and tag."""
    return json_text(
        {
            "manifest_path": manifest_path,
            "manifest_size": manifest_size,
            "e_tag": e_tag,
            "naming_scheme": "V2",
        }
    )


def encode_rows(rows: Iterable[NewRow], commit: Commit) -> pa.Table:
    """Return what one publish writes: rows in the given order, the commit, the branch's head."""
    values = [*map(_encode, rows), _commit_row(commit), _head_row(commit)]
    return pa.Table.from_pylist(values, schema=MANIFEST_SCHEMA)


def publisher_of(table: pa.Table, type_key: str, version: int) -> str | None:
    """Return the commit that brought a pin or tombstone, from rows with `PUBLISHER_COLUMNS`.

    A publish writes its pins and its commit in one version of the manifest; Lance keeps that number
    with every row, also when the rows move to another file.
    """
    names = {_pin_id(type_key, version), _tombstone_id(type_key, version)}
    columns = (table.column(name).to_pylist() for name in PUBLISHER_COLUMNS)
    rows = list(zip(*columns, strict=True))
    landed = {updated for object_id, _, _, updated in rows if object_id in names}
    commits = (id_ for id_, kind, made, _ in rows if kind == "graph_commit" and made in landed)
    return max(commits, default=None)


def _encode(row: NewRow) -> dict[str, Any]:
    match row:
        case LocationRow(type_key, path):
            return {
                "object_id": type_key,
                "object_type": "table",
                "location": path,
                "table_key": type_key,
            }
        case PinRow(type_key, version, branch, rows, detail):
            return {
                "object_id": _pin_id(type_key, version),
                "object_type": "table_version",
                "metadata": detail,
                "table_key": type_key,
                "table_version": version,
                "table_branch": branch,
                "row_count": rows,
            }
        case TombstoneRow(type_key, version):
            return {
                "object_id": _tombstone_id(type_key, version),
                "object_type": "table_tombstone",
                "table_key": type_key,
                "table_version": version,
            }


def _pin_id(type_key: str, version: int) -> str:
    return f"{type_key}${version:020d}"


def _tombstone_id(type_key: str, version: int) -> str:
    return f"{type_key}$tombstone${version:020d}"


def _commit_row(commit: Commit) -> dict[str, Any]:
    detail = {
        "parent_commit_id": commit.parent_id,
        "merged_parent_commit_id": commit.merged_parent_id,
        "actor_id": commit.actor,
        "created_at": commit.created_at_us,
    }
    return {
        "object_id": commit.id,
        "object_type": "graph_commit",
        "metadata": _present(detail),
        # The column allows no null, and a commit belongs to no type.
        "table_key": "",
        "table_version": commit.manifest_version,
        "table_branch": None if commit.branch == MAIN else commit.branch,
    }


def _head_row(commit: Commit) -> dict[str, Any]:
    detail = {"head_commit_id": commit.id, "parent_commit_id": commit.parent_id}
    return {
        "object_id": f"graph_head:{commit.branch}",
        "object_type": "graph_head",
        "metadata": _present(detail),
        "table_key": "",
    }


def _present(detail: Mapping[str, Any]) -> str:
    return json_text({key: value for key, value in detail.items() if value is not None})
