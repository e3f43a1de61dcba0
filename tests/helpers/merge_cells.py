"""The merge truth table: what one branch does to an entity, crossed with what the other does.

Every cell has entities of its own, so all cells of a table fit one graph and one pair of branches.
Two tables: one about a node (with an edge, `n`; without, `o`; not there yet, `m`), one about an
edge (`e`, which ends at node `p`; not there yet, `f`). What becomes of every cell is written down
here; the engine is asked, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path

import pyarrow as pa

import omnigraph_spark as og

SCHEMA = """
node Person { name: String @key age: I32? }
edge Knows: Person -> Person { weight: I32? }
"""
PERSON, KNOWS = "node:Person", "edge:Knows"
#: Nodes that no cell changes.
HUBS = ("hub", "hub1", "hub2")


class Op(StrEnum):
    """What a branch does to the entities of a cell."""

    NOTHING = "nothing"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    REINSERT = "reinsert"
    EDGE_CHANGE = "edge_change"
    CASCADE = "cascade"


@dataclass(frozen=True)
class Cell:
    """One cell: about a node or an edge, what the source does, what the target does."""

    about: str
    source: Op
    target: Op
    #: Whether both sides write the same values.
    same: bool = False

    @property
    def name(self) -> str:
        return f"{self.about}-{self.source}-{self.target}{'-same' if self.same else ''}"

    def id(self, letter: str) -> str:
        return f"{self.name}-{letter}"


CELLS = [
    Cell(about, source, target) for about, source, target in product(("node", "edge"), Op, Op)
] + [
    Cell(about, op, op, same=True)
    for about in ("node", "edge")
    for op in (Op.INSERT, Op.UPDATE, Op.REINSERT, Op.EDGE_CHANGE)
]

#: Conflicts about rows, by what the branches do (in either order): which entity, and the kind. What
#: is not here merges, or breaks a rule (`ORPHANS`).
_NODE = {
    (Op.INSERT, Op.INSERT): {"m": "DivergentInsert"},
    (Op.UPDATE, Op.UPDATE): {"n": "DivergentUpdate", "o": "DivergentUpdate"},
    (Op.UPDATE, Op.DELETE): {"o": "DeleteVsUpdate"},
    (Op.UPDATE, Op.REINSERT): {"o": "DivergentUpdate"},
    (Op.UPDATE, Op.CASCADE): {"n": "DeleteVsUpdate"},
    (Op.DELETE, Op.REINSERT): {"o": "DeleteVsUpdate"},
    (Op.REINSERT, Op.REINSERT): {"o": "DivergentUpdate"},
    (Op.EDGE_CHANGE, Op.EDGE_CHANGE): {"e": "DivergentUpdate"},
    (Op.EDGE_CHANGE, Op.CASCADE): {"e": "DeleteVsUpdate"},
}
_EDGE = {
    (Op.INSERT, Op.INSERT): {"f": "DivergentInsert"},
    (Op.UPDATE, Op.UPDATE): {"e": "DivergentUpdate"},
    (Op.UPDATE, Op.DELETE): {"e": "DeleteVsUpdate"},
    (Op.UPDATE, Op.REINSERT): {"e": "DivergentUpdate"},
    (Op.UPDATE, Op.EDGE_CHANGE): {"e": "DivergentUpdate"},
    (Op.UPDATE, Op.CASCADE): {"e": "DeleteVsUpdate"},
    (Op.DELETE, Op.REINSERT): {"e": "DeleteVsUpdate"},
    (Op.DELETE, Op.EDGE_CHANGE): {"e": "DeleteVsUpdate"},
    (Op.REINSERT, Op.REINSERT): {"e": "DivergentUpdate"},
    (Op.REINSERT, Op.EDGE_CHANGE): {"e": "DivergentUpdate"},
    (Op.REINSERT, Op.CASCADE): {"e": "DeleteVsUpdate"},
    (Op.EDGE_CHANGE, Op.EDGE_CHANGE): {"e": "DivergentUpdate"},
    (Op.EDGE_CHANGE, Op.CASCADE): {"e": "DeleteVsUpdate"},
}
#: One branch adds an edge to a node that the other deletes.
_ORPHANS = {(Op.INSERT, Op.CASCADE): {"f": "OrphanEdge"}}

Conflicts = set[tuple[str, str, str]]


def row_conflicts(cells: Iterable[Cell]) -> Conflicts:
    """What the table says of rows in conflict: (type key, id, kind)."""
    return {
        found
        for cell in cells
        for found in _listed(cell, _NODE if cell.about == "node" else _EDGE)
        if not cell.same
    }


def broken_rules(cells: Iterable[Cell]) -> Conflicts:
    """What the table says of rules that the merged graph would break."""
    return {found for cell in cells if cell.about == "edge" for found in _listed(cell, _ORPHANS)}


def _listed(cell: Cell, table: dict[tuple[Op, Op], dict[str, str]]) -> Conflicts:
    pair = (cell.source, cell.target)
    found = table.get(pair) or table.get(pair[::-1]) or {}
    keys = {letter: KNOWS if letter in "ef" else PERSON for letter in found}
    return {(keys[letter], cell.id(letter), kind) for letter, kind in found.items()}


def without_conflicts(cells: Sequence[Cell], conflicts: Conflicts) -> list[Cell]:
    """The cells that none of the conflicts is about."""
    named = {id_.rsplit("-", 1)[0] for _, id_, _ in conflicts}
    return [cell for cell in cells if cell.name not in named]


# -- the graph -------------------------------------------------------------------------------------


def write_base(root: Path) -> og.Graph:
    """The graph before the branches: the entities of every cell."""
    graph = og.create(root, SCHEMA, actor="ann")
    nodes = [*HUBS, *(cell.id(each) for cell in CELLS for each in _NODES[cell.about])]
    edges = {
        cell.id("e"): (cell.id("n"), "hub") if cell.about == "node" else ("hub", cell.id("p"))
        for cell in CELLS
    }
    with graph.transaction() as tx:
        tx.append("Person", people(dict.fromkeys(nodes, 0)))
        tx.append("Knows", knows({id_: (src, dst, 0) for id_, (src, dst) in edges.items()}))
    return graph


_NODES = {"node": ("n", "o"), "edge": ("p",)}


def write_side(graph: og.Graph, branch: str, cells: Sequence[Cell], side: str) -> None:
    """Make a branch of main and do what one side of the cells says: two commits."""
    graph.create_branch(branch)
    gone_nodes: list[str] = []
    gone_edges: list[str] = []
    nodes: dict[str, int] = {}
    edges: dict[str, tuple[str, str, int]] = {}
    for cell in cells:
        op = cell.source if side == "source" else cell.target
        value = 3 if cell.same else 1 if side == "source" else 2
        if cell.about == "node":
            _do_node(cell, op, value, gone_nodes, nodes, edges)
        else:
            _do_edge(cell, op, value, gone_nodes, gone_edges, edges)
    bound = graph.as_branch(branch)
    with bound.transaction() as tx:
        tx.delete("Person", ids=gone_nodes)
        tx.delete("Knows", ids=gone_edges)
    with bound.transaction() as tx:
        tx.merge("Person", people(nodes))
        tx.merge("Knows", knows(edges))


def _do_node(
    cell: Cell,
    op: Op,
    value: int,
    gone: list[str],
    nodes: dict[str, int],
    edges: dict[str, tuple[str, str, int]],
) -> None:
    match op:
        case Op.INSERT:
            nodes[cell.id("m")] = value
        case Op.UPDATE:
            nodes[cell.id("n")] = nodes[cell.id("o")] = value
        case Op.DELETE:
            gone.append(cell.id("o"))
        case Op.REINSERT:
            gone.append(cell.id("o"))
            nodes[cell.id("o")] = value
        case Op.EDGE_CHANGE:
            edges[cell.id("e")] = (cell.id("n"), "hub", value)
        case Op.CASCADE:
            gone.append(cell.id("n"))
        case Op.NOTHING:
            pass


def _do_edge(
    cell: Cell,
    op: Op,
    value: int,
    gone_nodes: list[str],
    gone: list[str],
    edges: dict[str, tuple[str, str, int]],
) -> None:
    match op:
        case Op.INSERT:
            edges[cell.id("f")] = ("hub", cell.id("p"), value)
        case Op.UPDATE:
            edges[cell.id("e")] = ("hub", cell.id("p"), value)
        case Op.DELETE:
            gone.append(cell.id("e"))
        case Op.REINSERT:
            gone.append(cell.id("e"))
            edges[cell.id("e")] = ("hub", cell.id("p"), value)
        case Op.EDGE_CHANGE:
            edges[cell.id("e")] = ("hub", "hub1" if value == 1 else "hub2", 0)
        case Op.CASCADE:
            gone_nodes.append(cell.id("p"))
        case Op.NOTHING:
            pass


def people(ages: dict[str, int]) -> pa.Table:
    return pa.table(
        {"name": pa.array(ages, pa.string()), "age": pa.array(ages.values(), pa.int32())}
    )


def knows(edges: dict[str, tuple[str, str, int]]) -> pa.Table:
    rows = list(edges.values())
    return pa.table(
        {
            "id": pa.array(edges, pa.string()),
            "src": pa.array([src for src, _, _ in rows], pa.string()),
            "dst": pa.array([dst for _, dst, _ in rows], pa.string()),
            "weight": pa.array([weight for _, _, weight in rows], pa.int32()),
        }
    )


def rows_of(graph: og.Graph, branch: str) -> dict[str, dict[str, tuple[object, ...]]]:
    """Every row of a branch, by type key and id."""
    at = graph.at(branch=branch)
    return {
        key: {row["id"]: tuple(row.values()) for row in at.arrow(key).to_pylist()}
        for key in at.entries
    }
