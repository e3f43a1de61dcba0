"""A writer that dies: a process of its own that ends between two datasets of one commit."""

from __future__ import annotations

import os
import subprocess
import sys

from omnigraph_spark.failpoints import Failpoint, all_failpoints, arm
from omnigraph_spark.graph import open as open_graph

#: How the process ends, and where; by its name, since a point stands in one place of the code.
_DIED = 86
_POINT = "landing.dataset_committed"


def die_in_the_middle(root: str) -> str:
    """Have a process begin a commit to a graph and die; say what it left behind."""
    command = [sys.executable, "-W", "ignore", "-m", __name__, root]
    ended = subprocess.run(command, check=False).returncode
    return f"died with exit code {ended}, leaving {_point().durable}"


def _point() -> Failpoint:
    return next(point for point in all_failpoints() if point.name == _POINT)


def main(root: str) -> None:
    """Write a person and an edge, and end without any cleaning up once a dataset has moved."""
    import pyarrow as pa

    arm(_point(), lambda: os._exit(_DIED))
    with open_graph(root).transaction(actor="eve") as tx:
        tx.append("Person", pa.table({"name": ["zoe"]}))
        tx.append("Knows", pa.table({"src": ["zoe"], "dst": ["ada"]}))


if __name__ == "__main__":
    main(sys.argv[1])
