"""Spark finds the `omnigraph` format here, by the package's name; importing it must never fail."""

from pyspark_omnigraph.source import OmnigraphDataSource as DefaultSource

__all__ = ["DefaultSource"]
