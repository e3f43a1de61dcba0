"""Writers that die: at a named point, in a process of their own or by an exception that nobody
catches.

The works are small and touch every kind of change. `python -m tests.helpers.crashes` runs one and
ends the process, without any cleaning up, when it reaches the point.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import omnigraph_spark as og
from omnigraph_spark import failpoints
from omnigraph_spark.failpoints import Failpoint
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.recovery.sweep import recover
from omnigraph_spark.storage.settings import StorageSettings

_REPOSITORY = Path(__file__).parent.parent.parent
#: How a process ends at its point; 0 means that it was never reached.
_DIED = 86

SOCIAL = """
node Person { name: String @key age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""


class Crashed(BaseException):
    """The end of a process, as far as one can play it without ending one."""


@contextmanager
def crashing(point: Failpoint, at: int = 1) -> Iterator[None]:
    """Let the block die at a point, which it must reach for the `at`-th time."""

    def die() -> None:
        raise Crashed

    failpoints.arm(point, die, at)
    died = False
    try:
        yield
    except Crashed:
        died = True
    finally:
        failpoints.disarm()
    assert died, f"{point.name} was not reached {at} times"


def write_social(root: Path | str, storage: Mapping[str, str] | None = None) -> og.Graph:
    """A graph of one commit: Alice and Bob, who know each other, and where they work."""
    graph = og.create(root, SOCIAL, actor="ann", storage=storage)
    with graph.transaction() as tx:
        tx.append("Person", pa.table({"name": ["Alice", "Bob"], "age": [30, 41]}))
        tx.append("Company", pa.table({"name": ["Acme"]}))
        tx.append("Knows", pa.table({"id": ["k1"], "src": ["Alice"], "dst": ["Bob"]}))
    return graph


def load(graph: og.Graph) -> None:
    """Two types: one row replaced and one added, and an edge to it."""
    with graph.transaction(actor="act-crash") as tx:
        tx.merge("Person", pa.table({"name": ["Bob", "Carol"], "age": [42, 7]}))
        tx.append("Knows", pa.table({"id": ["k2"], "src": ["Carol"], "dst": ["Alice"]}))


def overwrite(graph: og.Graph) -> None:
    """One type, all of it."""
    graph.write(pa.table({"name": ["Umbra", "Vita"]}), "Company", mode="overwrite")


def delete(graph: og.Graph) -> None:
    """A node, and the edge that ends at it."""
    graph.delete("Person", ids=["Bob"])


def write_dev(graph: og.Graph) -> None:
    """A branch `dev` that does what `load` does, so that merging it ends in the same."""
    graph.create_branch("dev")
    load(graph.as_branch("dev"))


def merge(graph: og.Graph) -> None:
    """The branch `dev`, which has two types to land."""
    graph.merge("dev", into=graph.branch, actor="act-crash")


WORKS: dict[str, Callable[[og.Graph], None]] = {
    work.__name__: work for work in (load, overwrite, delete, merge)
}


def die_in(work: str, root: Path, point: Failpoint, at: int = 1, branch: str = "main") -> None:
    """Run a work in a process that ends when it reaches a point for the `at`-th time."""
    module = [sys.executable, "-m", "tests.helpers.crashes"]
    arguments = [work, str(root), point.name, str(at), branch]
    done = subprocess.run(
        [*module, *arguments], cwd=_REPOSITORY, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == _DIED, f"{point.name} was not reached: {done.stderr}"


def recover_round(folder: str, number: int) -> list[str]:
    """Recover the graph of this round; return what kind of recovery each was."""
    return [str(done.kind) for done in recover(Manifest(f"{folder}/g{number}", StorageSettings()))]


def main() -> None:
    """Run the work that the arguments name, and die."""
    work, root, name, at, branch = sys.argv[1:]
    [point] = [point for point in failpoints.all_failpoints() if point.name == name]
    failpoints.arm(point, lambda: os._exit(_DIED), int(at))
    WORKS[work](og.open(root, branch=branch))


if __name__ == "__main__":
    main()
