"""Rules about names: each is declared once, ids do not collide, edges end at declared nodes."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_spark.errors.base import hint
from omnigraph_spark.schema.declarations import (
    Declarations,
    DeclaredEdge,
    DeclaredEntity,
    DeclaredInterface,
    Place,
    refuse,
)
from omnigraph_spark.schema.ids import property_id, type_id


def check_names(declared: Declarations) -> None:
    """Refuse duplicate or colliding names and edges whose ends are not declared."""
    everything: Sequence[tuple[str, DeclaredInterface | DeclaredEntity]] = [
        *(("interface", interface) for interface in declared.interfaces),
        *(("node", node) for node in declared.nodes),
        *(("edge", edge) for edge in declared.edges),
    ]
    # Ids are unique over all three kinds; a name may be used once in each.
    taken: dict[int, DeclaredInterface | DeclaredEntity] = {}
    for kind, owner in everything:
        number = type_id(kind, owner.name)
        if number in taken:
            refuse(owner, _clash(str(taken[number]), str(owner), taken[number].place), owner.place)
        taken[number] = owner
        _check_properties(kind, owner)
    _check_edges(declared)


def _check_properties(kind: str, owner: DeclaredInterface | DeclaredEntity) -> None:
    taken: dict[int, tuple[str, Place]] = {}
    for prop in owner.properties:
        number = property_id(kind, owner.name, prop.name)
        if number in taken:
            other, place = taken[number]
            refuse(
                f"property {owner.name}.{prop.name}", _clash(other, prop.name, place), prop.place
            )
        taken[number] = (prop.name, prop.place)


def _clash(first: str, second: str, place: Place) -> str:
    if first == second:
        return f"it is declared twice, first on line {place.line}"
    return f"its id is also that of {first}: the hash of both names is the same; rename one"


def _check_edges(declared: Declarations) -> None:
    nodes = tuple(node.name for node in declared.nodes)
    by_folded: dict[str, DeclaredEdge] = {}
    for edge in declared.edges:
        for end in (edge.source, edge.target):
            if end.name not in nodes:
                rule = f"there is no node type {end.name!r}{hint(end.name, nodes)}"
                refuse(edge, rule, end.place)
        # Queries name an edge without regard to case.
        other = by_folded.setdefault(edge.name.lower(), edge)
        if other is not edge:
            rule = f"it differs from {other} only in case, and edge names ignore case"
            refuse(edge, rule, edge.place)
