"""Data files nobody sees yet: written, read back, thrown away; and datasets that are still empty.

A staged file belongs to no version until `fence.commit_fenced` lands one that names it. Files of a
killed process stay behind unreferenced and harm nothing.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from omnigraph_spark.errors import StorageError
from omnigraph_spark.failpoints import ROWS_STAGED
from omnigraph_spark.storage.blob_values import stored_batches
from omnigraph_spark.storage.datasets import DatasetAddress, PinnedDataset, probe_version
from omnigraph_spark.storage.fresh_rows import Tally, forget_rows, kept_rows
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import lance_errors
from omnigraph_spark.storage.uncommitted import open_fragments
from omnigraph_spark.storage.uri import join
from omnigraph_spark.storage.versions import LandedVersion, landed_version, transaction_id
from omnigraph_spark.storage.whole import check_files, data_file

if TYPE_CHECKING:
    from lance import FragmentMetadata

#: The file format of every dataset of a graph; it is the first with blobs.
STORAGE_VERSION = "2.2"
# Lance reads ahead of the consumer up to this much; its own default is 2 GiB.
_IO_BUFFER_BYTES = 64 << 20
_BATCHES_AHEAD = 4
_BATCH_ROWS = 8192
#: What Lance gets at a time: a million rows in batches of ten take forty times as long as in these,
#: and in the ten thousand that Spark hands over a third longer (12 columns; it takes 0.4 s).
_PORTION_ROWS = 32_768
_PORTION_BYTES = 8 << 20


@dataclass(eq=False)
class DatasetExistsError(Exception):
    """A dataset was to be created where there is one already; nothing was changed."""

    uri: str

    def __str__(self) -> str:
        return f"there is a dataset at {self.uri}"


@dataclass(frozen=True)
class StagedFile:
    """One data file that no version names yet: path below `data/`, Lance's description, size."""

    path: str
    #: The JSON of Lance's `FragmentMetadata`.
    fragment: str
    rows: int
    size_bytes: int


def stage_batches(
    address: DatasetAddress,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    settings: StorageSettings,
    max_rows_per_file: int,
    max_bytes_per_file: int,
    *,
    as_given: bool = False,
    base: PinnedDataset | None = None,
) -> list[StagedFile]:
    """Write rows to new files of a dataset, as they come; when that fails no file is left.

    The rows must have the dataset's columns. `as_given` takes any schema: for rows that replace all
    others, and for rows that are only read back. `base` is the dataset where it is open already:
    without one Lance looks for the newest version.
    """
    tally = Tally(schema)
    fragments = stage_fragments(
        address,
        batches,
        schema,
        settings,
        max_rows_per_file,
        max_bytes_per_file,
        as_given,
        base,
        tally,
    )
    files = [staged_file(fragment) for fragment in fragments]
    tally.keep(address.uri, [file.path for file in files])
    return files


def stage_fragments(
    address: DatasetAddress,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    settings: StorageSettings,
    max_rows_per_file: int,
    max_bytes_per_file: int,
    as_given: bool = False,
    base: PinnedDataset | None = None,
    tally: Tally | None = None,
) -> list[FragmentMetadata]:
    """Do what `stage_batches` does; return the fragments as Lance describes them."""
    from lance.fragment import write_fragments

    incoming = _Incoming(batches, schema, tally)
    try:
        with lance_errors(address.uri):
            written: list[FragmentMetadata] = write_fragments(
                pa.RecordBatchReader.from_batches(schema, incoming.portions()),
                address.uri if base is None or as_given else base.handle,
                mode="overwrite" if as_given else "append",
                max_rows_per_file=max_rows_per_file,
                max_bytes_per_file=max_bytes_per_file,
                data_storage_version=STORAGE_VERSION,
                storage_options=settings.for_lance(address.uri),
                allow_external_blob_outside_bases=True,
            )
    except StorageError:
        # Lance deleted its files, and hides what the rows raised behind a text.
        incoming.raise_own_failure()
        raise
    _check_written(address, written, settings)
    ROWS_STAGED.reached()
    return written


def _check_written(
    address: DatasetAddress, written: Iterable[FragmentMetadata], settings: StorageSettings
) -> None:
    files = [staged_file(fragment) for fragment in written]
    store = objects_at(address.root, settings)
    try:
        check_files(address, (data_file(file.path, file.size_bytes) for file in files), store)
    except StorageError:
        discard(address, files, settings)
        raise


def staged_file(fragment: FragmentMetadata) -> StagedFile:
    """Describe a fragment that Lance wrote and nobody committed."""
    [file] = fragment.files
    text = json.dumps(fragment.to_json(), separators=(",", ":"))
    # Lance's path is a text of a class of its own, which does not pickle.
    return StagedFile(str(file.path), text, fragment.physical_rows, file.file_size_bytes or 0)


