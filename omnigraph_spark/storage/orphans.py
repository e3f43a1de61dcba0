"""Files of a dataset that nothing names: what a writer staged that died before its sidecar.

Only a file that has lain there for a day counts. As with a lease, what has not changed for longer
than its owner works has no owner; but nobody can watch for that long, so here the times that the
store keeps are believed, and a day is far above any difference between clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph_spark import clock
from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.branches import list_branches
from omnigraph_spark.storage.datasets import (
    DatasetAddress,
    PinnedDataset,
    open_dataset,
    version_file,
)
from omnigraph_spark.storage.objects import StoredFile, objects_at
from omnigraph_spark.storage.probing import version_of
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import NOT_FOUND
from omnigraph_spark.storage.uri import join

#: Longer than a write stages rows before it commits them.
ORPHAN_SECONDS = 24 * 3600.0
#: Versions of one line that are opened to find who names a file; each is a request or two.
_VERSIONS_OPENED = 100
_DATA, _DELETIONS = "data", "_deletions"
#: Where Spark's tasks leave notes of what they staged, until the job ends.
_NOTES = "_staging-"


@dataclass(frozen=True)
class OrphanFiles:
    """What lies in one folder of a dataset, and is named by nothing."""

    folder: str
    files: int
    size_bytes: int


def find_orphan_files(
    address: DatasetAddress, pinned: PinnedDataset, settings: StorageSettings
) -> list[OrphanFiles]:
    """Find the files of one line of a dataset that no version names, by folder.

    Costs three listings where the pinned version names all files; else older versions are opened,
    newest first, until every file is explained. Files older than the oldest of those are not
    spoken of: a version that names them may be further back.
    """
    store = objects_at(address.root, settings)
    listed: dict[str, StoredFile] = {}
    found: list[OrphanFiles] = []
    oldest = clock.now_us() / 1_000_000 - ORPHAN_SECONDS
    for folder in store.folders(address.uri):
        notes = folder.startswith(_NOTES)
        if not notes and folder not in (_DATA, _DELETIONS):
            continue
        files = list(store.files(join(address.uri, folder)))
        old = [file for file in files if file.modified_s <= oldest]
        if notes and old:
            found.append(_sum(folder, old))
        elif not notes:
            listed |= {f"{folder}/{file.name}": file for file in old}
    unnamed = _without(listed, named_by(pinned))
    if unnamed:
        lines = [address, *(line for line in _lines(address, settings) if line != address)]
        for line in lines:
            unnamed = _without_named(unnamed, line, settings)
    for folder in (_DATA, _DELETIONS):
        left = [file for name, file in unnamed.items() if name.startswith(f"{folder}/")]
        found += [_sum(folder, left)] if left else []
    return found


def named_by(version: PinnedDataset) -> set[str]:
    """Return what files a version names, below its dataset; blobs lie beside their data file."""
    names: set[str] = set()
    for fragment in version.contents():
        names |= {_stem(f"{_DATA}/{path}") for path, _ in fragment.files}
        if fragment.deletions is not None:
            names.add(_stem(fragment.deletions))
    return names


def _without_named(
    unnamed: dict[str, StoredFile], line: DatasetAddress, settings: StorageSettings
) -> dict[str, StoredFile]:
    """Take away what versions of a line name, and what only versions not opened could name."""
    versions = _versions(line, settings)
    for number, _ in versions[:_VERSIONS_OPENED]:
        if not unnamed:
            return {}
        try:
            unnamed = _without(unnamed, named_by(open_dataset(line, number, settings)))
        except StorageError as error:
            # Reclaimed since it was listed.
            if error.kind != NOT_FOUND:
                raise
    if len(versions) > _VERSIONS_OPENED:
        # Rows are staged before their version is made; a copy of a graph may mix up a day.
        since = versions[_VERSIONS_OPENED - 1][1] + ORPHAN_SECONDS
        unnamed = {name: file for name, file in unnamed.items() if file.modified_s > since}
    return unnamed


def _versions(line: DatasetAddress, settings: StorageSettings) -> list[tuple[int, float]]:
    """List the versions of a line and when each was made, newest first."""
    folder = version_file(line, 1).rpartition("/")[0]
    files = objects_at(line.root, settings).files(folder)
    known = ((version_of(file.name), file.modified_s) for file in files)
    return sorted(((n, made) for n, made in known if n is not None), reverse=True)


def _lines(address: DatasetAddress, settings: StorageSettings) -> Iterator[DatasetAddress]:
    """Every line of a dataset: a branch names files of the line it began on."""
    trunk = DatasetAddress(address.root, address.path)
    yield trunk
    for name in list_branches(trunk, settings):
        yield DatasetAddress(address.root, address.path, name)


def _without(files: dict[str, StoredFile], named: set[str]) -> dict[str, StoredFile]:
    return {name: file for name, file in files.items() if _stem(name) not in named}


def _stem(name: str) -> str:
    """Cut a name to what a data file and its blobs have in common: `data/0123` of both."""
    folder, _, file = name.partition("/")
    return f"{folder}/{file.partition('/')[0].partition('.')[0]}"


def _sum(folder: str, files: Iterable[StoredFile]) -> OrphanFiles:
    sizes = [file.size_bytes for file in files]
    return OrphanFiles(folder, len(sizes), sum(sizes))
