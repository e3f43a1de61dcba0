"""Which indexes of a version can be believed, and the mark that this package leaves on its own.

A row keeps its id when it is rewritten, so an index that is carried on from before still holds the
old value for it. Lance masks that entry only while the row's new fragment is not covered. Merging
the new fragment in without taking the old entry out makes the index answer with rows that do not
match, and hide rows that do: Lance 7, and with it the engine's `optimize`, does so. An index is
believed when nothing it covers was ever rewritten, or when it says that it was built right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.objects import ObjectStore
from omnigraph_spark.storage.protobuf import delimited, fields_of, number_of

if TYPE_CHECKING:
    from lance import LanceDataset

#: A field of an index's details that Lance does not know and keeps. It holds the id of the segment,
#: so that details copied to another segment prove nothing.
_MARK_FIELD = 1808
# Lance's protobuf: Manifest.index_section; IndexSection.indices; of IndexMetadata the id (with its
# one field) and the details, of which the first field is a name and the second the content.
_INDEX_SECTION = 6
_INDICES = 1
_UUID, _DETAILS = 1, 6
_FIRST, _SECOND = 1, 2
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class StoredSegment:
    """One segment of an index as the manifest file spells it."""

    uuid: str
    details_type: str
    details: bytes

    @property
    def is_marked(self) -> bool:
        """Whether this package built exactly this segment."""
        mark = UUID(self.uuid).bytes
        return any(n == _MARK_FIELD and v == mark for n, v, _ in fields_of(self.details))


def mark_details(details: bytes, uuid: str) -> bytes:
    """Return the details of a segment, marked as built right; an older mark goes."""
    own = b"".join(raw for number, _, raw in fields_of(details) if number != _MARK_FIELD)
    return own + delimited(_MARK_FIELD, UUID(uuid).bytes)


def read_segments(dataset: LanceDataset, file: str, store: ObjectStore) -> list[StoredSegment]:
    """Read the segments of all indexes of a version from its manifest file."""
    content = store.read(file)
    if content is None:
        raise StorageError("not_found", file, "the version was removed")
    at = None
    for number, _, raw in fields_of(dataset._ds.serialized_manifest()):
        if number == _INDEX_SECTION:
            at = number_of(raw)
    if at is None:
        return []
    size = int.from_bytes(content[at : at + _LENGTH_BYTES], "little")
    section = content[at + _LENGTH_BYTES : at + _LENGTH_BYTES + size]
    return [_segment(value) for number, value in _parts(section) if number == _INDICES]


def own_segments(dataset: LanceDataset, file: str, store: ObjectStore) -> frozenset[str]:
    """Return the ids of the segments of a version that this package built."""
    return frozenset(each.uuid for each in read_segments(dataset, file, store) if each.is_marked)


def _segment(message: bytes) -> StoredSegment:
    parts = dict(_parts(message))
    details = dict(_parts(parts.get(_DETAILS, b"")))
    uuid = dict(_parts(parts[_UUID]))[_FIRST]
    name = details.get(_FIRST, b"").decode()
    return StoredSegment(str(UUID(bytes=uuid)), name, details.get(_SECOND, b""))


def _parts(message: bytes) -> Iterator[tuple[int, bytes]]:
    for number, value, _ in fields_of(message):
        if value is not None:
            yield number, value


def rewritten_fragments(dataset: LanceDataset) -> frozenset[int]:
    """Return the fragments that hold rows rewritten since they were made, from the manifest."""
    found = []
    for fragment in dataset.get_fragments():
        facts = fragment.metadata
        if facts.created_at_version_meta != facts.last_updated_at_version_meta:
            found.append(fragment.fragment_id)
    return frozenset(found)
