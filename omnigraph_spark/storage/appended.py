"""What a Lance manifest says beyond one that was taken apart before.

Most commits add a fragment behind those there are, so the manifest of the new version begins with
the same bytes as the old one. To take a thousand descriptions apart again takes as long as the
commit; to compare their bytes takes next to nothing. Equal bytes say the same, so nothing is taken
on trust.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_spark.storage.protobuf import fields_of, number_of

if TYPE_CHECKING:
    from lance import LanceDataset

#: Lance's protobuf: Manifest.fragments, DataFragment.id.
_FRAGMENTS, _ID = 2, 1
#: A beginning that is longer is not kept: about 16,000 fragments, of which `optimize` makes few.
_MOST_BYTES = 4 << 20
#: So many datasets of small commits, and then all anew.
_MOST_PLACES = 64


def manifest_message(handle: LanceDataset) -> bytes:
    """Return how Lance describes a version: the protobuf of its manifest."""
    return bytes(handle._ds.serialized_manifest())


def fragments_after(message: bytes, start: int) -> tuple[list[int], int]:
    """Return the fragments described from a field on, and where the last of them ends."""
    ids: list[int] = []
    at = end = start
    for number, value, raw in fields_of(message[start:]):
        at += len(raw)
        if number == _FRAGMENTS and value is not None:
            ids.append(_id(value))
            end = at
    return ids, end


def _id(fragment: bytes) -> int:
    found = (number_of(raw) for number, value, raw in fields_of(fragment) if number == _ID)
    # Protobuf leaves a zero out.
    return next(found, 0)


class Beginnings:
    """The bytes that manifests of datasets began with when they were last taken apart."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def shared(self, place: str, *messages: bytes) -> int:
        """Return how many bytes, up to the end of a field, messages of a dataset begin with."""
        begin = self._kept.get(place, b"")
        return len(begin) if all(message.startswith(begin) for message in messages) else 0

    def keep(self, place: str, message: bytes, start: int) -> None:
        """Keep the beginning up to the last fragment, given where to begin to look for it."""
        _, end = fragments_after(message, start)
        if end > _MOST_BYTES:
            return
        if len(self._kept) >= _MOST_PLACES:
            self._kept.clear()
        self._kept[place] = message[:end]
