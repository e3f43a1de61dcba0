"""Files that the system denies: honestly, also where tests run as root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def denied(*paths: Path, mode: int = 0) -> Iterator[None]:
    """Give paths a mode for a while, which binds root as well: meanwhile root is somebody else."""
    before = {path: path.stat().st_mode for path in paths}
    for path in paths:
        path.chmod(mode)
    root = os.geteuid() == 0
    if root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path in paths:
            path.chmod(before[path])
