"""The one Lance session of a process, and how much it may keep.

Lance runs threads that do not survive a fork, so a child makes a session of its own.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance import Session

#: What Lance may keep of indexes it searched and of manifests it read. By default it is 6 GiB and
#: 1 GiB: more than a worker of Spark has, and a process that commits for hours gets there, because
#: every version has a manifest of its own.
_INDEX_BYTES_KEPT = 512 << 20
_METADATA_BYTES_KEPT = 128 << 20


@cache
def lance_session() -> Session:
    """Return the session that all handles share: metadata read once is not read again."""
    import lance

    return lance.Session(
        index_cache_size_bytes=_INDEX_BYTES_KEPT, metadata_cache_size_bytes=_METADATA_BYTES_KEPT
    )


os.register_at_fork(after_in_child=lance_session.cache_clear)
