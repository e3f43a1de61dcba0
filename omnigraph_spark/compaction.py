"""Keeping `__manifest` small: what a read and a publish cost follows its fragments, not its rows.

Every publish adds one fragment. Rewriting them changes no row, makes no commit and takes nothing
from readers of older versions, so a compaction that fails or loses a race is simply left to the
next publisher.
"""

from __future__ import annotations

from contextlib import suppress

from omnigraph_spark.errors import StorageError
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.names import MAIN
from omnigraph_spark.storage.manifest_writer import Landed, compact_fragments

#: About as many as publishes between two compactions. A publish takes 13 ms with 16 fragments and
#: 33 ms with 107; rewriting 50 takes about as long as one publish.
FRAGMENTS_KEPT = 50


def compact_manifest(manifest: Manifest, branch: str = MAIN) -> bool:
    """Rewrite the manifest of a branch into few fragments; False when a publish came between."""
    version = manifest.newest(branch).number
    return isinstance(
        compact_fragments(manifest.address(branch), version, manifest.settings), Landed
    )


def compact_when_due(manifest: Manifest, branch: str, published: Landed) -> None:
    """Compact after a publish once enough fragments came together; never fails that publish."""
    if published.fragments < FRAGMENTS_KEPT:
        return
    with suppress(StorageError):
        compact_fragments(manifest.address(branch), published.version, manifest.settings)
