"""Lance datasets opened at exactly one version, and what a reader asks of them.

Nothing here reads "the latest": `probe_version` says which version is newest, and every open names
the version it wants. Handles are shared within a process, as is one Lance session with its caches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.rebase import rebase_manifest, resolve_base
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import lance_errors
from omnigraph_spark.storage.uri import join

if TYPE_CHECKING:
    from lance import LanceDataset, Session

#: Handles kept open per process; the engine keeps as many.
_HANDLES_KEPT = 64
# Newest first: Lance names a version's file by 2^64-1 minus its number, padded to 20 digits.
_VERSION_FILE = re.compile(r"(\d{20})\.manifest\Z")
_LARGEST = (1 << 64) - 1


class VersionTag(NamedTuple):
    """A version number with a tag of its manifest file: the same number made anew has another."""

    number: int
    e_tag: str


@dataclass(frozen=True)
class DatasetAddress:
    """Where a dataset lies: graph root, path below it, and its Lance branch (None = main)."""

    root: str
    path: str
    branch: str | None = None

    @property
    def base(self) -> str:
        """The folder of the dataset's main line."""
        return join(self.root, self.path)

    @property
    def uri(self) -> str:
        """The folder that holds this branch's versions."""
        return self.base if self.branch is None else join(self.base, "tree", self.branch)


@dataclass(frozen=True)
class Fragment:
    """One Lance fragment, as its dataset's manifest describes it."""

    id: int
    rows: int
    deleted_rows: int
    size_bytes: int
    files: int


@dataclass(frozen=True)
class Index:
    """One index segment, as its dataset's manifest describes it."""

    name: str
    columns: tuple[str, ...]
    kind: str
    fragment_ids: frozenset[int]
    folder: str


def probe_version(address: DatasetAddress, settings: StorageSettings) -> VersionTag | None:
    """Return the newest version with one listing request, or None when there is no dataset."""
    store = objects_at(address.root, settings)
    # A handful is enough: only staged manifests of a commit in flight can sort before the newest.
    for name, e_tag in store.listing(join(address.uri, "_versions"), page_size=8):
        if version := _VERSION_FILE.match(name):
            return VersionTag(_LARGEST - int(version[1]), e_tag)
    return None


def has_version(address: DatasetAddress, version: int, settings: StorageSettings) -> bool:
    """Tell whether the file of a version is there, whatever it holds; lists all versions."""
    store = objects_at(address.root, settings)
    wanted = f"{_LARGEST - version:020d}.manifest"
    return any(name == wanted for name, _ in store.listing(join(address.uri, "_versions")))


