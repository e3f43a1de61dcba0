"""The version of this package, read by the build and by ``omnigraph_spark.__version__``."""

__version__ = "0.1.0"
