"""Edges that a merge would leave without an end: one branch has the edge, the other lost the node.

On each branch every edge has its ends. So only two kinds of edges can be left without one: those
that the source brings, at nodes that the target deleted; and those that the target added or changed
itself, at nodes that the source deleted. Types that the target takes over whole count like rows
that are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from omnigraph_spark.merge.compared import Compared, add_placed
from omnigraph_spark.merge.rows import TypeRows
from omnigraph_spark.names import TypeKind
from omnigraph_spark.schema.model import EdgeType
from omnigraph_spark.writing.inspect import Check, find_violation
from omnigraph_spark.writing.violations import Violation


def find_orphans(compared: Compared, types: Sequence[TypeRows]) -> list[Violation]:
    """Return the edges that the merged graph would have without an end."""
    search = _Search(compared, types)
    known = compared.heads.target
    edges = [edge for edge in known.schema.edges if str(edge.type_key) in known.entries]
    checks = [check for edge in edges for check in search.checks(edge)]
    return [found for check in checks for found in find_violation(check, compared.space)]


class _Search:
    """What both branches did to the types, as far as it is needed."""

    def __init__(self, compared: Compared, types: Sequence[TypeRows]) -> None:
        self._compared = compared
        self._taken = {rows.plan.key: rows for rows in types}
        self._adopted = {plan.key for plan in compared.heads.types if plan.adopts}
        self._ends: set[str] = set()

    def checks(self, edge: EdgeType) -> Iterator[Check]:
        """Return the checks of one edge type that can find anything."""
        key = str(edge.type_key)
        for column, node in (("src", edge.from_type), ("dst", edge.to_type)):
            node_key = f"{TypeKind.NODE}:{node}"
            for edges, nodes in (
                (self._brought, self._lost(node_key)),
                (self._kept, self._going(node_key)),
            ):
                # First what is known without reading a row of the edges.
                if nodes is not None and (ends := edges(key)) is not None:
                    query = (
                        f"SELECT e.id, e.{column} AS detail FROM ({ends}) e "
                        f"WHERE e.{column} IN (SELECT id FROM ({nodes}) n)"
                    )
                    sentence = f"{column} {{detail}} of id {{id}} is no longer in {node}"
                    yield Check("endpoint", key, column, partial(str, query), sentence)

    def _theirs(self, key: str, change: str) -> str | None:
        """Write the query of rows that come from the source: id, fragment, place there."""
        if key in self._taken:
            relation = self._taken[key].taken
            return f"SELECT id, fragment, place FROM {relation} WHERE change {change}"
        if key in self._adopted:
            return (
                "SELECT id, after_fragment AS fragment, after_place AS place "
                f"FROM {self._compared.theirs(key)} WHERE change {change}"
            )
        return None

    def _going(self, key: str) -> str | None:
        """Write the query of nodes that the merge deletes; None when there are none."""
        return self._unless_empty(self._theirs(key, "= 'removed'"))

    def _lost(self, key: str) -> str | None:
        """Write the query of nodes that the target deleted and that stay so."""
        if not self._compared.target_changed(key):
            return None
        ours = f"SELECT o.id FROM {self._compared.ours(key)} o WHERE o.change = 'removed'"
        if key in self._taken:
            back = f"SELECT 1 FROM {self._taken[key].taken} t WHERE t.id = o.id"
            ours = f"{ours} AND NOT EXISTS ({back} AND t.change <> 'removed')"
        return self._unless_empty(ours)

    def _brought(self, key: str) -> str | None:
        """Return the query of edges that come from the source: id, src, dst."""
        places = self._unless_empty(self._theirs(key, "<> 'removed'"))
        name = f"brought_{self._compared.number(key)}"
        if places is not None and name not in self._ends:
            source = self._compared.heads.sides(key).source
            columns = {"id": "id", "src": "src", "dst": "dst"}
            add_placed(self._compared.space, name, source, columns, places)
            self._ends.add(name)
        return None if places is None else f"SELECT * FROM {name}"

    def _kept(self, key: str) -> str | None:
        """Return the query of edges that the target added or changed and that stay."""
        if not self._compared.target_changed(key):
            return None
        ours = f"SELECT id FROM {self._compared.ours(key)} WHERE change <> 'removed'"
        if self._unless_empty(ours) is None:
            return None
        name = f"kept_{self._compared.number(key)}"
        if name not in self._ends:
            columns = {"id": "id", "src": "src", "dst": "dst"}
            self._compared.add_own(name, key, columns)
            self._ends.add(name)
        if key not in self._taken:
            return f"SELECT * FROM {name}"
        taken = self._taken[key].taken
        return (
            f"SELECT * FROM {name} k WHERE NOT EXISTS (SELECT 1 FROM {taken} t WHERE t.id = k.id)"
        )

    def _unless_empty(self, query: str | None) -> str | None:
        if query is None or not self._compared.count(query):
            return None
        return query
