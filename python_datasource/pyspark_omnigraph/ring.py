"""Memory that a worker shares with the JVM: batches are written here once and read in place.

Between the two runs a socket, through which a batch is copied five times; a place in this memory is
written once and only named there. It has no name in any file system (`memfd_create`): the JVM opens
it through `/proc`, nobody else's process may, no container's small `/dev/shm` limits it, and the
kernel frees it with the last process, however that ends.

Nothing depends on it. Until the JVM has marked it as mapped, and whenever no place is free in time,
batches go through the socket whole. A worker has one ring for each reader at work, used again by
the next: fresh memory costs more than the copy into it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

#: Room for batches. Places are taken from the start, so that a reader as fast as the writer stays
#: within what a processor's cache holds.
ROOM_BYTES = 32 << 20
#: A larger batch is cut into parts: some must fit beside each other, or nobody works meanwhile.
PLACE_BYTES = ROOM_BYTES // 4
#: Batches that may lie here at once.
PLACES = 64
#: How long a full ring is waited for. A reader that was cancelled never frees a place; the writer
#: notices that when it sends the batch through the socket instead.
PATIENCE_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0001, 0.002

# One cell of the header says that the JVM has mapped it, the others which places are in use; each
# fills a line of the cache, so that the two processes do not take it from each other.
_CELL = 64
_HEADER = _CELL * (1 + PLACES)
_PAGE = mmap.PAGESIZE


class Place(NamedTuple):
    """Where a batch lies: which mark frees it, and its bytes."""

    number: int
    offset: int
    length: int


class Ring:
    """Shared memory with one writer, this process, and one reader at a time, the JVM."""

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        """Make the memory; an `OSError` or `AttributeError` says that there is none here."""
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self._file = os.memfd_create("omnigraph-ring", flags)
        self._size = _up(_HEADER) + room_bytes
        try:
            os.ftruncate(self._file, self._size)
            # Cut short, it would end the process that reads it.
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, seals)
            self._memory = mmap.mmap(self._file, self._size)
        except OSError:
            os.close(self._file)
            raise
        token = secrets.randbits(64)
        self._cells = memoryview(self._memory)[:_HEADER].cast("Q")
        self._cells[1] = token
        self._taken: dict[int, tuple[int, int]] = {}
        #: How the JVM finds it; the token tells it from a later process of the same number.
        self.address = f"{token:x}:/proc/{os.getpid()}/fd/{self._file}"

    @property
    def is_mapped(self) -> bool:
        """Tell whether the JVM reads this memory."""
        return self._cells[0] == 1

    @property
    def is_idle(self) -> bool:
        """Tell whether every place was given back."""
        self._reclaim()
        return not self._taken

    def put(self, batch: pa.RecordBatch, size: int, patience_s: float = PATIENCE_S) -> Place | None:
        """Write a batch of `size` bytes as an IPC stream, or return None when no place is free."""
        found = self._room(size)
        pause = _FIRST_PAUSE_S
        deadline = time.monotonic() + patience_s
        while found is None and self._taken and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            found = self._room(size)
        if found is None:
            return None
        number, start = found
        with memoryview(self._memory)[start : start + size] as room:
            sink = pa.FixedSizeBufferWriter(pa.py_buffer(room))
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            length = sink.tell()
            sink.close()
            del sink, stream
        self._taken[number] = (start, start + size)
        self._cells[_mark(number)] = 1
        return Place(number, start, length)

    def close(self) -> None:
        """Let go of the memory; where the JVM still reads, it stays until that ends."""
        self._cells.release()
        self._memory.close()
        os.close(self._file)

    def _reclaim(self) -> None:
        for number in [n for n in self._taken if not self._cells[_mark(n)]]:
            del self._taken[number]

    def _room(self, size: int) -> tuple[int, int] | None:
        """Find the first gap between the places in use."""
        self._reclaim()
        if len(self._taken) == PLACES:
            return None
        start = _up(_HEADER)
        for begin, end in sorted(self._taken.values()):
            if begin - start >= size:
                break
            start = _up(end)
        if start + size > self._size:
            return None
        number = next(n for n in range(PLACES) if n not in self._taken)
        return number, start


class Rings:
    """The rings of this process that no reader uses now."""

    def __init__(self) -> None:
        self._idle: list[Ring] = []
        self._owner = os.getpid()

    def take(self) -> Ring | None:
        """Return a ring for one reader, or None where there is no shared memory."""
        if self._owner != os.getpid():
            # A child of a fork shares its parent's rings with it: it may not write there.
            self.__init__()  # type: ignore[misc]
        if self._idle:
            return self._idle.pop()
        if not sys.platform.startswith("linux"):
            return None
        try:
            return Ring()
        except (OSError, AttributeError):
            return None

    def give_back(self, ring: Ring) -> None:
        """Keep a ring for the next reader."""
        self._idle.append(ring)


#: One for each process.
RINGS = Rings()


def flush_of_worker() -> Callable[[], object] | None:
    """Return what sends on the cells that were written so far, or None outside of a worker.

    Spark writes into a buffer of 64 KiB, in which the names of places would wait for each other
    while the JVM waits for them. The stream is a variable of the function that writes it.
    """
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "dump_stream":
            flush = getattr(frame.f_locals.get("stream"), "flush", None)
            return flush if callable(flush) else None
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _mark(number: int) -> int:
    return (1 + number) * _CELL // 8


def _up(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
