"""omnigraph-spark: versioned OmniGraph graphs in Apache Spark.

>>> import omnigraph_spark as og
>>> graph = og.open("/data/social")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph_spark.branches import Branch
from omnigraph_spark.changes import Changes
from omnigraph_spark.diff import Diff
from omnigraph_spark.errors import Conflict, MergeConflictsError, OmnigraphError
from omnigraph_spark.exports import Exported
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.from_frames import create_from_frames
from omnigraph_spark.graph import Graph, create, open
from omnigraph_spark.health import Finding
from omnigraph_spark.maintenance.indexing import IndexBuild
from omnigraph_spark.maintenance.optimizing import Optimization
from omnigraph_spark.manifest import Entry
from omnigraph_spark.merge.preview import MergePlan
from omnigraph_spark.names import Ref, TypeKey
from omnigraph_spark.recovery.act import Recovery
from omnigraph_spark.recovery.repair import Repair
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.transaction import Transaction
from omnigraph_spark.version import __version__
from omnigraph_spark.view import Snapshot
from omnigraph_spark.writing.violations import Violation

if TYPE_CHECKING:
    from omnigraph_spark.session.configure import attach, configure

__all__ = [
    "Branch",
    "Changes",
    "Commit",
    "Conflict",
    "Diff",
    "Entry",
    "Exported",
    "Finding",
    "Graph",
    "GraphSchema",
    "IndexBuild",
    "MergeConflictsError",
    "MergePlan",
    "OmnigraphError",
    "Optimization",
    "Recovery",
    "Ref",
    "Repair",
    "Snapshot",
    "Transaction",
    "TypeKey",
    "Violation",
    "__version__",
    "attach",
    "configure",
    "create",
    "create_from_frames",
    "open",
]


def __getattr__(name: str) -> Any:
    """Import what needs pyspark when it is first asked for: the engine works without."""
    if name not in ("attach", "configure"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from omnigraph_spark.session import configure

    return getattr(configure, name)
