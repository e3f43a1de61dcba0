"""Versions of a dataset as files: what is recorded of one, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.datasets import (
    DatasetAddress,
    open_dataset,
    probe_version,
    version_file,
)
from omnigraph_spark.storage.objects import Stat, objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import NOT_FOUND, lance_errors
from omnigraph_spark.storage.uri import is_s3, split_s3


@dataclass(frozen=True)
class LandedVersion:
    """A version that exists, with the facts of its Lance manifest that a graph records of it."""

    number: int
    #: Path in the object store, without a leading slash and, on S3, without the bucket.
    manifest_path: str
    manifest_size: int
    e_tag: str


def describe_version(address: DatasetAddress, version: int, facts: Stat) -> LandedVersion:
    """Say what a graph records of a version."""
    file = version_file(address, version)
    path = split_s3(file)[1] if is_s3(file) else file.lstrip("/")
    return LandedVersion(version, path, facts.size_bytes, facts.e_tag)


def landed_version(
    address: DatasetAddress, version: int, settings: StorageSettings
) -> LandedVersion:
    """Describe a version that exists."""
    file = version_file(address, version)
    found = objects_at(address.root, settings).stat(file)
    if found is None:
        raise StorageError(NOT_FOUND, file, f"there is no version {version}")
    return describe_version(address, version, found)


def files_since(address: DatasetAddress, version: int, settings: StorageSettings) -> set[str]:
    """Return the names of all data files of a version and those after it that are there still.

    Not only of the newest: what it no longer names, readers of an older one still read.
    """
    newest = probe_version(address, settings)
    files: set[str] = set()
    for number in range(version, 0 if newest is None else newest.number + 1):
        try:
            files |= open_dataset(address, number, settings).data_files()
        except StorageError as error:
            # Reclaimed: nobody reads it any more.
            if error.kind != NOT_FOUND:
                raise
    return files


def transaction_id(address: DatasetAddress, version: int, settings: StorageSettings) -> str | None:
    """Return the uuid of the transaction that made a version, None when there is no version.

    A version that does not say is not one of ours: it has the empty text.
    """
    import lance

    try:
        with lance_errors(address.uri):
            # Without the shared session: what it remembers may be of a branch that was deleted.
            found = lance.dataset(
                address.uri, version=version, storage_options=settings.for_lance(address.uri)
            )
            transaction = found.read_transaction(version)
            return "" if transaction is None else str(transaction.uuid)
    except StorageError as error:
        if error.kind == NOT_FOUND:
            return None
        raise
