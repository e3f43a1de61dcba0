"""Random histories of one graph in a bucket behind a network that fails by seed, and their judge.

After every step the graph is recovered past the network and compared with a model: a step that was
told to have landed is there, one that failed is not, and of one whose outcome is unknown all or
nothing is. `python -m tests.faults.s3histories 200` runs as many and prints the ledger.
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from unittest.mock import patch

import pyarrow as pa

import omnigraph_spark as og
from omnigraph_spark.storage import leases
from tests.faults.s3graphs import Place, outcome, place_social, state_of
from tests.faults.s3proxy import S3Proxy, s3_proxy, seeded
from tests.helpers.s3 import S3Server, s3_server

STEPS = 5
#: The share of requests that meet a fault; a commit takes some forty.
RATE = 0.05
UNKNOWN = ("OMNIGRAPH_OUTCOME_UNKNOWN", "OMNIGRAPH_RECOVERY_REQUIRED")

#: People by name with their age, companies, and who knows whom by the edge's id.
Model = tuple[dict[str, int], frozenset[str], dict[str, tuple[str, str]]]
Step = Callable[[og.Graph], object]


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


def model_of(graph: og.Graph) -> Model:
    state = state_of(graph)
    return (
        {name: row["age"] for name, row in state["node:Person"].items()},
        frozenset(state["node:Company"]),
        {id_: (row["src"], row["dst"]) for id_, row in state["edge:Knows"].items()},
    )


def draw_step(draw: random.Random, number: int, model: Model) -> tuple[str, Step, Model]:
    """Draw what to do next; return its name, how to do it and what it makes of the model."""
    people, companies, knows = model
    new, someone = f"p{number}", draw.choice(sorted(people))
    match draw.choice(("append", "merge", "both", "overwrite", "delete")):
        case "append":
            rows = pa.table({"name": [new], "age": [number]})
            after = ({**people, new: number}, companies, knows)
            return "append", lambda graph: graph.write(rows, "Person"), after
        case "merge":
            rows = pa.table({"name": [someone, new], "age": [number, number]})
            after = ({**people, someone: number, new: number}, companies, knows)
            return "merge", lambda graph: graph.write(rows, "Person", mode="merge"), after
        case "both":

            def both(graph: og.Graph) -> None:
                with graph.transaction() as tx:
                    tx.append("Person", pa.table({"name": [new], "age": [number]}))
                    edge = {"id": [f"k-{new}"], "src": [new], "dst": [someone]}
                    tx.append("Knows", pa.table(edge))

            edges = {**knows, f"k-{new}": (new, someone)}
            return "both", both, ({**people, new: number}, companies, edges)
        case "overwrite":
            rows = pa.table({"name": [f"c{number}"]})
            after = (people, frozenset({f"c{number}"}), knows)
            return "overwrite", lambda graph: graph.write(rows, "Company", mode="overwrite"), after
    if len(people) < 3:
        return "nothing", lambda graph: None, model
    left = {name: age for name, age in people.items() if name != someone}
    edges = {id_: ends for id_, ends in knows.items() if someone not in ends}
    return "delete", lambda graph: graph.delete("Person", ids=[someone]), (left, companies, edges)


def run_history(server: S3Server, proxy: S3Proxy, seed: int, ledger: Ledger) -> None:
    """Run one history and note what happened."""
    place = place_social(server, proxy)
    draw = random.Random(seed)
    model = model_of(place.beside())
    for number in range(STEPS):
        name, step, after = draw_step(draw, number, model)
        with proxy.faults(seeded(seed * 1000 + number, RATE)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = outcome(lambda step=step: step(place.open(retries=2)))
            ledger.faults += proxy.ledger()
        proxy.arrived()
        ledger.told[f"{name}: {told}"] += 1
        model = _judged(place, told, model, after, f"seed {seed}, step {number}, {name}", ledger)
    ledger.histories += 1


def _judged(
    place: Place, told: str, before: Model, after: Model, which: str, ledger: Ledger
) -> Model:
    try:
        found = model_of(place.recovered())
    except AssertionError as broken:
        ledger.violations.append(f"{which}: told {told}, then {broken}")
        return model_of(place.beside())
    allowed = {"landed": [after]}.get(told, [before, after] if told in UNKNOWN else [before])
    if found not in allowed:
        ledger.violations.append(f"{which}: told {told}, found {found}, not in {allowed}")
    return found


def run_histories(server: S3Server, seeds: Sequence[int], seconds: float | None = None) -> Ledger:
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
    """Run as many histories as the first argument says, from the seed the second one names."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with s3_server() as server:
        print(run_histories(server, range(first, first + count)), flush=True)


if __name__ == "__main__":
    main()
