"""What scans of a session cost and hold: figures of Spark's plans, memory shared with workers."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_omnigraph.ring import PLACES

from benchmarks.processes import tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "omnigraph-ring"
_CELL = 64


def held_places(spark: SparkSession) -> int:
    """Places in shared memory that readers of the driver's process hold."""
    return int(spark._jvm.io.omnigraph.spark.ArrowReaderFactory.heldPlaces())


def figures(spark: SparkSession, table: str = "") -> dict[str, int]:
    """What scans of the newest query have cost, by the names that Spark's interface shows.

    `table` is in the description of the scans that are meant; of several the figures are added.
    """
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    query = store.executionsList().last().executionId()
    values, nodes = store.executionMetrics(query), store.planGraph(query).allNodes()
    found: dict[str, int] = {}
    for node in (nodes.apply(at) for at in range(nodes.size())):
        if table not in node.desc():
            continue
        for metric in (node.metrics().apply(at) for at in range(node.metrics().size())):
            if "io.omnigraph" in metric.metricType():
                value = values.get(metric.accumulatorId())
                found[metric.name()] = found.get(metric.name(), 0) + int(value.get())
    return found


@dataclass(frozen=True)
class SharedRing:
    """One ring as a process has it open."""

    process: int
    inode: int
    #: Batches that lie in it and that nobody gave back.
    in_use: int


def jvm(spark: SparkSession) -> int:
    """The process of the driver's JVM."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


def workers(spark: SparkSession) -> list[int]:
    """All Python processes below the JVM: daemons and what they forked."""
    return [each.id for each in tree(jvm(spark)) if each.command.startswith("python")]


def rings(process: int) -> list[SharedRing]:
    """The rings that a process has open; none when it is gone."""
    found: dict[int, SharedRing] = {}
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for file in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if _NAME in os.readlink(file):
                    inode = file.stat().st_ino
                    found[inode] = SharedRing(process, inode, _in_use(file))
    return list(found.values())


def mapped_rings(process: int) -> set[int]:
    """The rings that a process has mapped, open or not, by their inodes."""
    lines = Path(f"/proc/{process}/maps").read_text()
    return {int(inode) for inode in re.findall(rf" (\d+) +/memfd:{_NAME}", lines)}


def _in_use(file: Path) -> int:
    with file.open("rb") as opened:
        header = opened.read(_CELL * (1 + PLACES))
    return sum(struct.unpack_from("<Q", header, _CELL * (1 + n))[0] for n in range(PLACES))
