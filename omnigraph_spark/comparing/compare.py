"""Two versions of one type as a relation of what differs: one row for each id.

Everything that grows with rows runs in the workspace. First metadata says which rows can differ
(`candidates`), then rows that were only moved to other files are left out (`moved`), and what
remains is joined by id and compared value by value.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from omnigraph_spark.comparing.blob_contents import is_content, settle_blobs
from omnigraph_spark.comparing.candidates import Candidates, overlap_of
from omnigraph_spark.comparing.moved import Half, leave_out_moved
from omnigraph_spark.comparing.sides import ComparedColumns, Side, add_side, only_here
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.taking import LIVE_ROWS
from omnigraph_spark.writing.workspace import PLACE_NAMES, Workspace

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
#: Where a row lies on each side; null where the side has no row.
BEFORE_PLACE = tuple(f"before_{name}" for name in PLACE_NAMES)
AFTER_PLACE = tuple(f"after_{name}" for name in PLACE_NAMES)
_TEXT: pa.DataType = pa.string()
_NUMBER: pa.DataType = pa.int64()
#: The columns of the relation. `differing` holds the numbers of the columns that differ.
DIFFERENCES = pa.schema(
    {
        "id": _TEXT,
        "change": _TEXT,
        **dict.fromkeys((*BEFORE_PLACE, *AFTER_PLACE), _NUMBER),
        "differing": _TEXT,
    }
)


def compare(
    space: Workspace, name: str, before: ScanSource | None, after: ScanSource | None
) -> tuple[str, ...]:
    """Define relation `name` in the workspace: one row per id that differs between two versions.

    None is a side on which the type does not exist. The columns are those of `DIFFERENCES`;
    `change` is ``added``, ``removed`` or ``changed``.

    Values are compared exactly: null equals null, NaN equals NaN, -0.0 differs from 0.0, lists and
    vectors item by item, blobs by content or, when they are files of the user's, by address. A
    column that only one side has is null on the other.

    Returns:
        The names of the compared columns; the numbers in `differing`, separated by commas, count
        them from 0.
    """
    columns = _columns(before, after)
    overlap = overlap_of(before, after)
    old = _half(space, f"{name}_before_places", before, after, overlap.before)
    new = _half(space, f"{name}_after_places", after, before, overlap.after)
    if old and new and overlap.shared_version is not None:
        old, new = leave_out_moved(space, name, old, new, overlap.shared_version)
    if old and new:
        _join(space, name, columns, old, new)
    elif old:
        _add_one_side(space, name, old, REMOVED)
    elif new:
        _add_one_side(space, name, new, ADDED)
    else:
        space.add_rows(name, [], DIFFERENCES)
    for half in (old, new):
        for relation in half.places if half else ():
            space.drop(relation)
    return columns.names


def compared_columns(before: ScanSource | None, after: ScanSource | None) -> tuple[str, ...]:
    """Return the names of the columns that `compare` compares, in the order of their numbers."""
    return _columns(before, after).names


def _columns(before: ScanSource | None, after: ScanSource | None) -> ComparedColumns:
    old = None if before is None else before.columns()
    new = None if after is None else after.columns()
    return ComparedColumns.of(old or new or (), new or old or ())


def _half(
    space: Workspace,
    name: str,
    source: ScanSource | None,
    other: ScanSource | None,
    found: Candidates,
) -> Half | None:
    """Return what there is to read of one side; of shared fragments, rows that only it has."""
    if source is None:
        return None
    if other is None or not found.partly:
        return Half(source, found)
    space.add_parts(name, found.partly, partial(only_here, source, other), LIVE_ROWS)
    [(rows,)] = space.rows(f"SELECT count(*) FROM {name}")
    if rows:
        return Half(source, found, (name,))
    space.drop(name)
    return Half(source, found)


def _add_one_side(space: Workspace, name: str, half: Half, change: str) -> None:
    """Define the relation where the other side has no row that could be compared: ids suffice."""
    rows = f"{name}_rows"
    add_side(space, rows, Side.of(half.source, (), ()), half.candidates.whole, half.places)
    here, there = (BEFORE_PLACE, AFTER_PLACE) if change == REMOVED else (AFTER_PLACE, BEFORE_PLACE)
    values = {own: f"r.{column}" for own, column in zip(here, PLACE_NAMES, strict=True)}
    values |= dict.fromkeys(there, "CAST(NULL AS BIGINT)")
    chosen = ", ".join(f"{values[column]} AS {column}" for column in (*BEFORE_PLACE, *AFTER_PLACE))
    query = f"SELECT r.id, '{change}' AS change, {chosen}, '' AS differing FROM {rows} r"
    space.define(name, query)
    space.drop(rows)


def _join(space: Workspace, name: str, columns: ComparedColumns, before: Half, after: Half) -> None:
    """Join the rows of both sides by id and compare their values."""
    old, new, pairs = f"{name}_before_rows", f"{name}_after_rows", f"{name}_pairs"
    fields = columns.fields()
    for relation, half, own in ((old, before, columns.before), (new, after, columns.after)):
        side = Side.of(half.source, own, fields)
        add_side(space, relation, side, half.candidates.whole, half.places)
    query = _pairs_query(old, new, columns)
    if not columns.blobs():
        space.define(name, only_different(query))
    else:
        space.define(pairs, query)
        settled = settle_blobs(space, name, pairs, columns, before.source, after.source)
        space.define(name, only_different(settled.query))
        for relation in (pairs, *settled.relations):
            space.drop(relation)
    for relation in (old, new):
        space.drop(relation)


def only_different(query: str) -> str:
    """Leave out pairs of equal rows."""
    names = ", ".join(f"p.{name}" for name in DIFFERENCES.names)
    return f"SELECT {names} FROM ({query}) p WHERE p.change <> '{CHANGED}' OR p.differing <> ''"


def _pairs_query(old: str, new: str, columns: ComparedColumns) -> str:
    """Write the join: every id of either side, and the numbers of the columns that differ.

    Of blobs whose descriptors are equal but leave the content open it says so.
    """
    both = "b.id IS NOT NULL AND a.id IS NOT NULL"
    differing = [
        f"CASE WHEN b.{field.name} IS DISTINCT FROM a.{field.name} THEN '{number}' END"
        for number, field in enumerate(columns.fields())
    ]
    texts = f"concat_ws(',', {', '.join(differing)})" if differing else "''"
    places = [
        f"{side}.{column} AS {label}"
        for side, labels in (("b", BEFORE_PLACE), ("a", AFTER_PLACE))
        for column, label in zip(PLACE_NAMES, labels, strict=True)
    ]
    doubts = [
        f"CASE WHEN {both} AND b.v{number} = a.v{number} AND {is_content(f'b.v{number}')} "
        f"THEN 1 ELSE 0 END AS doubt{number}"
        for number in columns.blobs()
    ]
    change = (
        f"CASE WHEN b.id IS NULL THEN '{ADDED}' WHEN a.id IS NULL THEN '{REMOVED}' "
        f"ELSE '{CHANGED}' END"
    )
    chosen = [
        "coalesce(b.id, a.id) AS id",
        f"{change} AS change",
        *places,
        f"CASE WHEN {both} THEN {texts} ELSE '' END AS differing",
        *doubts,
    ]
    # Spark takes what tasks make for a few rows, and would send them everywhere; to others the
    # hint is a comment.
    return (
        f"SELECT /*+ MERGE(b, a) */ {', '.join(chosen)} "
        f"FROM {old} b FULL OUTER JOIN {new} a ON b.id = a.id"
    )
