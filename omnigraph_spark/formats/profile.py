"""What a storage format must offer, and the gate that picks one by the graph's stamp.

Everything above this package speaks of locations, pins, tombstones and commits; how they are
encoded is a format's own business.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from omnigraph_spark.errors import (
    FormatStampInvalidError,
    FormatStampMissingError,
    FormatTooNewError,
    FormatTooOldError,
)
from omnigraph_spark.names import MAIN, TypeKey
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.storage.objects import ObjectStore

STAMP_KEY = "omnigraph:internal_schema_version"
MANIFEST_PATH = "__manifest"


class LocationRow(NamedTuple):
    """Where the dataset of a type lies, below the root of the graph."""

    type_key: str
    path: str


class PinRow(NamedTuple):
    """One dataset version that some publish pinned; `detail` is the format's own text."""

    type_key: str
    dataset_version: int
    dataset_branch: str | None
    rows: int
    detail: str


class TombstoneRow(NamedTuple):
    """The end of a type: what is pinned at or below this dataset version no longer counts."""

    type_key: str
    version: int


#: What a publish adds beside its commit.
NewRow = LocationRow | PinRow | TombstoneRow


class CommitRow(NamedTuple):
    """One graph commit as stored; `detail` is the format's own text."""

    id: str
    manifest_version: int
    branch: str | None
    detail: str


@dataclass(frozen=True)
class ManifestRows:
    """The rows of one manifest version, by kind."""

    locations: Mapping[str, str]
    pins: Sequence[PinRow]
    tombstones: Sequence[TombstoneRow]
    commits: Sequence[CommitRow]


@dataclass(frozen=True)
class ChangeSummary:
    """What one commit did to one type."""

    mode: str
    dataset_version: int
    #: How many rows the type has now.
    rows: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Commit:
    """One graph commit: a new state of the whole graph on one branch."""

    id: str
    branch: str
    manifest_version: int
    parent_id: str | None
    merged_parent_id: str | None
    actor: str | None
    created_at_us: int
    #: What it did to each type; only the writer of a commit knows, history does not keep it.
    changes: Mapping[str, ChangeSummary] = field(default_factory=dict, compare=False)

    @property
    def created_at(self) -> dt.datetime:
        """When the commit was made, in UTC."""
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
            microseconds=self.created_at_us
        )

    def __repr__(self) -> str:
        merged = f", merged {self.merged_parent_id}" if self.merged_parent_id else ""
        actor = f" by {self.actor}" if self.actor else ""
        place = f"{self.branch}@{self.manifest_version}"
        return f"Commit({self.id}, {place}, {self.created_at:%Y-%m-%d %H:%M:%S}{actor}{merged})"


class FormatProfile(Protocol):
    """One storage format; a package under `formats` offers exactly these names."""

    FORMAT_VERSION: int
    #: The columns of a manifest that `publisher_of` looks at.
    PUBLISHER_COLUMNS: tuple[str, ...]

    def split_rows(self, table: pa.Table) -> ManifestRows:
        """Sort the rows of a manifest by kind; a ValueError says what is impossible in them."""

    def decode_commit(self, row: CommitRow) -> Commit:
        """Read the text of a commit row."""

    def dataset_tag(self, row: PinRow) -> str | None:
        """Return what tells this dataset version apart from another made at the same address."""

    def read_schema(
        self, root: str, store: ObjectStore, only_main: Callable[[], bool]
    ) -> GraphSchema:
        """Read the schema files and check that they agree."""

    def dataset_path(self, key: TypeKey) -> str:
        """Return the folder of a type's dataset below the root."""

    def pin_detail(self, manifest_path: str, manifest_size: int | None, e_tag: str | None) -> str:
        """Return the text of a pin whose Lance manifest lies there."""

    def encode_rows(self, rows: Iterable[NewRow], commit: Commit) -> pa.Table:
        """Return the rows that one publish writes; the commit moves the head of its branch."""

    def publisher_of(self, table: pa.Table, type_key: str, version: int) -> str | None:
        """Return the commit that brought a pin or tombstone, from its `PUBLISHER_COLUMNS`."""

    def schema_files(self, source: str, schema: GraphSchema) -> Mapping[str, bytes]:
        """Return the schema files of a new graph by name, in the order they are written."""

    def __hash__(self) -> int:
        """Formats are parts of cache keys."""


def choose_profile(stamp: str | None, root: str) -> FormatProfile:
    """Return the format a stamp names; refuse every other stamp with what to do about it."""
    from omnigraph_spark.formats import v4

    if stamp is None:
        raise FormatStampMissingError(root)
    # Ten digits: the engine's number has 32 bits.
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 10):
        raise FormatStampInvalidError(root, stamp)
    found, supported = int(stamp), v4.FORMAT_VERSION
    if found < supported:
        raise FormatTooOldError(root, found, supported)
    if found > supported:
        raise FormatTooNewError(root, found, supported)
    return v4


def graph_branch(stored: str | None) -> str:
    """Return the name of a graph branch as callers know it; stored, main is null."""
    return MAIN if stored is None else stored
