"""Files that a version is about to name, looked at before it does: none may have lost its end.

Lance does not notice when the last write to a file on a local disk fails: a disk that is full for a
moment, a quota, a bad block. It gives the short file its name and commits, and from then on the
version cannot be read; a short file of the manifest's takes the whole graph with it. Objects of S3
are there whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.appended import Beginnings
from omnigraph_spark.storage.datasets import DatasetAddress, version_file
from omnigraph_spark.storage.local_objects import LocalObjects
from omnigraph_spark.storage.objects import ObjectStore
from omnigraph_spark.storage.protobuf import fields_of, number_of
from omnigraph_spark.storage.uri import join

# A Lance manifest ends with the place of its message, two numbers and a magic word.
_FOOTER_BYTES, _PLACE_BYTES, _LENGTH_BYTES = 16, 8, 4
# Lance's protobuf: Manifest.fragments, .index_section (a place), .transaction_file.
_FRAGMENTS, _INDEX_SECTION, _TRANSACTION = 2, 6, 12
# DataFragment.id, .files, .deletion_file.
_ID, _FILES, _DELETIONS = 1, 2, 3
# DataFile.path, .file_size_bytes, .base_id.
_PATH, _SIZE, _FILE_BASE = 1, 6, 7
# DeletionFile.file_type, .read_version, .id, .base_id.
_TYPE, _READ_VERSION, _DELETION_ID, _DELETION_BASE = 1, 2, 3, 7
# IndexSection.indices; IndexMetadata.uuid (with its one field), .base_id, .files; IndexFile.path.
_INDICES, _UUID, _INDEX_BASE, _INDEX_FILES = 1, 1, 9, 10
#: The kind of a file of deletions that is one of Arrow's.
_ARRAY = 0
#: The last bytes of a file of Lance's, and of one of Arrow's.
_LANCE, _ARROW = b"LANC", b"ARROW1"
_beginnings = Beginnings()


@dataclass(frozen=True)
class Named:
    """A file that a version names, below the dataset's folder: its size if known, its last bytes.

    Every file has at least one byte.
    """

    path: str
    ending: bytes = b""
    size_bytes: int = 0


def check_whole(
    address: DatasetAddress, base_version: int, staged: str, store: ObjectStore
) -> None:
    """Refuse a staged manifest that names a new file whose end is missing; `StorageError`."""
    if not isinstance(store, LocalObjects):
        return
    known = store.read(version_file(address, base_version)) or b""
    manifest = store.read(staged) or b""
    messages = _message(manifest), _message(known)
    shared = _beginnings.shared(address.uri, *messages)
    check_files(address, new_files(manifest, known, shared), store)
    _beginnings.keep(address.uri, messages[0], shared)


def data_file(path: str, size_bytes: int) -> Named:
    """Describe a file of rows by its path below the folder of data and its size, 0 if unknown."""
    return Named(f"data/{path}", _LANCE, size_bytes)


def check_files(address: DatasetAddress, files: Iterable[Named], store: ObjectStore) -> None:
    """Raise a `StorageError` for the first of these files whose end is missing."""
    if not isinstance(store, LocalObjects):
        return
    for file in files:
        place = join(address.uri, file.path)
        size, ending = store.ending(place, len(file.ending))
        if size == 0 or ending != file.ending or size != (file.size_bytes or size):
            detail = "its end was not written; is the disk full?"
            raise StorageError("permanent", place, detail)


def new_files(manifest: bytes, known: bytes, shared: int = 0) -> set[Named]:
    """Return the files that a Lance manifest names and another one does not.

    Files of parent branches, which were there before, are left out. So many bytes as are `shared`
    both messages begin with, up to the end of a field.
    """
    ours, before = set(_parts(manifest, shared)), set(_parts(known, shared))
    # Nearly all is described in the same words, and need not be taken apart.
    return set(_files(ours - before)) - set(_files(before - ours))


def _files(parts: Iterable[tuple[int, bytes]]) -> Iterator[Named]:
    for kind, part in parts:
        if kind == _TRANSACTION:
            yield Named(f"_transactions/{part.decode()}")
        elif kind == _FRAGMENTS:
            yield from _files_of_fragment(part)
        else:
            yield from _files_of_index(part)


def _message(manifest: bytes) -> bytes:
    if len(manifest) < _FOOTER_BYTES:
        return b""
    place = manifest[-_FOOTER_BYTES:][:_PLACE_BYTES]
    return _delimited_at(manifest, int.from_bytes(place, "little"))


def _delimited_at(content: bytes, at: int) -> bytes:
    start = at + _LENGTH_BYTES
    return content[start : start + int.from_bytes(content[at:start], "little")]


def _parts(manifest: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield what describes files: fragments, segments of indexes, the name of the transaction."""
    for number, value, raw in fields_of(_message(manifest)[start:]):
        if number in (_FRAGMENTS, _TRANSACTION) and value is not None:
            yield number, value
        elif number == _INDEX_SECTION:
            section = _delimited_at(manifest, number_of(raw))
            for inner, described, _ in fields_of(section):
                if inner == _INDICES and described is not None:
                    yield _INDEX_SECTION, described


def _files_of_fragment(fragment: bytes) -> Iterator[Named]:
    number = _numbers(fragment).get(_ID, 0)
    for kind, value, _ in fields_of(fragment):
        if value is None:
            continue
        facts = _numbers(value)
        if kind == _FILES and _FILE_BASE not in facts:
            yield data_file(_path(value), facts.get(_SIZE, 0))
        elif kind == _DELETIONS and _DELETION_BASE not in facts:
            name = f"{number}-{facts.get(_READ_VERSION, 0)}-{facts.get(_DELETION_ID, 0)}"
            if facts.get(_TYPE, 0) == _ARRAY:
                yield Named(f"_deletions/{name}.arrow", _ARROW)
            else:
                yield Named(f"_deletions/{name}.bin")


def _files_of_index(segment: bytes) -> Iterator[Named]:
    if _INDEX_BASE in _numbers(segment):
        return
    texts = [(number, value) for number, value, _ in fields_of(segment) if value is not None]
    [uuid] = [next(iter(fields_of(value)))[1] for number, value in texts if number == _UUID]
    for number, value in texts:
        if number == _INDEX_FILES and uuid is not None:
            path = _path(value)
            ending = _LANCE if path.endswith(".lance") else b""
            yield Named(f"_indices/{UUID(bytes=uuid)}/{path}", ending)


def _path(message: bytes) -> str:
    [path] = [text for number, text, _ in fields_of(message) if number == _PATH and text]
    return path.decode()


def _numbers(message: bytes) -> dict[int, int]:
    """Return the fields of a message that are numbers."""
    return {number: number_of(raw) for number, value, raw in fields_of(message) if value is None}
