"""Control files: small objects read, listed and written without Lance, on local disk and on S3.

Schema files, sidecars, branch refs and the listing of dataset versions go through here. Data never
does. Two writes decide races: `put_new` and `place` store an object only where there is none, and
say truthfully whose is there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol

from omnigraph_spark.storage.credentials import Keys
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import is_s3

#: The kind of a `StorageError` of a write that may have happened all the same: an answer was lost.
#: Any other kind means that it did not.
IN_DOUBT = "unknown"
#: Kinds of failures that a server decides at once: what it refused did not happen.
REFUSED = ("permission", "configuration")


class Listed(NamedTuple):
    """One object of a listing: its name below the listed folder, and a tag of its content."""

    name: str
    e_tag: str


class Stat(NamedTuple):
    """Size and tag of one object, the tag spelled as the engine records it."""

    size_bytes: int
    e_tag: str


class StoredFile(NamedTuple):
    """One object at any depth below a listed folder, and when the store says it was written."""

    name: str
    size_bytes: int
    modified_s: float


class ObjectStore(Protocol):
    """What both kinds of storage offer; addresses are canonical (see `uri`)."""

    def read(self, address: str) -> bytes | None:
        """Return the object's bytes, or None when there is none."""

    def stat(self, address: str) -> Stat | None:
        """Return size and tag of an object, or None when there is none."""

    def listing(self, folder: str, page_size: int = 1000) -> Iterator[Listed]:
        """Yield the objects directly in a folder by name in byte order; a missing one is empty.

        Pages are fetched as they are consumed: whoever wants the first names asks for small pages.
        """

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder, in byte order."""

    def files(self, folder: str) -> Iterator[StoredFile]:
        """Yield all objects below a folder at any depth, in no order; a missing one is empty."""

    def exists(self, folder: str) -> bool:
        """Tell whether anything lies at or below a folder."""

    def write(self, address: str, data: bytes) -> None:
        """Store an object in place of what was there; a reader gets the one or the other, whole."""

    def put_new(self, address: str, data: bytes) -> bool:
        """Store an object where there is none; False when somebody else's is there."""

    def place(self, source: str, target: str) -> Stat | None:
        """Store an object under a second address where there is none; None when one is there."""

    def delete(self, address: str) -> None:
        """Delete an object; a missing one is fine."""

    def delete_below(self, folder: str, keep: Collection[str] = ()) -> None:
        """Delete all objects below a folder, but none below the folders to keep."""


@lru_cache(maxsize=16)
def _s3_objects(settings: StorageSettings, keys: Keys | None) -> ObjectStore:
    from omnigraph_spark.storage.s3_objects import S3Objects

    return S3Objects(settings, keys)


# Two processes on one connection read each other's answers.
os.register_at_fork(after_in_child=_s3_objects.cache_clear)


def objects_at(address: str, settings: StorageSettings) -> ObjectStore:
    """Return the store that holds an address; S3 clients are shared within the process.

    One that signs with keys that expire is for now, not to be kept.
    """
    from omnigraph_spark.storage.local_objects import LocalObjects

    if not is_s3(address):
        return LocalObjects()
    return _s3_objects(settings, settings.keys(address))
