"""The rules of a graph said once more, in the plainest way, and rows to try them on.

What a write leaves is compared with what the reference, which knows nothing of datasets, says.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark.writing.pending import WriteMode

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

    @classmethod
    def after_mixed(cls, before: State, steps: Sequence[Step]) -> State | None:
        """The same for steps that replace, add and delete at once: what is given wins."""
        reference = cls({name: dict(rows) for name, rows in before.items()})
        try:
            reference.mix(before, steps)
            reference.check()
        except Refused:
            return None
        return reference.rows

    def mix(self, before: State, steps: Sequence[Step]) -> None:
        new = [
            (step, row) for step in steps if step.mode is not WriteMode.DELETE for row in step.rows
        ]
        given = Counter((step.type, row["id"]) for step, row in new)
        asked = {
            (step.type, row["id"])
            for step in steps
            if step.mode is WriteMode.DELETE
            for row in step.rows
        }
        if max(given.values(), default=0) > 1:
            raise Refused
        for type, id_ in asked - given.keys():
            if self.remove(type, id_):
                self.cascade(type, id_, kept=given.keys())
        for step, row in new:
            there = row["id"] in before[step.type] and (step.type, row["id"]) not in asked
            if step.mode is WriteMode.APPEND and there:
                raise Refused
            self.take(Step(step.type, WriteMode.MERGE, ()), row, before)

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

    def remove(self, type: str, id_: str) -> bool:
        gone = self.rows[type].pop(id_, None)
        if gone is not None and type in ENDS:
            self.touched[type].add(gone["src"])
        return gone is not None

    def cascade(self, type: str, id_: str, kept: Container[tuple[str, str]] = ()) -> None:
        for edge, (source, target) in ENDS.items():
            for row in list(self.rows[edge].values()):
                if (edge, row["id"]) in kept:
                    continue
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
