"""The lock of a branch where the kernel has none: an object that only one writer can put.

Nobody's clock and no modification time counts: who waits breaks a lease that has not changed for as
long as a lease may last, by the waiter's own watch. A writer that is slower than that changes it
while it is at work. One that cannot loses it, and with it nothing but the comfort of being alone:
fence and manifest keep the graph right.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from uuid import uuid4

from omnigraph_spark.errors import ConflictError, StorageError
from omnigraph_spark.storage.objects import IN_DOUBT, ObjectStore

#: How long a lease may last unchanged: some times longer than landing a commit takes.
LEASE_SECONDS = 30.0
#: Where a lease lies: asked for anew each time, because who waits may outlast the keys of a store.
Store = Callable[[], ObjectStore]
#: How often a holder shows that it is alive: a request may fail and the next one still be in time.
_RENEW_SECONDS = LEASE_SECONDS / 3
_SHORTEST_POLL, _LONGEST_POLL = 0.05, 0.5


@contextmanager
def leased(
    store: Store, address: str, wait_seconds: float, lease_seconds: float | None = None
) -> Iterator[None]:
    """Hold a lease; a `ConflictError` says that others held it for too long."""
    lasting = LEASE_SECONDS if lease_seconds is None else lease_seconds
    _acquire(store, address, wait_seconds, lasting)
    renewal = _Renewal(store, address, lasting)
    renewal.start()
    try:
        yield
    finally:
        # Later it may be another's already.
        if renewal.ended_in_time():
            with suppress(StorageError):
                store().delete(address)


class _Renewal(Thread):
    """Shows who waits that the holder of a lease is at work, from its first third on."""

    def __init__(self, store: Store, address: str, lasting: float) -> None:
        # A process that ends does not wait for it.
        super().__init__(name="omnigraph-lease", daemon=True)
        self._store, self._address, self._lasting = store, address, lasting
        self._renewed = time.monotonic()
        self._over = Event()

    @property
    def _is_held(self) -> bool:
        return time.monotonic() - self._renewed < self._lasting

    def run(self) -> None:
        """Renew until it is over, or until the lease may be another's."""
        while not self._over.wait(_RENEW_SECONDS) and self._is_held:
            began = time.monotonic()
            with suppress(StorageError):
                self._store().write(self._address, uuid4().hex.encode())
                self._renewed = began

    def ended_in_time(self) -> bool:
        """End it; tell whether the lease is still held."""
        self._over.set()
        # A request under way would bring back a lease that is deleted.
        self.join()
        return self._is_held


def _acquire(store: Store, address: str, wait_seconds: float, lease_seconds: float) -> None:
    began = time.monotonic()
    seen: str | None = None
    seen_since, poll = began, _SHORTEST_POLL
    while not _take(store(), address):
        now = time.monotonic()
        if now - began >= wait_seconds:
            raise ConflictError(waited_in_vain(repr(address), wait_seconds))
        found = store().stat(address)
        tag = None if found is None else found.e_tag
        if tag != seen or tag is None:
            seen, seen_since = tag, now
        elif now - seen_since >= lease_seconds:
            store().delete(address)
            # Where it is there all the same, it is watched anew and not asked for in a hurry.
            seen = None
            continue
        # Waiting for a lease, with jitter so that many waiters do not move in step.
        time.sleep(poll * (0.5 + random.random()))
        poll = min(2 * poll, _LONGEST_POLL)


def waited_in_vain(what: str, seconds: float) -> str:
    """Say that a lock stayed another writer's, which is no conflict of rows, and what to do."""
    held = f"another writer held the lock of {what} for the {seconds:.0f} s that this one waited"
    return f"{held}; nothing else was in the way, so write again once it is done"


def outlives_a_lease(look: Callable[[], object]) -> bool:
    """Watch something for as long as a lease lasts; False as soon as a look differs."""
    first, until, poll = look(), time.monotonic() + LEASE_SECONDS, _SHORTEST_POLL
    while time.monotonic() < until:
        # Waiting for a maker that may be alive, with jitter like other waiters.
        time.sleep(poll * (0.5 + random.random()))
        poll = min(2 * poll, _LONGEST_POLL)
        if look() != first:
            return False
    return True


def _take(store: ObjectStore, address: str) -> bool:
    try:
        # The content tells one lease from the next.
        return store.put_new(address, uuid4().hex.encode())
    except StorageError as error:
        if error.kind != IN_DOUBT:
            raise
        # It may be there, so it counts as ours: then it is deleted in the end.
        return True
