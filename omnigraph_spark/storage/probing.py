"""Where a dataset lies, and which versions it has: a listing tells, nothing is opened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import join

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


def version_file(address: DatasetAddress, version: int) -> str:
    """Return the address of a version's Lance manifest; newer versions sort first."""
    return join(address.uri, "_versions", f"{_LARGEST - version:020d}.manifest")


def version_of(name: str) -> int | None:
    """Return the version whose manifest has this name; None for any other file."""
    found = _VERSION_FILE.match(name)
    return None if found is None else _LARGEST - int(found[1])


def probe_version(address: DatasetAddress, settings: StorageSettings) -> VersionTag | None:
    """Return the newest version with one listing request, or None when there is no dataset."""
    newest = probe_versions(address, settings, 1)
    return newest[0] if newest else None


def probe_versions(
    address: DatasetAddress, settings: StorageSettings, count: int
) -> list[VersionTag]:
    """Return the newest versions, newest first; a few cost one listing request."""
    store = objects_at(address.root, settings)
    # A handful is enough: only staged manifests of a commit in flight can sort before the newest.
    listed = store.listing(join(address.uri, "_versions"), page_size=8)
    found = (
        VersionTag(number, e_tag)
        for name, e_tag in listed
        if (number := version_of(name)) is not None
    )
    return list(islice(found, count))


def has_version(address: DatasetAddress, version: int, settings: StorageSettings) -> bool:
    """Tell whether the file of a version is there, whatever it holds; lists all versions."""
    store = objects_at(address.root, settings)
    wanted = version_file(address, version).rpartition("/")[2]
    return any(name == wanted for name, _ in store.listing(join(address.uri, "_versions")))
