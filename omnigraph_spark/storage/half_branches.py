"""Half a branch of a dataset on an object store: watched for as long as a lease, then completed.

There no lock tells whether its maker lives. So nothing of it is deleted: folder and ref are stored
only where there is none, and whoever is second finds that out. A folder is used again only when it
holds exactly what the new branch would begin with.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

from omnigraph_spark.storage.branches import (
    RESERVATION,
    BranchFile,
    clone,
    finish_branch,
    read_branch,
    write_ref,
)
from omnigraph_spark.storage.datasets import DatasetAddress, probe_version, version_file
from omnigraph_spark.storage.leases import outlives_a_lease
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.protobuf import fields_of, number_of
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import join

# A Lance manifest ends with the place of its message, two numbers and a magic word.
_FOOTER_BYTES, _PLACE_BYTES, _LENGTH_BYTES = 16, 8, 4
# Lance's protobuf: Manifest.fragments; DataFragment.id, .files, .deletion_file; DataFile.path;
# DeletionFile.file_type, .read_version, .id.
_FRAGMENTS, _ID, _FILES, _DELETIONS, _PATH = 2, 1, 2, 3, 1
_DELETION_FACTS = (1, 2, 3)


def take_over(
    dataset: DatasetAddress,
    name: str,
    from_branch: str | None,
    from_version: int,
    settings: StorageSettings,
) -> bool:
    """Complete half a branch that nobody is making any more, as one that begins at a version.

    False when somebody is, or when the half began elsewhere. `BranchExistsError` when another
    process was faster.
    """
    own = DatasetAddress(dataset.root, dataset.path, name)
    store = objects_at(dataset.root, settings)

    def traces() -> tuple[object, ...]:
        reserved = store.stat(join(own.uri, RESERVATION))
        return read_branch(dataset, name, settings), reserved, probe_version(own, settings)

    if not outlives_a_lease(traces):
        return False
    # The engine makes none; with it others see that somebody is at work, and `finish_branch` too.
    store.put_new(join(own.uri, RESERVATION), uuid4().hex.encode())
    head = probe_version(own, settings)
    if head is None:
        clone(dataset, own, from_branch, from_version, settings)
    elif head.number != from_version:
        return False
    else:
        source = DatasetAddress(dataset.root, dataset.path, from_branch)
        ours, theirs = (store.read(version_file(at, from_version)) or b"" for at in (own, source))
        if _fragments(ours) != _fragments(theirs):
            return False
        if not write_ref(dataset, own, from_branch, from_version, settings):
            return False
    made = BranchFile(name, from_branch, from_version, 0)
    finish_branch(dataset, made, settings)
    return True


def _fragments(manifest: bytes) -> set[tuple[object, ...]]:
    """Return the fragments of a Lance manifest: number, files and deletions, wherever they lie."""
    start = int.from_bytes(manifest[-_FOOTER_BYTES:][:_PLACE_BYTES], "little") + _LENGTH_BYTES
    length = int.from_bytes(manifest[start - _LENGTH_BYTES : start], "little")
    return {
        tuple(_parts(fragment))
        for number, fragment, _ in fields_of(manifest[start : start + length])
        if number == _FRAGMENTS and fragment is not None
    }


def _parts(fragment: bytes) -> Iterator[object]:
    for number, value, raw in fields_of(fragment):
        if number == _ID and value is None:
            yield number_of(raw)
        elif number == _FILES and value is not None:
            yield next(text for inner, text, _ in fields_of(value) if inner == _PATH)
        elif number == _DELETIONS and value is not None:
            facts = {inner: number_of(raw) for inner, text, raw in fields_of(value) if text is None}
            yield tuple(facts.get(fact, 0) for fact in _DELETION_FACTS)
