"""Storage format 4, written by engine releases 0.8: manifest rows, lineage, schema files."""

from omnigraph_spark.formats.v4.contract import read_schema
from omnigraph_spark.formats.v4.lineage import decode_commit
from omnigraph_spark.formats.v4.rows import dataset_tag, split_rows

FORMAT_VERSION = 4

__all__ = ["FORMAT_VERSION", "dataset_tag", "decode_commit", "read_schema", "split_rows"]
