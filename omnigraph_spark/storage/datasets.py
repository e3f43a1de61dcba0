"""Lance datasets opened at exactly one version, and what a reader asks of them.

Nothing here reads "the latest": `probe_version` says which version is newest, and every open names
the version it wants. Handles are shared within a process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph_spark.storage.credentials import Keys
from omnigraph_spark.storage.lance_session import lance_session
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.parts import Fragment, FragmentContent, Index, Ordering
from omnigraph_spark.storage.probing import (
    DatasetAddress,
    VersionTag,
    has_version,
    probe_version,
    probe_versions,
    version_file,
)
from omnigraph_spark.storage.rebase import rebase_manifest, resolve_base
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.stored_indexes import own_segments, rewritten_fragments
from omnigraph_spark.storage.translate import lance_errors
from omnigraph_spark.storage.uri import join

if TYPE_CHECKING:
    from lance import FragmentMetadata, LanceDataset

__all__ = [
    "DatasetAddress",
    "PinnedDataset",
    "VersionTag",
    "has_version",
    "open_dataset",
    "open_handle",
    "probe_version",
    "probe_versions",
    "version_file",
]

#: Handles kept open per process; the engine keeps as many.
_HANDLES_KEPT = 64


class PinnedDataset:
    """A dataset at one version; everything asked of it is answered from that version."""

    def __init__(self, handle: LanceDataset, address: DatasetAddress) -> None:
        self._handle = handle
        self._address = address
        self._indexes_readable: bool | None = None
        self._doubtful: frozenset[str] | None = None
        self._fragments: tuple[Fragment, ...] | None = None

    @property
    def handle(self) -> LanceDataset:
        """Lance's own handle, which is shared: to be handed to Lance, never to be moved."""
        return self._handle

    @property
    def uri(self) -> str:
        """The address of the dataset, or of its branch."""
        return self._address.uri

    @property
    def base(self) -> str:
        """The address of the dataset, whatever the branch."""
        return self._address.base

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
        """List the fragments, from the manifest alone; put together once, there may be many."""
        if self._fragments is None:
            # Lance makes `metadata` anew whenever it is asked for.
            known = (fragment.metadata for fragment in self._handle.get_fragments())
            self._fragments = tuple(map(_fragment, known))
        return list(self._fragments)

    def contents(self) -> list[FragmentContent]:
        """List what the fragments hold, from the manifest alone."""
        found = []
        for fragment in self._handle.get_fragments():
            known = fragment.metadata
            deleted = known.deletion_file
            found.append(
                FragmentContent(
                    id=fragment.fragment_id,
                    files=tuple((file.path, tuple(file.fields)) for file in known.files),
                    deletions=None if deleted is None else deleted.path(fragment.fragment_id),
                    rows=known.num_rows,
                )
            )
        return found

    @property
    def has_stable_row_ids(self) -> bool:
        """Tell whether rows can be followed from version to version."""
        return bool(self._handle.has_stable_row_ids)

    def field_ids(self) -> tuple[int, ...]:
        """Return the ids of the fields, which name columns in data files whatever they are called.

        Parts of nested columns come after their parents.
        """
        return tuple(_field_ids(self._handle.lance_schema.fields()))

    def data_files(self) -> set[str]:
        """Return the names of all data files of this version, from the manifest alone."""
        fragments = self._handle.get_fragments()
        return {file.path for fragment in fragments for file in fragment.metadata.files}

    def file_names(self, few: Sequence[int] | None = None) -> Iterator[tuple[int, str]]:
        """List fragments, all or a few, with the names of their files alone: there may be many."""
        known = self._handle._ds
        for fragment in known.get_fragments() if few is None else map(known.get_fragment, few):
            # Not `path`: Lance makes a class each time it is asked for it.
            yield fragment.id(), "|".join([file._path for file in fragment.data_files()])

    def written_rows(self, fragment_id: int) -> tuple[int, bool]:
        """Return how many rows a fragment was written with, and whether all are there still."""
        fragment = self._handle.get_fragment(fragment_id)
        return int(fragment.physical_rows), fragment.deletion_file() is None

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
                uuid=str(segment.uuid),
            )
            for index in described
            for segment in index.segments
        ]

    def index_pages(self, name: str) -> int:
        """Return in how many pages a sorted index keeps its values; Lance reads it for that."""
        with lance_errors(self._address.uri):
            parts = self._handle.stats.index_stats(name)["indices"]
        return sum(int(part["num_pages"]) for part in parts)

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

    def may_use_indexes(self, where: str, settings: StorageSettings) -> bool:
        """Tell whether indexes answer a filter, and answer it right (see `stored_indexes`)."""
        text = where.casefold()
        asked = [index for index in self.indexes() if _is_mentioned(index, text)]
        if not asked:
            return True
        doubtful = self.doubtful_columns(settings)
        return self.indexes_are_readable(settings) and not any(
            column in doubtful for index in asked for column in index.columns
        )

    def doubtful_columns(self, settings: StorageSettings) -> frozenset[str]:
        """Return the columns whose index may hold values that rows no longer have."""
        if self._doubtful is None:
            doubtful = self.doubtful_segments(settings)
            # The id of a row never changes, so no entry of its index has an outdated value.
            self._doubtful = frozenset(
                column
                for index in self.indexes()
                for column in index.columns
                if index.uuid in doubtful and column != "id"
            )
        return self._doubtful

    def doubtful_segments(self, settings: StorageSettings) -> frozenset[str]:
        """Return the ids of segments that may hold entries of rows as they no longer are."""
        indexes = self.indexes()
        rewritten = self.rewritten_fragments() if indexes else frozenset()
        names = [index.name for index in indexes if index.fragment_ids & rewritten]
        if not names:
            return frozenset()
        marked = self.own_segments(settings)
        segments = [index.name for index in indexes]
        return frozenset(
            index.uuid
            for index in indexes
            if index.name in names and (segments.count(index.name) > 1 or index.uuid not in marked)
        )

    def own_segments(self, settings: StorageSettings) -> frozenset[str]:
        """Return the ids of segments that this package built."""
        file = version_file(self._address, self.version)
        return own_segments(self._handle, file, objects_at(self._address.root, settings))

    def rewritten_fragments(self) -> frozenset[int]:
        """Return the fragments that hold rows rewritten since they were made."""
        return rewritten_fragments(self._handle)

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

    def rows(self, row_ids: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        """Read rows by their ids, in that order; ids that this version lacks are passed over."""
        with lance_errors(self._address.uri):
            table: pa.Table = self._handle._take_rows(row_ids, list(columns))
            return table

    def batches(
        self,
        fragment_ids: Sequence[int],
        columns: Sequence[str],
        order: Sequence[Ordering] = (),
        **scan: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Stream chosen fragments through one scanner; `scan` holds Lance's scanner options.

        With an `order`, its columns come after those asked for: Lance sorts by what it reads.
        """
        if order:
            from lance.dataset import ColumnOrdering

            scan["order_by"] = [ColumnOrdering(*key) for key in order]
        names = list(dict.fromkeys([*columns, *(key.column for key in order)]))
        with lance_errors(self._address.uri):
            fragments = [self._handle.get_fragment(id_) for id_ in fragment_ids]
            scanner = self._handle.scanner(columns=names, fragments=fragments, **scan)
            yield from scanner.to_batches()

    def count(self, fragment_ids: Sequence[int], where: str | None, use_index: bool) -> int:
        """Count the rows of chosen fragments that a condition holds for."""
        with lance_errors(self._address.uri):
            fragments = [self._handle.get_fragment(id_) for id_ in fragment_ids]
            scanner = self._handle.scanner(
                columns=[],
                with_row_id=True,
                fragments=fragments,
                filter=where,
                use_scalar_index=use_index,
            )
            return int(scanner.count_rows())


def _fragment(known: FragmentMetadata) -> Fragment:
    files = known.files
    return Fragment(
        id=known.id,
        rows=known.num_rows,
        deleted_rows=known.num_deletions,
        size_bytes=sum(file.file_size_bytes or 0 for file in files),
        files=len(files),
    )


def _is_mentioned(index: Index, text: str) -> bool:
    """Tell whether a filter, in small letters, may be about the columns of an index."""
    return any(column.casefold() in text for column in index.columns)


def _field_ids(fields: Sequence[Any]) -> Iterator[int]:
    for field in fields:
        yield field.id()
        yield from _field_ids(field.children())


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
    # A handle keeps the keys it was opened with; with newer ones there is another.
    keys = settings.keys(address.uri)
    return _open_shared(address, version, settings, identity, block_bytes, keys)


@lru_cache(maxsize=_HANDLES_KEPT)
def _open_shared(
    address: DatasetAddress,
    version: int,
    settings: StorageSettings,
    identity: str,
    block_bytes: int | None,
    keys: Keys | None,
) -> PinnedDataset:
    return _open(address, version, settings, block_bytes)


def _open(
    address: DatasetAddress, version: int, settings: StorageSettings, block_bytes: int | None
) -> PinnedDataset:
    more = {"storage_options": settings.for_lance(address.uri, reading=True)}
    with lance_errors(address.uri):
        return PinnedDataset(open_handle(address, version, settings, block_bytes, more), address)


# Lance runs threads that do not survive a fork, so a child starts with nothing open.
os.register_at_fork(after_in_child=_open_shared.cache_clear)


def open_handle(
    address: DatasetAddress,
    version: int,
    settings: StorageSettings,
    block_bytes: int | None = None,
    more: Mapping[str, Any] | None = None,
) -> LanceDataset:
    """Open Lance's own handle, shared with nobody: for writers, because a write moves its handle.

    On a branch that was moved with its graph it knows the new place, and what is written says so.
    `more` is said to Lance as it is.
    """
    import lance

    common: dict[str, Any] = {
        "storage_options": settings.for_lance(address.uri),
        "session": lance_session(),
        "block_size": block_bytes,
        **(more or {}),
    }
    handle = lance.LanceDataset(address.uri, version=version, **common)
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
