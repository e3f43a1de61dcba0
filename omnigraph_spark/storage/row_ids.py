"""Stable row ids of a branch that began empty, which Lance forgets.

A dataset has stable row ids when two flags of its Lance manifest say so. Lance derives the flags of
a new branch from its fragments: without any, the branch has none for good, and its rows cannot be
followed through updates. No call of Lance sets the flags later, so they are set in the first
manifest of the branch, while nobody uses it yet.
"""

from __future__ import annotations

import struct

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.datasets import DatasetAddress, version_file
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.protobuf import fields_of, number_of, scalar
from omnigraph_spark.storage.settings import StorageSettings

# Lance's protobuf: Manifest.fragments, .reader_feature_flags and .writer_feature_flags; the bit in
# both of the latter. A branch always has another flag too, so neither field is ever left out.
_FRAGMENTS = 2
_FLAGS = (9, 10)
_STABLE_ROW_IDS = 2
# The end of a Lance manifest: where its message begins, the version of the layout, a mark.
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_MARK = b"LANC"


def keep_stable_row_ids(address: DatasetAddress, version: int, settings: StorageSettings) -> None:
    """Give a version of a new branch stable row ids if it is empty; other versions are left alone.

    A version with fragments and without the flags began on one without: its rows have no ids.
    """
    store = objects_at(address.root, settings)
    file = version_file(address, version)
    content = store.read(file)
    if content is None:
        raise StorageError("permanent", file, "not there")
    flagged = _flagged(file, content)
    if flagged != content:
        store.write(file, flagged)


def _flagged(file: str, content: bytes) -> bytes:
    footer = content[-_FOOTER.size :]
    start, _, _, mark = _FOOTER.unpack(footer)
    (length,) = _LENGTH.unpack_from(content, start)
    begin = start + _LENGTH.size
    if mark != _MARK or begin + length + _FOOTER.size != len(content):
        raise StorageError("permanent", file, "not a Lance manifest of the known layout")
    fields = list(fields_of(content[begin : begin + length]))
    if any(number == _FRAGMENTS for number, _, _ in fields):
        return content
    message = b"".join(
        scalar(number, number_of(raw) | _STABLE_ROW_IDS) if number in _FLAGS else raw
        for number, _, raw in fields
    )
    return content[:start] + _LENGTH.pack(len(message)) + message + footer