@contextmanager
def leftovers_told() -> Iterator[None]:
    """Warn of files that no version names and that stay: what is being reported matters more."""
    try:
        yield
    except StorageError as error:
        # Of who deletes, the caller's caller is told: in between are two frames of the context.
        warnings.warn(f"files that no version names stayed behind: {error}", stacklevel=4)


def discard(
    address: DatasetAddress, files: Iterable[StagedFile], settings: StorageSettings
) -> None:
    """Delete staged files and the blobs beside them; what is missing is fine."""
    store = objects_at(address.root, settings)
    for file in files:
        forget_rows(address.uri, file.path)
        path = join(address.uri, "data", file.path)
        store.delete(path)
        store.delete_below(path.removesuffix(".lance"))


def open_staged(
    address: DatasetAddress, files: Sequence[StagedFile], settings: StorageSettings
) -> PinnedDataset:
    """Open staged files as a dataset; file number n is its fragment n."""
    return open_fragments(address, [file.fragment for file in files], settings)


def read_staged(
    address: DatasetAddress,
    files: Sequence[StagedFile],
    columns: Sequence[str],
    settings: StorageSettings,
    *,
    blobs: bool = False,
    where: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Stream chosen columns of staged files, in the order of the files and their rows.

    Blob columns come as Lance's descriptors, or with `blobs` as they were given. `where` is a
    condition of our own on the rows.
    """
    if not files:
        return
    paths = [file.path for file in files]
    if where is None and (known := kept_rows(address.uri, paths, columns)) is not None:
        yield from known.to_batches(_BATCH_ROWS)
        return
    dataset, numbers = open_staged(address, files, settings), range(len(files))
    scan: dict[str, Any] = {
        "io_buffer_size": _IO_BUFFER_BYTES,
        "batch_readahead": _BATCHES_AHEAD,
        "filter": where,
    }
    if blobs:
        yield from stored_batches(dataset, numbers, columns, zeros_are_null=False, **scan)
    else:
        yield from dataset.batches(numbers, columns, batch_size=_BATCH_ROWS, **scan)


def create_dataset(
    address: DatasetAddress, schema: pa.Schema, settings: StorageSettings
) -> LandedVersion:
    """Create an empty dataset, version 1; `DatasetExistsError` when there is one."""
    from lance import LanceDataset, LanceOperation, Transaction

    uuid = str(uuid4())
    create = Transaction(read_version=0, operation=LanceOperation.Overwrite(schema, []), uuid=uuid)
    try:
        with lance_errors(address.uri):
            LanceDataset.commit(
                address.uri,
                create,
                storage_options=settings.for_lance(address.uri),
                max_retries=0,
                enable_stable_row_ids=True,
                enable_v2_manifest_paths=True,
            )
    except StorageError as error:
        # Lance has several words for losing this race; what is there now is what counts.
        found = transaction_id(address, 1, settings)
        if found is None and probe_version(address, settings) is None:
            raise
        if found != uuid:
            raise DatasetExistsError(address.uri) from error
    return landed_version(address, 1, settings)


class _Incoming:
    """The rows on their way into Lance, in portions that suit it.

    Lance pays for every batch, and looks at the size of a file only between batches. It also hides
    whatever the rows raise behind a text, so that is kept here.
    """

    def __init__(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, tally: Tally | None
    ) -> None:
        self._batches = batches
        self._schema = schema
        self._tally = tally
        self._failure: BaseException | None = None

    def portions(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._portions()
        except BaseException as error:
            self._failure = error
            raise

    def raise_own_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _portions(self) -> Iterator[pa.RecordBatch]:
        gathered: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self._batches:
            gathered.append(batch if batch.schema.equals(self._schema) else self._cast(batch))
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _PORTION_ROWS or size >= _PORTION_BYTES:
                yield from self._cut(gathered, rows, size)
                gathered, rows, size = [], 0, 0
        yield from self._cut(gathered, rows, size)

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(self._schema.names).cast(self._schema)

    def _cut(self, batches: list[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches, self._schema)
        by_size = max(1, rows * _PORTION_BYTES // max(1, size))
        at_most = min(_PORTION_ROWS, by_size)
        for start in range(0, rows, at_most):
            # Few batches are large, and then nothing is copied: a slice of one is a view.
            for portion in table.slice(start, at_most).combine_chunks().to_batches():
                if self._tally is not None:
                    self._tally.note(portion)
                yield portion


def as_fragments(files: Iterable[StagedFile]) -> list[Any]:
    """Return what Lance takes in a transaction."""
    from lance import FragmentMetadata

    return [FragmentMetadata.from_json(file.fragment) for file in files]
