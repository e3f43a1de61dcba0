"""Files that may not be read: an honest denial by the system, also where tests run as root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def denied(path: Path) -> Iterator[None]:
    """Make a path unreadable, also for root, who then is somebody else for a while."""
    mode = path.stat().st_mode
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        path.chmod(mode)