class PinnedDataset:
    """A dataset at one version; everything asked of it is answered from that version."""

    def __init__(self, handle: LanceDataset, address: DatasetAddress) -> None:
        self._handle = handle
        self._address = address
        self._indexes_readable: bool | None = None

    @property
    def version(self) -> int:
        """The pinned version."""
        return int(self._handle.version)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of this version."""
        schema: pa.Schema = self._handle.schema
        return schema

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The schema-level metadata of this version."""
        return dict(self._handle.schema_metadata)

    def fragments(self) -> list[Fragment]:
        """List the fragments, from the manifest alone."""
        return [
            Fragment(
                id=fragment.fragment_id,
                rows=fragment.metadata.num_rows,
                deleted_rows=fragment.metadata.num_deletions,
                size_bytes=sum(file.file_size_bytes or 0 for file in fragment.metadata.files),
                files=len(fragment.metadata.files),
            )
            for fragment in self._handle.get_fragments()
        ]

    def data_files(self) -> set[str]:
        """Return the names of all data files of this version, from the manifest alone."""
        fragments = self._handle.get_fragments()
        return {file.path for fragment in fragments for file in fragment.metadata.files}

    def indexes(self) -> list[Index]:
        """List the index segments, from the manifest alone."""
        with lance_errors(self._address.uri):
            described = self._handle.describe_indices()
            bases = self._handle.base_paths()
        return [
            Index(
                name=index.name,
                columns=tuple(index.field_names),
                kind=index.index_type,
                fragment_ids=frozenset(segment.fragment_ids),
                folder=join(
                    bases[segment.base_id].path if segment.base_id in bases else self._address.uri,
                    "_indices",
                    str(segment.uuid),
                ),
            )
            for index in described
            for segment in index.segments
        ]

    def indexes_are_readable(self, settings: StorageSettings) -> bool:
        """Tell whether every index lies where the manifest says.

        Engine 0.8 forks a branch of a branch with indexes that point into the parent branch, where
        they are not. Lance then fails on every filter that would use one. Storage is asked once,
        and only of such a branch.
        """
        if self._indexes_readable is None:
            store = objects_at(self._address.root, settings)
            self._indexes_readable = len(self._handle.base_paths()) < 2 or all(
                store.exists(index.folder) for index in self.indexes()
            )
        return self._indexes_readable

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read everything; for datasets known to be small, such as the manifest."""
        with lance_errors(self._address.uri):
            table: pa.Table = self._handle.to_table(columns=columns)
            return table

    def explain(self, where: str) -> None:
        """Have Lance parse a filter against this schema; raises what Lance raises.

        That is a ValueError for text it refuses, a RuntimeError for text it cannot plan.
        """
        self._handle.scanner(columns=[], filter=where, with_row_id=True).explain_plan()

    def blobs(self, column: str, addresses: pa.Array[Any]) -> list[bytes | None]:
        """Read blobs whole, by the addresses of their rows and in their order."""
        with lance_errors(self._address.uri):
            read = self._handle.read_blobs(column, addresses=addresses, preserve_order=True)
            return [content for _, content in read]

    def batches(
        self, fragment_ids: Sequence[int], columns: Sequence[str], **scan: Any
    ) -> Iterator[pa.RecordBatch]:
        """Stream chosen fragments through one scanner; `scan` holds Lance's scanner options."""
        with lance_errors(self._address.uri):
            fragments = [self._handle.get_fragment(id_) for id_ in fragment_ids]
            scanner = self._handle.scanner(columns=list(columns), fragments=fragments, **scan)
            yield from scanner.to_batches()


def open_dataset(
    address: DatasetAddress,
    version: int,
    settings: StorageSettings,
    identity: str | None = None,
    block_bytes: int | None = None,
) -> PinnedDataset:
    """Open a dataset at exactly this version.

    `identity` tells two datasets apart that had the same address and version at different times (a
    graph or branch deleted and made again); without one the handle is not shared. `block_bytes` is
    the least that one request reads: a file of at most that size takes a single one.
    """
    if identity is None:
        return _open(address, version, settings, block_bytes)
    return _open_shared(address, version, settings, identity, block_bytes)


@lru_cache(maxsize=_HANDLES_KEPT)
def _open_shared(
    address: DatasetAddress,
    version: int,
    settings: StorageSettings,
    identity: str,
    block_bytes: int | None,
) -> PinnedDataset:
    return _open(address, version, settings, block_bytes)


def _open(
    address: DatasetAddress, version: int, settings: StorageSettings, block_bytes: int | None
) -> PinnedDataset:
    with lance_errors(address.uri):
        return PinnedDataset(open_handle(address, version, settings, block_bytes), address)


@cache
def _session() -> Session:
    """Return the one Lance session of this process: metadata read once is not read again."""
    import lance

    return lance.Session()


def _forget_handles() -> None:
    _open_shared.cache_clear()
    _session.cache_clear()


# Lance runs threads that do not survive a fork, so a child starts with nothing open.
os.register_at_fork(after_in_child=_forget_handles)


def open_handle(
    address: DatasetAddress,
    version: int,
    settings: StorageSettings,
    block_bytes: int | None = None,
) -> LanceDataset:
    """Open Lance's own handle, shared with nobody: for writers, because a write moves its handle.

    On a branch that was moved with its graph it knows the new place, and what is written says so.
    """
    import lance

    common: dict[str, Any] = {
        "storage_options": settings.for_lance(),
        "session": _session(),
        "block_size": block_bytes,
    }
    handle = lance.dataset(address.uri, version=version, **common)
    if address.branch is None:
        return handle
    moved = {}
    for base in handle.base_paths().values():
        if (now := resolve_base(base.path, address.base, address.path)) != base.path:
            moved[base.path] = now
    if not moved:
        return handle
    manifest = rebase_manifest(handle._ds.serialized_manifest(), moved)
    return lance.LanceDataset(address.uri, version=version, serialized_manifest=manifest, **common)
