"""The lock of a branch on an object store: one holder, waiters in turn, dead ones forgotten."""

from __future__ import annotations

import threading
import time

import pytest

from omnigraph_spark.errors import ConflictError, StorageError
from omnigraph_spark.storage import leases
from omnigraph_spark.storage.leases import leased
from omnigraph_spark.storage.objects import ObjectStore, objects_at
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers.s3 import S3Server


@pytest.fixture
def place(s3: S3Server) -> tuple[ObjectStore, str]:
    address = f"s3://{s3.make_bucket()}/g/__recovery/main.lock"
    return objects_at(address, StorageSettings.resolve(s3.storage_options, {})), address


def test_a_lease_is_there_while_it_is_held_and_costs_two_requests(
    s3: S3Server, place: tuple[ObjectStore, str]
) -> None:
    store, address = place
    s3.reset()
    with leased(lambda: store, address, wait_seconds=0):
        assert s3.counts() == {"PUT": 1}
        assert store.read(address)
    assert s3.counts() == {"PUT": 1, "GET": 1, "DELETE": 1}
    assert store.read(address) is None


def test_who_does_not_want_to_wait_is_told_at_once(place: tuple[ObjectStore, str]) -> None:
    store, address = place
    with (
        leased(lambda: store, address, wait_seconds=0),
        pytest.raises(ConflictError, match=r"main\.lock"),
        leased(lambda: store, address, wait_seconds=0),
    ):
        pass
    assert store.read(address) is None


def test_waiters_take_turns_and_never_two_at_once(place: tuple[ObjectStore, str]) -> None:
    store, address = place
    inside, most, turns = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, turns
        with leased(lambda: store, address, wait_seconds=60):
            inside += 1
            most = max(most, inside)
            time.sleep(0.02)
            inside -= 1
            turns += 1

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, turns) == (1, 5)


def test_the_lease_of_a_dead_writer_ends_by_the_watch_of_who_waits(
    place: tuple[ObjectStore, str],
) -> None:
    store, address = place
    store.write(address, b"of a writer that died")
    began = time.monotonic()
    with leased(lambda: store, address, wait_seconds=30, lease_seconds=0.3):
        assert time.monotonic() - began >= 0.3
        assert store.read(address) != b"of a writer that died"


def test_a_slow_writer_does_not_delete_the_lease_of_the_next(
    place: tuple[ObjectStore, str],
) -> None:
    store, address = place
    with leased(lambda: store, address, wait_seconds=0, lease_seconds=0.01):
        time.sleep(0.02)
        store.write(address, b"the next one's")
    assert store.read(address) == b"the next one's"


def test_a_holder_at_work_keeps_its_lease_for_longer_than_a_lease_lasts(
    s3: S3Server, place: tuple[ObjectStore, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, address = place
    monkeypatch.setattr(leases, "_RENEW_SECONDS", 0.1)
    with (
        leased(lambda: store, address, wait_seconds=0, lease_seconds=2),
        pytest.raises(ConflictError, match="waited; nothing else was in the way"),
        leased(lambda: store, address, wait_seconds=3, lease_seconds=2),
    ):
        pytest.fail("two held one lease")
    assert store.read(address) is None
    s3.reset()
    time.sleep(0.3)
    assert s3.counts() == {}


def test_a_lease_that_cannot_be_renewed_is_lost(
    place: tuple[ObjectStore, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, address = place
    tried = threading.Event()

    def refuse(*_: object) -> None:
        tried.set()
        raise StorageError("transient", address, "the connection broke off")

    monkeypatch.setattr(leases, "_RENEW_SECONDS", 0.1)
    with leased(lambda: store, address, wait_seconds=0, lease_seconds=0.5):
        monkeypatch.setattr(type(store), "write", refuse)
        with leased(lambda: store, address, wait_seconds=30, lease_seconds=0.5):
            assert tried.is_set()
            mine = store.read(address)
    assert mine is not None


def test_who_holds_a_lease_gives_it_back_with_keys_of_that_moment(
    place: tuple[ObjectStore, str],
) -> None:
    store, address = place
    asked: list[float] = []

    def store_of_now() -> ObjectStore:
        asked.append(time.monotonic())
        return store

    with leased(store_of_now, address, wait_seconds=0):
        at_work = time.monotonic()
    assert max(asked) > at_work


def test_a_lease_that_stays_where_it_is_deleted_is_not_asked_for_in_a_hurry(
    place: tuple[ObjectStore, str], s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, address = place
    store.write(address, b"of a writer that died")
    monkeypatch.setattr(type(store), "delete", lambda *_: None)
    s3.reset()
    with (
        pytest.raises(ConflictError),
        leased(lambda: store, address, wait_seconds=2, lease_seconds=0.5),
    ):
        pytest.fail("it is another's")
    # With growing pauses, although it could have been broken after half a second.
    assert s3.counts()["PUT"] < 20
