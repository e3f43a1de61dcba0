"""Branches of a graph that was moved: their manifests name the old place of the parent dataset.

Lance stores, in every branch manifest, the address of the parent dataset as its writer spelled it.
After a move (or through another spelling: relative, ``file://``) the files are still where they
belong, below the same dataset. So the manifest is rewritten in memory and nothing on disk changes.
A copy reads its own files too, not those of the graph it was copied from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from omnigraph_spark.storage.protobuf import delimited, fields_of

# Lance's protobuf: Manifest.base_paths and, inside an entry, BasePath.path.
_BASE_PATHS_FIELD = 18
_PATH_FIELD = 4


def resolve_base(base: str, dataset_root: str, dataset_path: str) -> str:
    """Return where a base path lies now, given where its dataset lies now.

    >>> resolve_base("/old/g/nodes/40d7/tree/dev", "/new/g/nodes/40d7", "nodes/40d7")
    '/new/g/nodes/40d7/tree/dev'
    """
    if base == dataset_root or base.startswith(f"{dataset_root}/tree/"):
        return base
    # The first place that fits: a branch may be named like the dataset, a folder above it hardly.
    found = re.search(rf"/{re.escape(dataset_path)}(/tree/.+?)?/*\Z", f"/{base}")
    # A base elsewhere is none of this dataset's folders: leave it to Lance.
    return dataset_root + (found[1] or "") if found else base


def rebase_manifest(manifest: bytes, moved: Mapping[str, str]) -> bytes:
    """Replace base paths in a serialized Lance manifest; everything else stays byte for byte."""
    rebased = bytearray()
    for number, value, raw in fields_of(manifest):
        if number == _BASE_PATHS_FIELD and value is not None:
            raw = delimited(number, _rebase_entry(value, moved))
        rebased += raw
    return bytes(rebased)


def _rebase_entry(entry: bytes, moved: Mapping[str, str]) -> bytes:
    rebased = bytearray()
    for number, value, raw in fields_of(entry):
        if number == _PATH_FIELD and value is not None:
            path = value.decode()
            raw = delimited(number, moved.get(path, path).encode())
        rebased += raw
    return bytes(rebased)
