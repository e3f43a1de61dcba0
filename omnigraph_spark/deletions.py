"""Which rows a deletion removes: those asked for, and every edge that would lose an end.

The rows are found in the workspace of the transaction, by place in their dataset, and never pass
through Python one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from omnigraph_spark.names import TypeKind
from omnigraph_spark.pending import Pending, WriteMode
from omnigraph_spark.scan import ScanSource
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.staged_rows import StagedSource
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.staging import StagedFile
from omnigraph_spark.workspace import Interest, Workspace


@dataclass(frozen=True)
class DeleteRequest:
    """Rows of one type to delete: by ids in staged files, or by a condition."""

    key: str
    address: DatasetAddress
    files: tuple[StagedFile, ...] = ()
    where: str | None = None


def find_doomed(
    space: Workspace, requests: Sequence[DeleteRequest], state: SnapshotState, branch: str
) -> list[Pending]:
    """Find all rows that go, cascades included; types that lose no row are not in the answer."""
    found: dict[str, list[str]] = {}
    cascades = count()
    for number, request in enumerate(requests):
        name = f"asked_{number}"
        _find_asked(space, name, request, state)
        found.setdefault(request.key, []).append(name)
    for key in [key for key in found if state.entries[key].type_key.kind is TypeKind.NODE]:
        for edge, column in _edges_at(key, state):
            name = f"cascade_{next(cascades)}"
            space.define(f"{name}_ids", _union(found[key], ("id",)))
            _add(space, name, edge, state, [Interest((column,), f"{name}_ids", ("id",))])
            found.setdefault(edge, []).append(name)
    return _pending(space, found, state, branch)


def _find_asked(space: Workspace, name: str, request: DeleteRequest, state: SnapshotState) -> None:
    if request.where is not None:
        _add(space, name, request.key, state, [], request.where)
        return
    declared = state.schema.get(state.entries[request.key].type_key)
    if declared is None:
        raise AssertionError(f"rows of {request.key} were staged, so it is declared")
    ids = StagedSource(request.address, state.settings, declared, request.files)
    space.add_staged(f"{name}_ids", ids, {"id": "id"})
    _add(space, name, request.key, state, [Interest(("id",), f"{name}_ids", ("id",))])


def _add(
    space: Workspace,
    name: str,
    key: str,
    state: SnapshotState,
    interests: Sequence[Interest],
    where: str | None = None,
) -> None:
    source = ScanSource.of(state, key)
    space.add_committed(name, source, _columns(key, state), interests, where, places=True)


def _columns(key: str, state: SnapshotState) -> Mapping[str, str]:
    columns = {"id": "id"}
    if state.entries[key].type_key.kind is TypeKind.EDGE:
        columns |= {"src": "src", "dst": "dst"}
    return columns


def _edges_at(key: str, state: SnapshotState) -> list[tuple[str, str]]:
    """Return (edge type, column) for every end of an edge type at a node type."""
    name = state.entries[key].type_key.name
    return [
        (str(edge.type_key), column)
        for edge in state.schema.edges
        for column, node in (("src", edge.from_type), ("dst", edge.to_type))
        if node == name and str(edge.type_key) in state.entries
    ]


def _pending(
    space: Workspace, found: Mapping[str, Sequence[str]], state: SnapshotState, branch: str
) -> list[Pending]:
    pending = []
    for number, (key, names) in enumerate(sorted(found.items())):
        doomed = f"doomed_{number}"
        # A union without ALL: a row may be asked for and cascade as well.
        space.define(doomed, _union(names, (*_columns(key, state), "fragment", "place")))
        [(rows,)] = space.rows(f"SELECT count(*) FROM {doomed}")
        declared = state.schema.get(state.entries[key].type_key)
        if rows and declared is not None:
            entry = state.entries[key]
            pending.append(Pending(entry, declared, WriteMode.DELETE, branch, doomed=doomed))
    return pending


def _union(names: Sequence[str], columns: Sequence[str]) -> str:
    chosen = ", ".join(columns)
    return " UNION ".join(f"SELECT {chosen} FROM {name}" for name in names)
