"""Random histories of one graph in a bucket behind a network that fails by seed, and their judge.

After every call the graph is recovered past the network and compared with a model: a step that was
told to have landed is there, one that failed is not, and of one whose outcome is unknown all or
nothing is; the other branch is as it was. `python -m tests.faults.s3histories 200 0 versitygw` runs
as many, from a seed on, on that server (moto without a name), and prints the ledger; a fourth
number ends it after so many seconds, with the ledger of those that were run.
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from unittest.mock import patch

import omnigraph_spark as og
from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage import leases
from omnigraph_spark.storage.objects import IN_DOUBT
from tests.engine.object_stores import Server, running
from tests.faults.s3graphs import Place, place_social, state_of
from tests.faults.s3model import DEV, MAIN, Action, Rows, World, draw_step
from tests.faults.s3proxy import S3Proxy, s3_proxy, seeded
from tests.helpers.s3 import s3_server

STEPS = 5
#: The share of requests that meet a fault; a commit takes some forty.
RATE = 0.05
LANDED, REFUSED = "landed", "OMNIGRAPH_MERGE_CONFLICTS"
#: What the maker of a ref is told when nobody knows whether it is there.
DOUBT = "in doubt"
UNKNOWN = ("OMNIGRAPH_OUTCOME_UNKNOWN", "OMNIGRAPH_RECOVERY_REQUIRED", DOUBT)


@dataclass
class Ledger:
    """What happened: steps by what their writers were told, faults, and what broke the laws."""

    histories: int = 0
    told: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        steps = "\n".join(f"  {count:6} {what}" for what, count in self.told.most_common())
        faults = "\n".join(f"  {count:6} {what}" for what, count in self.faults.most_common())
        wrong = "\n".join(f"  {what}" for what in self.violations)
        return (
            f"{self.histories} histories, {sum(self.told.values())} steps:\n{steps}\n"
            f"{sum(self.faults.values())} faults:\n{faults}\n"
            f"{len(self.violations)} violations{':' if wrong else ''}\n{wrong}"
        )


def seen(place: Place) -> World:
    """What every branch holds, recovered as others do it."""
    branches = {branch.name for branch in place.recovered().branches()}
    assert branches <= {MAIN, DEV}, branches
    dev = _rows(place.recovered(DEV)) if DEV in branches else None
    return World(_rows(place.recovered()), dev)


def _rows(graph: og.Graph) -> Rows:
    state = state_of(graph)
    return Rows(
        people={name: row["age"] for name, row in state["node:Person"].items()},
        companies=frozenset(state["node:Company"]),
        knows={id_: (row["src"], row["dst"]) for id_, row in state["edge:Knows"].items()},
    )


def run_history(server: Server, proxy: S3Proxy, seed: int, ledger: Ledger) -> None:
    """Run one history and note what happened."""
    place = place_social(server, proxy)
    draw = random.Random(seed)
    world = seen(place)
    for number in range(STEPS):
        name, actions = draw_step(draw, number, world)
        with proxy.faults(seeded(seed * 1000 + number, RATE)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for action in actions:
                before, told = world, _told(action, place)
                if told != LANDED:
                    break
                world = action.after or world
            ledger.faults += proxy.ledger()
        proxy.arrived()
        ledger.told[f"{name}: {told}"] += 1
        which = f"seed {seed}, step {number}, {name}"
        # What the last call was made on: those before it landed.
        world = _judged(place, told, action, before, which, ledger)
    ledger.histories += 1


def _told(action: Action, place: Place) -> str:
    """Do it; what its caller was told."""
    try:
        action.run(place.open(action.branch, retries=2))
    except StorageError as error:
        return DOUBT if action.is_ref and error.kind == IN_DOUBT else error.code
    except og.OmnigraphError as error:
        return error.code
    return LANDED


def _judged(
    place: Place, told: str, action: Action, before: World, which: str, ledger: Ledger
) -> World:
    """Compare what is there with what may be there; return what is."""
    try:
        found = seen(place)
    except (AssertionError, og.OmnigraphError) as broken:
        ledger.violations.append(f"{which}: told {told}, then {broken!r}")
        return before
    for world in _allowed(told, action, before):
        if world.looks_like(found):
            return world
    ledger.violations.append(f"{which}: told {told}, found {found}, before {before}, {action}")
    return World(found.main, found.dev, base=before.base or found.dev)


def _allowed(told: str, action: Action, before: World) -> list[World]:
    # What does not go together must be refused, and nothing else.
    if told == (LANDED if action.after is None else REFUSED):
        return []
    if action.after is None:
        return [before]
    if told == LANDED:
        return [action.after]
    return [before, action.after] if told in UNKNOWN else [before]


def run_histories(server: Server, seeds: Sequence[int], seconds: float | None = None) -> Ledger:
    """Run histories, all of them or for as long as there is time."""
    ledger, began = Ledger(), time.monotonic()
    # Nobody waits half a minute for a writer whose last request was lost.
    with s3_proxy(server.endpoint) as proxy, patch.object(leases, "LEASE_SECONDS", 1.0):
        for seed in seeds:
            if seconds is not None and time.monotonic() - began > seconds:
                break
            run_history(server, proxy, seed, ledger)
    return ledger


def main() -> None:
    """Run as many histories as the first argument says, from a seed on, on a server."""
    given = sys.argv[1:]
    count, first, name, seconds = [*given, *("200", "0", "moto", "inf")[len(given) :]]
    seeds = range(int(first), int(first) + int(count))
    with s3_server() as moto, running(name, moto) as server:
        print(run_histories(server, seeds, float(seconds)), flush=True)


if __name__ == "__main__":
    main()
