"""omnigraph-spark: versioned OmniGraph graphs in Apache Spark.

>>> import omnigraph_spark as og
>>> graph = og.open("/data/social")  # doctest: +SKIP
"""

from omnigraph_spark.branches import Branch
from omnigraph_spark.errors import OmnigraphError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.from_frames import create_from_frames
from omnigraph_spark.graph import Graph, create, open
from omnigraph_spark.health import Finding
from omnigraph_spark.manifest import Entry
from omnigraph_spark.names import Ref, TypeKey
from omnigraph_spark.recovery.act import Recovery
from omnigraph_spark.recovery.repair import Repair
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.transaction import Transaction
from omnigraph_spark.version import __version__
from omnigraph_spark.view import Snapshot
from omnigraph_spark.violations import Violation

__all__ = [
    "Branch",
    "Commit",
    "Entry",
    "Finding",
    "Graph",
    "GraphSchema",
    "OmnigraphError",
    "Recovery",
    "Ref",
    "Repair",
    "Snapshot",
    "Transaction",
    "TypeKey",
    "Violation",
    "__version__",
    "create",
    "create_from_frames",
    "open",
]
