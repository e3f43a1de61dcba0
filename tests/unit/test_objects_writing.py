"""Control files written: whole or not at all, one winner, and lost answers told as such."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import (
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from botocore.stub import Stubber

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.objects import IN_DOUBT, ObjectStore, Stat, objects_at
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers.denied import denied

if TYPE_CHECKING:
    from tests.helpers.s3 import S3Server


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ObjectStore, str]:
    """A store and an empty folder in it."""
    if request.param == "disk":
        return objects_at(str(tmp_path), StorageSettings()), str(tmp_path / "g")
    s3: S3Server = request.getfixturevalue("s3")
    root = f"s3://{s3.make_bucket()}/g"
    return objects_at(root, StorageSettings.resolve(s3.storage_options, {})), root


def names(store: ObjectStore, folder: str) -> list[str]:
    return [listed.name for listed in store.listing(folder)]


def test_a_write_makes_folders_and_replaces_what_was_there(place: tuple[ObjectStore, str]) -> None:
    store, root = place
    store.write(f"{root}/deep/er/file", b"one")
    assert store.read(f"{root}/deep/er/file") == b"one"

    store.write(f"{root}/deep/er/file", b"")

    assert store.read(f"{root}/deep/er/file") == b""
    assert names(store, f"{root}/deep/er") == ["file"]


def test_a_new_object_is_stored_once(place: tuple[ObjectStore, str]) -> None:
    store, root = place

    assert store.put_new(f"{root}/a/file", b"first")
    assert not store.put_new(f"{root}/a/file", b"second")
    # Equal content does not make it ours.
    assert not store.put_new(f"{root}/a/file", b"first")

    assert store.read(f"{root}/a/file") == b"first"
    assert names(store, f"{root}/a") == ["file"]


def test_an_object_is_placed_once(place: tuple[ObjectStore, str]) -> None:
    store, root = place
    store.write(f"{root}/one", b"one")
    store.write(f"{root}/another", b"another")

    facts = store.place(f"{root}/one", f"{root}/slot")

    assert facts == store.stat(f"{root}/slot")
    assert store.place(f"{root}/another", f"{root}/slot") is None
    store.delete(f"{root}/one")
    assert store.read(f"{root}/slot") == b"one"
    with pytest.raises(StorageError):
        store.place(f"{root}/missing", f"{root}/other")


@pytest.mark.parametrize("rounds", [10])
def test_of_eight_that_store_a_new_object_one_does(
    place: tuple[ObjectStore, str], rounds: int
) -> None:
    store, root = place
    with ThreadPoolExecutor(8) as pool:
        for number in range(rounds):
            address = f"{root}/{number}"
            put = [pool.submit(store.put_new, address, bytes([racer])) for racer in range(8)]
            won = [racer for racer, answer in enumerate(put) if answer.result()]
            assert len(won) == 1
            assert store.read(address) == bytes(won)
    assert len(names(store, root)) == rounds


def test_size_and_tag_of_an_object(place: tuple[ObjectStore, str]) -> None:
    store, root = place
    store.write(f"{root}/file", b"four")

    facts = store.stat(f"{root}/file")

    assert facts is not None
    assert facts.size_bytes == 4
    assert store.stat(f"{root}/missing") is None
    store.write(f"{root}/file", b"more")
    assert facts != store.stat(f"{root}/file")


def test_what_is_deleted_may_be_missing(place: tuple[ObjectStore, str]) -> None:
    store, root = place
    store.write(f"{root}/file", b"x")

    for address in ("file", "file", "missing", "missing/deeper"):
        store.delete(f"{root}/{address}")
    store.delete_below(f"{root}/missing")

    assert store.read(f"{root}/file") is None


def test_a_folder_is_deleted_but_for_what_is_kept(place: tuple[ObjectStore, str]) -> None:
    store, root = place
    for path in ("a/1", "a/b/2", "a/b/c/3", "a/bb/4", "a2/5", "a/keep/x/6", "a/keep/7"):
        store.write(f"{root}/{path}", b"")

    store.delete_below(f"{root}/a", keep=[f"{root}/a/b/c", f"{root}/a/keep", f"{root}/a2"])

    left = ("a/b/c/3", "a2/5", "a/keep/x/6", "a/keep/7")
    gone = ("a/1", "a/b/2", "a/bb/4")
    assert [store.read(f"{root}/{path}") for path in left] == [b""] * 4
    assert [store.read(f"{root}/{path}") for path in gone] == [None] * 3
    store.delete_below(f"{root}/a/keep")
    assert not store.exists(f"{root}/a/keep")


@pytest.mark.parametrize(("late", "goes"), [(2, True), (100, False)])
def test_a_folder_that_a_late_task_writes_to_is_deleted_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int, goes: bool
) -> None:
    folder, left, delete = tmp_path / "staging", iter(range(late)), os.rmdir
    folder.mkdir()

    def written_before(path: str, **options: Any) -> None:
        if next(left, None) is not None:
            (folder / "late").touch()
        delete(path, **options)

    monkeypatch.setattr(os, "rmdir", written_before)
    store = objects_at(str(tmp_path), StorageSettings())
    with nullcontext() if goes else pytest.raises(StorageError, match="not empty"):
        store.delete_below(str(folder))
    assert folder.exists() is not goes


# -- on disk -----------------------------------------------------------------------------------

LOCAL = objects_at("/data/social", StorageSettings())
WRITES: dict[str, Callable[[str], object]] = {
    "write": lambda address: LOCAL.write(address, b"new"),
    "put_new": lambda address: LOCAL.put_new(address, b"new"),
}


def test_the_tag_of_a_file_is_spelled_as_the_engine_spells_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"four")
    status = path.stat()

    tag = f"{status.st_ino:x}-{status.st_mtime_ns // 1_000:x}-4"
    assert LOCAL.stat(str(path)) == Stat(4, tag)


@pytest.mark.parametrize(
    ("write", "step"),
    [("write", "fsync"), ("write", "replace"), ("put_new", "fsync"), ("put_new", "link")],
)
def test_a_write_that_fails_leaves_what_was_there(
    write: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    if write == "write":
        path.write_bytes(b"old")

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(StorageError, match="No space left") as failed:
        WRITES[write](str(path))

    assert failed.value.kind == "permanent"
    assert [path.name for path in tmp_path.iterdir()] == (["file"] if write == "write" else [])


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV])
def test_a_disk_without_hard_links_cannot_decide_a_race_and_says_so(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match="hard links") as refused:
        LOCAL.put_new(f"{tmp_path}/file", b"x")

    assert refused.value.kind == "configuration"
    assert list(tmp_path.iterdir()) == []
    LOCAL.write(f"{tmp_path}/file", b"writing without a race needs none")


def test_a_link_whose_success_was_reported_as_a_failure_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def deaf(source: str, target: str) -> None:
        link(source, target)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    monkeypatch.setattr(os, "link", deaf)
    assert LOCAL.put_new(f"{tmp_path}/file", b"ours")
    assert (tmp_path / "file").read_bytes() == b"ours"


@pytest.mark.parametrize("write", WRITES)
def test_a_folder_that_may_not_be_written_is_told_as_that(write: str, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    with denied(folder), pytest.raises(StorageError) as refused:
        WRITES[write](f"{folder}/file")
    assert refused.value.kind == "permission"


# -- on S3 -------------------------------------------------------------------------------------


@pytest.fixture
def stubbed(s3: S3Server) -> tuple[ObjectStore, Stubber]:
    """A store whose answers a test makes up."""
    options = {**s3.storage_options, "aws_session_token": "stubbed"}
    store = objects_at("s3://bucket/g", StorageSettings.resolve(options, {}))
    return store, Stubber(vars(store)["_client"])


def test_a_new_object_on_s3_is_put_under_a_condition(s3: S3Server) -> None:
    bucket = s3.make_bucket()
    store = objects_at(f"s3://{bucket}/g", StorageSettings.resolve(s3.storage_options, {}))
    s3.reset()
    assert store.put_new(f"s3://{bucket}/g/file", b"x")
    assert s3.counts() == {"PUT": 1}
    s3.reset()
    assert not store.put_new(f"s3://{bucket}/g/file", b"x")
    assert [request.status for request in s3.requests()] == [412, 200]


def test_a_repeated_request_finds_its_own_object(s3: S3Server) -> None:
    # What boto3 does when the first answer is lost: it asks again, and S3 says "exists".
    bucket = s3.make_bucket()
    store = objects_at(f"s3://{bucket}/g", StorageSettings.resolve(s3.storage_options, {}))
    client = vars(store)["_client"]
    put = client.put_object

    def twice(**request: Any) -> Any:
        put(**request)
        return put(**request)

    client.put_object = twice
    try:
        assert store.put_new(f"s3://{bucket}/g/file", b"x")
        store.write(f"s3://{bucket}/g/source", b"y")
        assert store.place(f"s3://{bucket}/g/source", f"s3://{bucket}/g/slot") is not None
    finally:
        client.put_object = put
    assert not store.put_new(f"s3://{bucket}/g/file", b"x")


def test_a_conflict_in_flight_is_asked_again_a_few_times(
    stubbed: tuple[ObjectStore, Stubber],
) -> None:
    store, stub = stubbed
    conflict = {"service_error_code": "ConditionalRequestConflict", "http_status_code": 409}
    stub.add_client_error("put_object", **conflict)
    stub.add_response("put_object", {"ETag": '"tag"'})
    with stub:
        assert store.put_new("s3://bucket/g/file", b"x")

    for _ in range(5):
        stub.add_client_error("put_object", **conflict)
    with stub, pytest.raises(StorageError, match="busy") as busy:
        store.put_new("s3://bucket/g/file", b"x")
    assert busy.value.kind == IN_DOUBT
    stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "status", "retries", "kind"),
    [
        ("AccessDenied", 403, 0, "permission"),
        ("NoSuchBucket", 404, 0, "configuration"),
        # An earlier try of the same request may have been carried out.
        ("AccessDenied", 403, 1, IN_DOUBT),
        ("SlowDown", 503, 2, IN_DOUBT),
        ("InternalError", 500, 0, IN_DOUBT),
    ],
)
def test_an_error_of_s3_says_whether_the_write_may_have_happened(
    code: str, status: int, retries: int, kind: str, stubbed: tuple[ObjectStore, Stubber]
) -> None:
    store, stub = stubbed
    for write in (store.write, store.put_new):
        stub.add_client_error(
            "put_object",
            service_error_code=code,
            http_status_code=status,
            response_meta={"RetryAttempts": retries},
        )
        with stub, pytest.raises(StorageError, match=code) as failed:
            write("s3://bucket/g/file", b"x")
        assert failed.value.kind == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ReadTimeoutError(endpoint_url="http://s3"), IN_DOUBT),
        (ConnectTimeoutError(endpoint_url="http://s3"), IN_DOUBT),
        (EndpointConnectionError(endpoint_url="http://s3"), IN_DOUBT),
        (NoCredentialsError(), "configuration"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_a_lost_connection_leaves_a_write_in_doubt(
    error: Exception,
    kind: str,
    stubbed: tuple[ObjectStore, Stubber],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, _ = stubbed

    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(vars(store)["_client"], "put_object", fail)
    for write in (store.write, store.put_new):
        with pytest.raises(StorageError) as failed:
            write("s3://bucket/g/file", b"x")
        assert failed.value.kind == kind


def test_whose_object_it_is_stays_in_doubt_when_it_cannot_be_looked_at(
    stubbed: tuple[ObjectStore, Stubber],
) -> None:
    store, stub = stubbed
    stub.add_client_error("put_object", "PreconditionFailed", http_status_code=412)
    stub.add_client_error("head_object", "SlowDown", http_status_code=503)
    with stub, pytest.raises(StorageError) as failed:
        store.put_new("s3://bucket/g/file", b"x")
    assert failed.value.kind == IN_DOUBT


def test_an_object_that_cannot_be_deleted_is_told(stubbed: tuple[ObjectStore, Stubber]) -> None:
    store, stub = stubbed
    stub.add_response("list_objects_v2", {"IsTruncated": False, "Contents": [{"Key": "g/a"}]})
    failed = {"Errors": [{"Key": "g/a", "Code": "AccessDenied", "Message": "Access Denied"}]}
    stub.add_response("delete_objects", failed)
    with stub, pytest.raises(StorageError, match="Access Denied") as refused:
        store.delete_below("s3://bucket/g")
    assert refused.value.target == "s3://bucket/g/a"
