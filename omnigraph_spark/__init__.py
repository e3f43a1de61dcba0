"""omnigraph-spark: OmniGraph graphs in Apache Spark."""

from omnigraph_spark.version import __version__

__all__ = ["__version__"]
