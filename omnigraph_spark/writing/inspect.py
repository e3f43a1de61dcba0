"""Rules across rows and types, checked over what is staged and what is committed.

Ids are unique; appended ids are new; `@unique` groups hold; edges have both ends; `@card` holds. A
check is a query whose rows are the violations, so the same text runs in DuckDB and in Spark. Only
what a change touches is checked: a graph that broke a rule before is not refused for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from omnigraph_spark.manifest import ManifestState
from omnigraph_spark.names import TypeKind
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.model import EdgeType, KeyConstraint, NodeType, UniqueConstraint
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.relations import OwnRows, Relations, Side
from omnigraph_spark.writing.violations import SHOWN_IDS, Violation
from omnigraph_spark.writing.workspace import Interest, Workspace


@dataclass(frozen=True)
class Check:
    """A query of (id, detail) pairs that break a rule, and how to say so."""

    rule: str
    key: str
    column: str
    #: Written when it runs: only then is it known which committed rows are at hand.
    query: Callable[[], str]
    #: A sentence about the first offender, with `{id}` and `{detail}`.
    sentence: str


def inspect(
    space: Workspace,
    pending: Sequence[Pending],
    state: SnapshotState,
    every_rule: bool = True,
    own_rows: OwnRows | None = None,
) -> list[Violation]:
    """Return every violation of the rules across rows, each with its first ids and their count.

    Without `every_rule` only what a merge cannot do without is checked. With `own_rows` the changes
    come from comparing two branches: which ids are new is known then, ends of edges are looked at
    by the caller, and values can only clash with those of rows that the branch changed itself.
    """
    relations = Relations(space, pending, state, own_rows)
    checks: list[Check] = []
    for change in pending:
        if change.mode is WriteMode.MERGE:
            # Two rows cannot take the place of one, and a row has to have its required columns.
            checks += _duplicate_checks(change, relations)
            checks += _completeness_checks(change, relations)
        if not every_rule:
            continue
        if change.mode is not WriteMode.MERGE:
            checks += _duplicate_checks(change, relations)
        checks += _unique_checks(change, relations)
        checks += _cardinality_checks(change, relations)
        if own_rows is None:
            checks += _existing_checks(change, relations)
            checks += _end_checks(change, relations)
            checks += _stranded_checks(change, relations)
    relations.fill()
    return [violation for check in checks for violation in find_violation(check, space)]


def types_read(pending: Sequence[Pending], state: SnapshotState) -> set[str]:
    """Return the types whose committed rows decide whether a change is allowed."""
    read = {change.key for change in pending}
    for change in pending:
        if isinstance(change.declared, EdgeType):
            read |= {_node_key(change.declared.from_type), _node_key(change.declared.to_type)}
        elif change.mode is WriteMode.OVERWRITE or change.doomed is not None:
            read |= {str(edge.type_key) for edge in _edges_at(change, state)}
    return read & set(state.entries)


def head_under_removals(state: ManifestState, pending: Sequence[Pending]) -> str | None:
    """Return the commit that must still be the head when nodes go, whose edges were all looked at.

    Versions are expected of the types there are: a type of edges that comes meanwhile has none yet.
    """
    takes = {WriteMode.OVERWRITE, WriteMode.DELETE}
    nodes = (change for change in pending if isinstance(change.declared, NodeType))
    head = state.lineage.head
    if head is None or all(change.mode not in takes and change.doomed is None for change in nodes):
        return None
    return head.id


def find_violation(check: Check, space: Workspace) -> Iterator[Violation]:
    """Run a check; what it finds is one violation."""
    found = space.rows(
        f"""
        SELECT id, min(detail) AS detail, count(*) OVER () AS total
        FROM ({check.query()}) GROUP BY id ORDER BY id LIMIT {SHOWN_IDS}
        """
    )
    if found:
        first, detail, total = found[0]
        yield Violation(
            rule=check.rule,
            type_key=check.key,
            column=check.column,
            message=check.sentence.format(id=repr(first), detail=repr(detail)),
            ids=tuple(id_ for id_, _, _ in found),
            count=total,
        )


def _duplicate_checks(change: Pending, relations: Relations) -> Iterator[Check]:
    if change.mode is WriteMode.DELETE:
        return
    side = relations.side(change.key)
    yield Check(
        "duplicate",
        change.key,
        "id",
        lambda: f"SELECT id, id AS detail FROM {side.staged} GROUP BY id HAVING count(*) > 1",
        "id {id} is given more than once",
    )


def _existing_checks(change: Pending, relations: Relations) -> Iterator[Check]:
    if not change.must_be_new:
        return
    side = relations.side(change.key)
    side.fresh_needed = bool(change.files) and bool(change.fresh)
    side.want(Interest(("id",), side.fresh, ("id",)))
    # What is deleted and given again at once does not exist.
    asked = f"EXCEPT SELECT id FROM {change.asked}" if change.asked else ""
    yield Check(
        "exists",
        change.key,
        "id",
        lambda: (
            f"""
            SELECT s.id, s.id AS detail FROM {side.fresh} s
            WHERE s.id IN (SELECT b.id FROM {side.base} b {asked})
        """
        ),
        "id {id} exists already",
    )


def _completeness_checks(change: Pending, relations: Relations) -> Iterator[Check]:
    """Check that a merge of some columns inserts no row that lacks a required one."""
    if change.merge_columns is None:
        return
    side = relations.side(change.key)
    if change.existing_only:
        yield _new_rows(change, side, "missing", "id", "id {id} does not exist")
        return
    given = {"id", *change.merge_columns}
    stored = arrow_schema(change.declared)
    missing = [field.name for field in stored if not field.nullable and field.name not in given]
    if missing:
        sentence = "id {id} is new, and a merge of some columns leaves these without a value"
        yield _new_rows(change, side, "required", ", ".join(missing), sentence)


def _new_rows(change: Pending, side: Side, rule: str, column: str, sentence: str) -> Check:
    side.want(Interest(("id",), side.staged, ("id",)))
    return Check(
        rule,
        change.key,
        column,
        lambda: (
            f"""
            SELECT s.id, s.id AS detail FROM {side.staged} s
            WHERE NOT EXISTS (SELECT 1 FROM {side.base} b WHERE b.id = s.id)
        """
        ),
        sentence,
    )


def _unique_checks(change: Pending, relations: Relations) -> Iterator[Check]:
    if change.mode is WriteMode.DELETE:
        return
    side = relations.side(change.key)
    for constraint in change.declared.constraints:
        if not isinstance(constraint, UniqueConstraint | KeyConstraint):
            continue
        is_key = isinstance(constraint, KeyConstraint)
        if is_key and len(constraint.columns) == 1:
            # A key of one column is the id itself.
            continue
        aliases = side.aliases(constraint.columns)
        if change.mode is not WriteMode.OVERWRITE:
            side.want(Interest(aliases, side.staged, aliases))
        yield Check(
            "key" if is_key else "unique",
            change.key,
            ", ".join(constraint.columns),
            partial(_same_values, side, aliases),
            "the values of id {id} are those of id {detail}, too",
        )


def _same_values(side: Side, aliases: Sequence[str]) -> str:
    equal = " AND ".join(f"s.{alias} = a.{alias}" for alias in aliases)
    return f"""
        SELECT s.id, a.id AS detail FROM {side.staged} s
        JOIN ({side.after(("id", *aliases))}) a ON {equal} WHERE s.id <> a.id
    """


def _end_checks(change: Pending, relations: Relations) -> Iterator[Check]:
    declared = change.declared
    if not isinstance(declared, EdgeType) or change.mode is WriteMode.DELETE:
        return
    side = relations.side(change.key)
    for column, node in (("src", declared.from_type), ("dst", declared.to_type)):
        nodes = relations.side(_node_key(node))
        if not nodes.replaced:
            nodes.want(Interest(("id",), side.staged, (column,)))
        yield Check(
            "endpoint",
            change.key,
            column,
            partial(_without_end, side, column, nodes),
            f"{column} {{detail}} of id {{id}} is not in {node}",
        )


def _without_end(edges: Side, column: str, nodes: Side) -> str:
    return f"""
        SELECT s.id, s.{column} AS detail FROM {edges.staged} s WHERE NOT EXISTS
            (SELECT 1 FROM ({nodes.after(("id",))}) n WHERE n.id = s.{column})
    """


def _stranded(edges: Side, column: str, nodes: Side) -> str:
    return f"""
        SELECT k.id, k.{column} AS detail FROM ({edges.kept(("id", column))}) k
        WHERE NOT EXISTS (SELECT 1 FROM {nodes.staged} n WHERE n.id = k.{column})
    """


def _stranded_checks(change: Pending, relations: Relations) -> Iterator[Check]:
    """Check that an overwrite of nodes leaves no committed edge without an end."""
    if change.mode is not WriteMode.OVERWRITE or isinstance(change.declared, EdgeType):
        return
    nodes = relations.side(change.key)
    for edge in _edges_at(change, relations.state):
        edges = relations.side(str(edge.type_key))
        if edges.replaced:
            continue
        for column, node in (("src", edge.from_type), ("dst", edge.to_type)):
            if node != change.declared.name:
                continue
            edges.want(Interest((column,), nodes.staged, ("id",), present=False))
            yield Check(
                "endpoint",
                str(edge.type_key),
                column,
                partial(_stranded, edges, column, nodes),
                f"{column} {{detail}} of id {{id}} is no longer in {node}",
            )


def _cardinality_checks(change: Pending, relations: Relations) -> Iterator[Check]:
    """Check the number of edges of every source that gains or loses one."""
    declared = change.declared
    if not isinstance(declared, EdgeType):
        return
    low, high = declared.cardinality.min, declared.cardinality.max
    if not low and high is None:
        return
    side, nodes = relations.side(change.key), relations.side(_node_key(declared.from_type))
    # A replaced or removed edge changes the count of its former source as well, so all committed
    # edges of sources that are touched in either way are needed.
    side.want_sources()
    if not nodes.replaced:
        nodes.want(Interest(("id",), side.touched, ("src",)))
        nodes.whole = True
    broken = " OR ".join(
        ([f"edges < {low}"] if low else []) + ([f"edges > {high}"] if high is not None else [])
    )
    limits = f"{low} to {'any number' if high is None else high}"
    yield Check(
        "cardinality",
        change.key,
        "src",
        lambda: (
            f"""
            SELECT src AS id, edges AS detail FROM (
                SELECT t.src, count(a.src) AS edges
                FROM (SELECT DISTINCT src FROM {side.touched}) t
                LEFT JOIN ({side.after(("src",))}) a ON a.src = t.src
                WHERE EXISTS (SELECT 1 FROM ({nodes.after(("id",))}) n WHERE n.id = t.src)
                GROUP BY t.src
            ) counted WHERE {broken}
        """
        ),
        f"source {{id}} would have {{detail}} edges, of {limits} allowed",
    )


def _edges_at(change: Pending, state: SnapshotState) -> list[EdgeType]:
    """Return the edge types of the snapshot that begin or end at a node type."""
    name = change.declared.name
    return [
        edge
        for edge in state.schema.edges
        if name in (edge.from_type, edge.to_type) and str(edge.type_key) in state.entries
    ]


def _node_key(name: str) -> str:
    return f"{TypeKind.NODE}:{name}"
