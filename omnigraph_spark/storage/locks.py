"""One writer of ours at a time per branch: an advisory lock beside the sidecars.

The fence and the manifest's compare-and-set keep a graph right without it; the lock saves writers
that share a machine from losing to each other over and over. On a local disk the kernel releases it
when its process ends, however it ends, so a held lock means a live writer. The engine ignores the
file. On object stores it is a lease (see `leases`), which only time takes from a dead writer.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from urllib.parse import quote

from omnigraph_spark.errors import ConflictError, StorageError
from omnigraph_spark.storage.leases import leased, waited_in_vain
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import is_s3, join

#: How long to wait for another writer's effect window, which takes milliseconds per type; longer
#: only where a large merge is overtaken and looks again, or is the first write to a branch.
WAIT_SECONDS = 120.0
_FOLDER = "__recovery"
_POLL_SECONDS = 0.005
#: The open files of locks that this process holds or waits for.
_open_files: set[int] = set()


def _close_in_child() -> None:
    """Leave the locks of a process to it: one lasts while any process has the file it opened."""
    for descriptor in _open_files:
        os.close(descriptor)
    _open_files.clear()


os.register_at_fork(after_in_child=_close_in_child)


def lock_address(root: str, branch: str) -> str:
    """Return where the lock of a branch lies."""
    return join(root, _FOLDER, f"{quote(branch, safe='')}.lock")


@contextmanager
def writer_lock(
    root: str, branch: str, settings: StorageSettings, wait_seconds: float = WAIT_SECONDS
) -> Iterator[None]:
    """Hold the lock of a branch; a `ConflictError` says that somebody else kept it too long."""
    path = lock_address(root, branch)
    if is_s3(root):
        with leased(partial(objects_at, root, settings), path, wait_seconds):
            yield
        return
    with _failures(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = _open(path)
    _open_files.add(descriptor)
    try:
        with _failures(path):
            _acquire(descriptor, branch, wait_seconds)
        yield
    finally:
        _release(descriptor)


class Turn(ExitStack):
    """The lock of a branch, kept to the end once it is taken.

    Whoever finds itself overtaken would else line up again, behind all others that wait, and wait
    twice for each commit.
    """

    def __init__(self, lock: AbstractContextManager[None]) -> None:
        super().__init__()
        self._lock: AbstractContextManager[None] | None = lock

    def take(self) -> None:
        """Wait for the lock, unless it is held already."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            self.enter_context(lock)


def _open(path: str) -> int:
    """Open the file of a lock, which is never written: the lock is the kernel's."""
    try:
        # For writing, which locks of network file systems ask for.
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        # Another user made it, who shares the folder and not what is in it.
        return os.open(path, os.O_RDONLY)


def _release(descriptor: int) -> None:
    if descriptor not in _open_files:
        # A child that was forked while its parent held the lock.
        return
    _open_files.remove(descriptor)
    # Unlocked and not only closed: a child that was made past Python may have the file as well.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _acquire(descriptor: int, branch: str, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while not _try(descriptor):
        if time.monotonic() > deadline:
            raise ConflictError(waited_in_vain(f"branch {branch!r}", wait_seconds))
        # Waiting for a lock, with jitter so that many waiters do not move in step.
        time.sleep(_POLL_SECONDS * (1 + random.random()))


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Some network file systems have no locks: then writers that lose start again.
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            raise
    return True


@contextmanager
def _failures(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = "permission" if isinstance(error, PermissionError) else "permanent"
        raise StorageError(kind, path, error.strerror or type(error).__name__) from error
