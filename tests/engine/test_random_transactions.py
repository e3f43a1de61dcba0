"""Random transactions against a reference that knows the rules and nothing of datasets."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark import preparing
from omnigraph_spark.errors import ConstraintViolationError, KeyConflictError
from omnigraph_spark.pending import WriteMode
from tests.engine.writing import assert_whole

pytestmark = pytest.mark.slow

SCHEMA = """
node Person { name: String @key  mail: String? @unique  a: I32?  b: I32?  @unique(a, b) }
node Firm { name: String @key }
edge Knows: Person -> Person @card(0..2)
edge Owns: Person -> Firm @card(1..2) { share: I32? }
"""
ENDS = {"Knows": ("Person", "Person"), "Owns": ("Person", "Firm")}
CARDINALITY = {"Knows": (0, 2), "Owns": (1, 2)}
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "Person": {"name": pa.string(), "mail": pa.string(), "a": pa.int32(), "b": pa.int32()},
    "Firm": {"name": pa.string()},
    "Knows": {"id": pa.string(), "src": pa.string(), "dst": pa.string()},
    "Owns": {"id": pa.string(), "src": pa.string(), "dst": pa.string(), "share": pa.int32()},
}

Row = dict[str, Any]
State = Mapping[str, Mapping[str, Row]]
EMPTY: State = {name: {} for name in COLUMNS}


@dataclass(frozen=True)
class Step:
    """Rows of one type in one mode; of a deletion only the ids count."""

    type: str
    mode: WriteMode
    rows: Sequence[Row]


class Refused(Exception):
    """A rule is broken."""


@dataclass
class Reference:
    """The rules, said once more in the plainest way."""

    rows: dict[str, dict[str, Row]]
    #: Sources of edges that came, changed or went, by edge type.
    touched: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in ENDS})

    @classmethod
    def after(cls, before: State, steps: Sequence[Step]) -> State | None:
        """Take all steps, then look at the rules: the new state, None when one is broken."""
        reference = cls({name: dict(rows) for name, rows in before.items()})
        try:
            reference.take_all(before, steps)
            reference.check()
        except Refused:
            return None
        return reference.rows

    def take_all(self, before: State, steps: Sequence[Step]) -> None:
        given: Counter[tuple[str, str]] = Counter()
        emptied = set()
        for step in steps:
            given.update((step.type, row["id"]) for row in step.rows)
            if step.mode is WriteMode.OVERWRITE and step.type not in emptied:
                emptied.add(step.type)
                for id_ in list(self.rows[step.type]):
                    self.remove(step.type, id_)
            for row in step.rows:
                self.take(step, row, before)
        if steps[0].mode is not WriteMode.DELETE and max(given.values(), default=0) > 1:
            raise Refused

    def take(self, step: Step, row: Row, before: State) -> None:
        if step.mode is WriteMode.APPEND and row["id"] in before[step.type]:
            raise Refused
        self.remove(step.type, row["id"])
        if step.mode is WriteMode.DELETE:
            self.cascade(step.type, row["id"])
            return
        self.rows[step.type][row["id"]] = row
        if step.type in ENDS:
            self.touched[step.type].add(row["src"])

    def remove(self, type: str, id_: str) -> None:
        gone = self.rows[type].pop(id_, None)
        if gone is not None and type in ENDS:
            self.touched[type].add(gone["src"])

    def cascade(self, type: str, id_: str) -> None:
        for edge, (source, target) in ENDS.items():
            for row in list(self.rows[edge].values()):
                if (source, row["src"]) == (type, id_) or (target, row["dst"]) == (type, id_):
                    self.remove(edge, row["id"])

    def check(self) -> None:
        for columns in (("mail",), ("a", "b")):
            values = [tuple(row[name] for name in columns) for row in self.rows["Person"].values()]
            whole = Counter(value for value in values if None not in value)
            if max(whole.values(), default=0) > 1:
                raise Refused
        for edge, (source, target) in ENDS.items():
            low, high = CARDINALITY[edge]
            edges = Counter(row["src"] for row in self.rows[edge].values())
            for row in self.rows[edge].values():
                if row["src"] not in self.rows[source] or row["dst"] not in self.rows[target]:
                    raise Refused
            for id_ in self.touched[edge]:
                if id_ in self.rows[source] and not low <= edges[id_] <= high:
                    raise Refused


# -- what is drawn ---------------------------------------------------------------------------------

NAMES = st.sampled_from(["p1", "p2", "p3", "p4", "p5"])
FIRMS = st.sampled_from(["f1", "f2", "f3"])
SMALL = st.none() | st.integers(0, 2)


def keyed(name: str, **others: Any) -> Row:
    return {"id": name, "name": name, **others}


ROWS: dict[str, st.SearchStrategy[Row]] = {
    "Person": st.builds(
        keyed, NAMES, mail=st.none() | st.sampled_from(["m1", "m2"]), a=SMALL, b=SMALL
    ),
    "Firm": st.builds(keyed, FIRMS),
    "Knows": st.fixed_dictionaries(
        {"id": st.sampled_from(["k1", "k2", "k3", "k4"]), "src": NAMES, "dst": NAMES}
    ),
    "Owns": st.fixed_dictionaries(
        {
            "id": st.sampled_from(["o1", "o2", "o3"]),
            "src": NAMES,
            "dst": FIRMS,
            "share": SMALL,
        }
    ),
}


@st.composite
def transactions(draw: st.DrawFn) -> list[Step]:
    deletes = draw(st.sampled_from([False, False, False, True]))
    types = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4))
    modes: dict[str, WriteMode] = {}
    steps = []
    for type in types:
        drawn = draw(st.sampled_from([WriteMode.MERGE, WriteMode.APPEND, WriteMode.OVERWRITE]))
        mode = WriteMode.DELETE if deletes else modes.setdefault(type, drawn)
        # Mostly without a repeated id, which every mode refuses.
        unique = (lambda row: str(row["id"])) if draw(st.integers(0, 9)) else None
        steps.append(Step(type, mode, draw(st.lists(ROWS[type], max_size=4, unique_by=unique))))
    return steps


@st.composite
def beginnings(draw: st.DrawFn) -> list[Step]:
    """A first transaction that breaks no rule, so that there is something to work on."""
    people = draw(st.lists(NAMES, min_size=2, unique=True))
    firms = draw(st.lists(FIRMS, min_size=1, unique=True))
    knows = [
        {"id": f"k{number}", "src": src, "dst": dst}
        for number, (src, dst) in enumerate(itertools.pairwise(people), 1)
    ]
    owns = [
        {"id": f"o{number}", "src": people[number], "dst": firm, "share": None}
        for number, firm in enumerate(firms[: len(people)])
    ]
    return [
        Step(
            "Person", WriteMode.APPEND, [keyed(name, mail=None, a=None, b=None) for name in people]
        ),
        Step("Firm", WriteMode.APPEND, [keyed(name) for name in firms]),
        Step("Knows", WriteMode.APPEND, knows),
        Step("Owns", WriteMode.APPEND, owns),
    ]


def table_of(step: Step) -> pa.Table:
    if step.mode is WriteMode.DELETE:
        return pa.table({"id": pa.array([row["id"] for row in step.rows], pa.string())})
    return pa.Table.from_pylist(list(step.rows), pa.schema(COLUMNS[step.type]))


def state_of(graph: og.Graph) -> State:
    snapshot = graph.refresh().snapshot()
    return {
        type: {row["id"]: {"id": row["id"], **row} for row in snapshot.arrow(type).to_pylist()}
        for type in COLUMNS
    }


NUMBERS = itertools.count()


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    begin=beginnings(),
    rest=st.lists(transactions(), min_size=3, max_size=8),
    large=st.booleans(),
    branch=st.sampled_from(["main", "dev"]),
    rows_per_file=st.sampled_from([1, 2, 1000]),
)
def test_a_transaction_does_what_the_rules_say_or_nothing(
    tmp_path: Path,
    begin: list[Step],
    rest: list[list[Step]],
    large: bool,
    branch: str,
    rows_per_file: int,
) -> None:
    graph = og.create(tmp_path / f"g{next(NUMBERS)}", SCHEMA)
    if branch != "main":
        graph.create_branch(branch)
        graph = graph.as_branch(branch)
    few = 0 if large else preparing.SMALL_MERGE_ROWS
    state = EMPTY
    with patch.object(preparing, "SMALL_MERGE_ROWS", few):
        for steps in (begin, *rest):
            expected = Reference.after(state, steps)
            before = graph.refresh().history(1)
            problem, commit = write(graph, steps, rows_per_file)
            event("refused" if problem else "landed" if commit else "nothing to do")
            assert bool(problem) == (expected is None), (steps, problem)
            state = state if expected is None else expected
            assert state_of(graph) == state
            assert graph.history(1) == ([commit] if commit else before)
    assert_whole(graph)


def write(
    graph: og.Graph, steps: Sequence[Step], rows_per_file: int
) -> tuple[str, og.Commit | None]:
    """Take steps in a transaction; what is wrong with them, or the commit."""
    try:
        with graph.transaction(max_rows_per_file=rows_per_file) as tx:
            for step in steps:
                tx.apply(step.mode, step.type, table_of(step))
    except (ConstraintViolationError, KeyConflictError) as error:
        return str(error), None
    return "", tx.commit
