"""Storage format 4, written by engine releases 0.8: manifest rows, lineage, schema files."""

from omnigraph_spark.formats.v4.contract import schema_files
from omnigraph_spark.formats.v4.layout import dataset_path
from omnigraph_spark.formats.v4.lineage import decode_commit
from omnigraph_spark.formats.v4.row_encoding import (
    PUBLISHER_COLUMNS,
    encode_rows,
    pin_detail,
    publisher_of,
)
from omnigraph_spark.formats.v4.rows import dataset_tag, split_rows
from omnigraph_spark.formats.v4.staged_schema import read_schema

FORMAT_VERSION = 4

__all__ = [
    "FORMAT_VERSION",
    "PUBLISHER_COLUMNS",
    "dataset_path",
    "dataset_tag",
    "decode_commit",
    "encode_rows",
    "pin_detail",
    "publisher_of",
    "read_schema",
    "schema_files",
    "split_rows",
]
