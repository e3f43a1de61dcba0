"""Committed rows as they are stored, blobs included: what is written again when rows are merged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.filters import in_texts
from omnigraph_spark.scan import ScanSource
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.storage.blob_values import stored_batches

# So many ids are looked up, by an index where there is one; more are found by reading all.
_LOOKUP_IDS = 1_000


def read_stored(source: ScanSource, declared: EntityType, ids: pa.Array[Any]) -> pa.Table:
    """Return the rows with these ids, all columns in the stored types."""
    schema = arrow_schema(declared)
    dataset = source.open()
    scan: dict[str, Any] = {}
    if len(ids) <= _LOOKUP_IDS:
        scan = {
            "filter": in_texts("id", list(map(str, ids.to_pylist()))),
            "use_scalar_index": dataset.indexes_are_readable(source.settings),
        }
    fragments = [fragment.id for fragment in dataset.fragments()]
    batches = stored_batches(dataset, fragments, schema.names, zeros_are_null=True, **scan)
    found = [batch.filter(pc.is_in(batch.column("id"), ids)) for batch in batches]
    return pa.Table.from_batches(found, schema) if found else schema.empty_table()
