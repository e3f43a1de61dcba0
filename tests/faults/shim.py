"""The counter of durable writes (`cuts.c`): built where there is a compiler, armed in a process."""

from __future__ import annotations

import ctypes
import errno
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import lru_cache
from pathlib import Path

_SOURCE = Path(__file__).with_name("cuts.c")


class Kind(IntFlag):
    """What a system call changes; the numbers are those of `cuts.c`."""

    CREATE = 1
    WRITE = 2
    LINK = 4
    RENAME = 8
    UNLINK = 16
    FOLDER = 32


#: Every change there is.
ALL = Kind(63)


class How(IntEnum):
    """What happens at a count; the numbers are those of `cuts.c`."""

    COUNT = 0
    KILL = 1
    FAIL_ONCE = 2
    FAIL_ON = 3


@dataclass(frozen=True)
class Cut:
    """Where a process ends (`KILL`: after that many changes) or fails (`FAIL_…`: the next one)."""

    how: How
    at: int = 0
    error: int = errno.ENOSPC
    kinds: Kind = ALL


@dataclass(frozen=True)
class Event:
    """One change to a file, with paths below the root."""

    name: str
    size: int
    path: str
    source: str = ""

    @classmethod
    def parse(cls, line: str) -> Event:
        name, size, path, source = line.split("\t")
        return cls(name, int(size), path, source)

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


@lru_cache(maxsize=1)
def build() -> Path | None:
    """Compile the counter; None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = Path(tempfile.mkdtemp(prefix="og-cuts-")) / "cuts.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True)
    return library


def arm(library: Path, root: str, cut: Cut, log_file: int) -> None:
    """Count this process's changes below a root from now on, and act at the cut."""
    counter = ctypes.CDLL(str(library))
    failed = counter.cuts_arm(
        root.encode(),
        int(cut.how),
        ctypes.c_long(cut.at),
        int(cut.error),
        int(cut.kinds),
        log_file,
    )
    if failed:
        raise OSError(failed, "this kernel does not let a process watch its own system calls")
