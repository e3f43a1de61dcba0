"""Which rows a deletion removes: those asked for, and every edge that would lose an end.

The rows are found in the workspace of the transaction, by place in their dataset, and never pass
through Python one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType

from omnigraph_spark.names import TypeKind
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.staging import StagedFile
from omnigraph_spark.writing.pending import Pending
from omnigraph_spark.writing.places import add_places
from omnigraph_spark.writing.staged_rows import StagedSource
from omnigraph_spark.writing.workspace import PLACE_NAMES, Interest, Workspace


@dataclass(frozen=True)
class DeleteRequest:
    """Rows of one type to delete: by ids in staged files, or by a condition."""

    key: str
    address: DatasetAddress
    files: tuple[StagedFile, ...] = ()
    where: str | None = None
    #: Files that say where these rows lie, if that is known.
    places: tuple[StagedFile, ...] = ()


@dataclass(frozen=True)
class Doomed:
    """The rows of one type that go, as a relation: id, ends of edges, fragment, place."""

    relation: str
    rows: int
    #: The relation of rows whose deletion was asked for, also of those that are given again.
    asked: str | None


def find_doomed(
    space: Workspace,
    requests: Sequence[DeleteRequest],
    state: SnapshotState,
    given: Mapping[str, Pending] = MappingProxyType({}),
    *,
    with_ids: bool = False,
) -> dict[str, Doomed]:
    """Find all rows that go, cascades included, by type key.

    Rows that are `given` at the same time stay, as they are given: a node that is deleted and given
    again keeps its edges, and an edge that is given is not deleted with an end it had. Ids that
    nothing depends on are only read `with_ids`: those of many rows take longer than their places.
    """
    asked: dict[str, list[str]] = {}
    search = _Search(space, state, given, asked, with_ids)
    for number, request in enumerate(requests):
        name = f"asked_{number}"
        search.find_asked(name, request)
        asked.setdefault(request.key, []).append(name)
    nodes = [key for key in asked if state.entries[key].type_key.kind is TypeKind.NODE]
    doomed = {key: search.define(key, asked[key]) for key in nodes}
    going = {key: list(names) for key, names in asked.items() if key not in doomed}
    cascades = count()
    for key in nodes:
        for edge, column in _edges_at(key, state) if doomed[key].rows else ():
            name = f"cascade_{next(cascades)}"
            search.find(name, edge, [Interest((column,), doomed[key].relation, ("id",))])
            going.setdefault(edge, []).append(name)
    return doomed | {key: search.define(key, names) for key, names in going.items()}


@dataclass(frozen=True)
class _Search:
    """What it takes to find rows, and to say which of them go."""

    space: Workspace
    state: SnapshotState
    given: Mapping[str, Pending]
    #: The relations of rows whose deletion was asked for, by type key.
    asked: Mapping[str, Sequence[str]]
    with_ids: bool

    def find_asked(self, name: str, request: DeleteRequest) -> None:
        """Put the rows that one request is about into a relation."""
        state = self.state
        if request.where is not None:
            self.find(name, request.key, [], request.where)
            return
        key = state.entries[request.key].type_key
        if request.places and key.kind is TypeKind.NODE:
            # Of edges it also matters where they end.
            add_places(self.space, name, request.address, request.places, state.settings)
            return
        declared = state.schema.get(key)
        if declared is None:
            raise AssertionError(f"rows of {request.key} were staged, so it is declared")
        ids = StagedSource(request.address, state.settings, declared, request.files)
        self.space.add_staged(f"{name}_ids", ids, {"id": "id"})
        self.find(name, request.key, [Interest(("id",), f"{name}_ids", ("id",))])

    def find(
        self, name: str, key: str, interests: Sequence[Interest], where: str | None = None
    ) -> None:
        """Put committed rows of a type, and where they lie, into a relation."""
        source, columns = ScanSource.of(self.state, key), self._columns(key)
        if interests:
            columns = {"id": "id", **columns}
        self.space.add_committed(name, source, columns, interests, where, places=True)

    def define(self, key: str, names: Sequence[str]) -> Doomed:
        """Put the rows of a type that go into one relation."""
        space, number = self.space, sorted(self.state.entries).index(key)
        relation, asked = f"doomed_{number}", None
        # A union without ALL: a row may be asked for and cascade as well.
        query = _union(names, (*self._columns(key), "fragment", "place"))
        change = self.given.get(key)
        if change is not None:
            staged = change.source(self.state.root, self.state.settings)
            space.add_staged(f"given_{number}", staged, {"id": "id"})
            query = (
                f"SELECT * FROM ({query}) d WHERE NOT EXISTS "
                f"(SELECT 1 FROM given_{number} g WHERE g.id = d.id)"
            )
            if key in self.asked:
                asked = f"asked_of_{number}"
                space.define(asked, _union(self.asked[key], ("id", *PLACE_NAMES)))
        space.define(relation, query)
        [(rows,)] = space.rows(f"SELECT count(*) FROM {relation}")
        return Doomed(relation, rows, asked)

    def _columns(self, key: str) -> Mapping[str, str]:
        """Return what has to be known of rows that go, besides where they lie."""
        if self.state.entries[key].type_key.kind is TypeKind.EDGE:
            return {"id": "id", "src": "src", "dst": "dst"}
        named = self.with_ids or key in self.given or _edges_at(key, self.state)
        return {"id": "id"} if named else {}


def _edges_at(key: str, state: SnapshotState) -> list[tuple[str, str]]:
    """Return (edge type, column) for every end of an edge type at a node type."""
    name = state.entries[key].type_key.name
    return [
        (str(edge.type_key), column)
        for edge in state.schema.edges
        for column, node in (("src", edge.from_type), ("dst", edge.to_type))
        if node == name and str(edge.type_key) in state.entries
    ]


def _union(names: Sequence[str], columns: Sequence[str]) -> str:
    chosen = ", ".join(columns)
    return " UNION ".join(f"SELECT {chosen} FROM {name}" for name in names)
