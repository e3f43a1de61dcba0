"""What a history of a graph in a bucket is judged by: a plain model of two branches, and its steps.

A step is drawn from the model and says what it makes of it. Merging is a comparison of three dicts
here; rows that both sides changed, and edges that would lose an end, refuse it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import omnigraph_spark as og

MAIN, DEV = "main", "dev"


@dataclass(frozen=True)
class Rows:
    """What one branch holds: ages by name, companies, and who knows whom by the edge's id."""

    people: Mapping[str, int | None]
    companies: frozenset[str]
    knows: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class World:
    """What all branches hold, and where the second one began or was last merged."""

    main: Rows
    dev: Rows | None = None
    base: Rows | None = None

    def on(self, branch: str) -> Rows:
        rows = self.main if branch == MAIN else self.dev
        assert rows is not None, branch
        return rows

    def having(self, branch: str, rows: Rows) -> World:
        return replace(self, **{branch: rows})

    def looks_like(self, other: World) -> bool:
        """Whether nobody who reads can tell them apart."""
        return (self.main, self.dev) == (other.main, other.dev)


@dataclass(frozen=True)
class Action:
    """One call of a writer, and what it makes of the graph; None says that it must be refused."""

    branch: str
    run: Callable[[og.Graph], object]
    after: World | None
    #: Whether a lost answer leaves its caller in doubt without a commit of which to ask.
    is_ref: bool = False


#: How often each kind of step is drawn.
_STEPS = {"write": 5, "branch": 2, "merge": 2, "optimize": 1}
_WRITES = ("append", "upsert", "both", "overwrite", "delete")


def draw_step(draw: random.Random, number: int, world: World) -> tuple[str, list[Action]]:
    """Draw what to do next: its name, and the calls it is made of."""
    [step] = draw.choices(list(_STEPS), list(_STEPS.values()))
    if step == "write" or (step == "merge" and world.dev is None):
        name, action = _draw_write(draw, number, world, MAIN)
        return name, [action]
    if step == "merge":
        return "merge", [_merge(world)]
    if step == "optimize":
        branch = MAIN if world.dev is None else draw.choice([MAIN, DEV])
        return "optimize", [Action(branch, lambda graph: graph.optimize(), world)]
    made: list[Action] = []
    if world.dev is None:
        world = replace(world, dev=world.main, base=world.main)
        made = [Action(MAIN, lambda graph: graph.create_branch(DEV), world, is_ref=True)]
    name, action = _draw_write(draw, number, world, DEV)
    return f"{name} on {'a new' if made else 'the'} branch", [*made, action]


def _draw_write(draw: random.Random, number: int, world: World, branch: str) -> tuple[str, Action]:
    name = draw.choice(_WRITES)
    rows = world.on(branch)
    if name == "delete" and len(rows.people) < 3:
        name = "append"
    run, after = _write(name, f"p{number}", number, draw.choice(sorted(rows.people)), rows)
    return name, Action(branch, run, world.having(branch, after))


def _write(
    name: str, new: str, number: int, someone: str, rows: Rows
) -> tuple[Callable[[og.Graph], object], Rows]:
    def both(graph: og.Graph) -> None:
        with graph.transaction() as tx:
            tx.append("Person", _person({new: number}))
            tx.append("Knows", pa.table({"id": [f"k-{new}"], "src": [new], "dst": [someone]}))

    match name:
        case "append":
            after = replace(rows, people={**rows.people, new: number})
            return lambda graph: graph.write(_person({new: number}), "Person"), after
        case "upsert":
            given = {someone: number, new: number}
            after = replace(rows, people={**rows.people, **given})
            return lambda graph: graph.write(_person(given), "Person", mode="merge"), after
        case "both":
            known = {**rows.knows, f"k-{new}": (new, someone)}
            return both, replace(rows, people={**rows.people, new: number}, knows=known)
        case "overwrite":
            company = pa.table({"name": [f"c{number}"]})
            after = replace(rows, companies=frozenset({f"c{number}"}))
            return lambda graph: graph.write(company, "Company", mode="overwrite"), after
    left = {name: age for name, age in rows.people.items() if name != someone}
    edges = {id_: ends for id_, ends in rows.knows.items() if someone not in ends}
    after = replace(rows, people=left, knows=edges)
    return lambda graph: graph.delete("Person", ids=[someone]), after


def _person(ages: Mapping[str, int]) -> pa.Table:
    return pa.table({"name": list(ages), "age": list(ages.values())})


def _merge(world: World) -> Action:
    assert world.dev is not None
    assert world.base is not None
    rows = merged(world.base, world.main, world.dev)
    after = None if rows is None else World(rows, world.dev, base=world.dev)
    return Action(MAIN, lambda graph: graph.merge(DEV, into=MAIN), after)


def merged(base: Rows, ours: Rows, theirs: Rows) -> Rows | None:
    """Compare three states of a graph; None where the two newer ones do not go together."""
    people = _merged(base.people, ours.people, theirs.people)
    knows = _merged(base.knows, ours.knows, theirs.knows)
    companies = _merged(*(dict.fromkeys(rows.companies, 0) for rows in (base, ours, theirs)))
    if people is None or knows is None or companies is None:
        return None
    if any(end not in people for ends in knows.values() for end in ends):
        return None
    return Rows(people, frozenset(companies), knows)


def _merged(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> dict[str, Any] | None:
    found = {}
    for id_ in {*base, *ours, *theirs}:
        old, here, there = base.get(id_), ours.get(id_), theirs.get(id_)
        if old not in (here, there) and here != there:
            return None
        value = here if there == old else there
        if value is not None:
            found[id_] = value
    return found
