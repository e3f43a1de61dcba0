"""`Snapshot`: all types of a graph at one manifest version, as DataFrames or Arrow.

Everything works without Spark; methods that return DataFrames import `session` when first called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph_spark.blobs import Blobs
from omnigraph_spark.display import counted, html_table
from omnigraph_spark.errors import InvalidOptionError
from omnigraph_spark.filters import equals_text
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.manifest import Entry
from omnigraph_spark.names import MAIN, TypeKey, TypeKind
from omnigraph_spark.scan import ScanRequest, plan_scan, read_all
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.tables import metadata_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Snapshot:
    """All types of a graph at one manifest version; what is read from it belongs together."""

    def __init__(self, state: SnapshotState, spark: SparkSession | None = None) -> None:
        self._state = state
        self._spark = spark

    @property
    def branch(self) -> str:
        """The branch this snapshot was resolved on."""
        return self._state.branch

    @property
    def manifest_version(self) -> int:
        """The manifest version everything is read at."""
        return self._state.manifest_version

    @property
    def commit(self) -> Commit:
        """The newest commit of the snapshot."""
        return self._state.commit

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The pinned dataset of each type, by type key."""
        return self._state.entries

    @property
    def schema(self) -> GraphSchema:
        """The graph's schema."""
        return self._state.schema

    def rows(self, type: str) -> int:
        """Return how many rows a type has, from the manifest."""
        return self._state.entry(type).rows

    def nodes(self, name: str) -> DataFrame:
        """Read a node type as a DataFrame."""
        return self._frame(TypeKind.NODE, name)

    def edges(self, name: str) -> DataFrame:
        """Read an edge type as a DataFrame: id, src, dst, then its properties."""
        return self._frame(TypeKind.EDGE, name)

    def triplets(self, name: str) -> DataFrame:
        """Read edges with both ends: columns src, edge and dst, each a struct."""
        from omnigraph_spark.session.frames import triplets_frame

        return triplets_frame(self._spark, self._state, self._key(TypeKind.EDGE, name))

    def table(self, name: str) -> DataFrame:
        """Read a table about the graph, such as ``commits``, as a DataFrame."""
        from omnigraph_spark.session.frames import read_frame

        return read_frame(self._spark, self._state, {"table": metadata_table(name).name})

    def register_views(self, prefix: str = "og") -> list[str]:
        """Make a temporary view ``<prefix>_<Type>`` of every type and return their names."""
        from omnigraph_spark.session.frames import register_views

        return register_views(self._spark, self._state, prefix)

    def arrow(
        self,
        type: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        blobs: str = "descriptor",
    ) -> pa.Table:
        """Read a type, or a part of it, as a pyarrow Table without Spark.

        Args:
            type: ``Person``, ``node:Person`` or ``edge:Knows``.
            columns: The columns to read, in this order; all by default.
            where: A SQL condition, evaluated by Lance.
            limit: The most rows to return.
            blobs: Blob columns as ``descriptor``, ``bytes`` or ``none``.
        """
        batches, schema = self._scan(type, columns, where, limit, blobs)
        return pa.Table.from_batches(batches, schema)

    def batches(
        self,
        type: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        blobs: str = "descriptor",
    ) -> pa.RecordBatchReader:
        """Stream a type, or a part of it, without Spark; arguments as for `arrow`."""
        batches, schema = self._scan(type, columns, where, limit, blobs)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def entity(self, type: str, id: str) -> dict[str, Any] | None:
        """Return one entity by id as a dictionary, or None; no DataFrame is built."""
        found = self.arrow(type, where=equals_text("id", id), limit=1).to_pylist()
        return found[0] if found else None

    def _scan(
        self,
        type: str,
        columns: Sequence[str] | None,
        where: str | None,
        limit: int | None,
        blobs: str,
    ) -> tuple[Iterator[pa.RecordBatch], pa.Schema]:
        if blobs not in tuple(Blobs):
            raise InvalidOptionError("blobs", blobs, "descriptor, bytes or none")
        names = None if columns is None else tuple(columns)
        request = ScanRequest(names, where, limit, Blobs(blobs))
        plan = plan_scan(ScanSource.of(self._state, type), request)
        return read_all(plan), plan.schema

    def _key(self, kind: TypeKind, name: str) -> TypeKey:
        """Return the type key of a name that may already carry its kind."""
        text = name if ":" in name else f"{kind}:{name}"
        entry = self._state.entry(text)
        if entry.type_key.kind is not kind:
            raise InvalidOptionError("type", name, f"the name of a type of kind {kind}")
        return entry.type_key

    def _frame(self, kind: TypeKind, name: str) -> DataFrame:
        from omnigraph_spark.session.frames import read_frame

        return read_frame(self._spark, self._state, {"type": str(self._key(kind, name))})

    def __repr__(self) -> str:
        types, rows = len(self.entries), sum(entry.rows for entry in self.entries.values())
        return (
            f"Snapshot({self._state.root}, {self.branch}@{self.manifest_version}, "
            f"commit {self.commit.id}, {counted(types, 'type')}, {counted(rows, 'row')})"
        )

    def _repr_html_(self) -> str:
        title = f"{self._state.root} · {self.branch}@{self.manifest_version} · {self.commit.id}"
        rows = [
            (key, f"{entry.rows:,}", entry.dataset_version, entry.dataset_branch or MAIN)
            for key, entry in self.entries.items()
        ]
        return html_table(title, ("type", "rows", "dataset version", "dataset branch"), rows)
