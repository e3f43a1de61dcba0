"""Control files: what is there, what is not, what may not be read; on disk and on S3 alike."""

from __future__ import annotations

import io
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.stub import Stubber

import omnigraph_spark as og
from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.objects import IN_DOUBT, Listed, ObjectStore, objects_at
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers.builder import GraphBuilder
from tests.helpers.denied import denied

if TYPE_CHECKING:
    from tests.helpers.s3 import S3Server

#: The store of this machine's disks.
LOCAL = objects_at("/data/social", StorageSettings())


def names(listing: Iterator[Listed]) -> list[str]:
    return [listed.name for listed in listing]


# -- on disk -----------------------------------------------------------------------------------


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x00text\r\n")
    assert LOCAL.read(f"{tmp_path}/file") == b"\x00text\r\n"
    (tmp_path / "empty").touch()
    assert LOCAL.read(f"{tmp_path}/empty") == b""


@pytest.mark.parametrize(
    "path", ["missing", "missing/deeper", "file/below-a-file", "x" * 300, "x/" * 3000 + "y"]
)
def test_what_is_not_there_reads_as_none_lists_as_empty_and_does_not_exist(
    path: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert LOCAL.read(f"{tmp_path}/{path}") is None
    assert names(LOCAL.listing(f"{tmp_path}/{path}")) == []
    assert not LOCAL.exists(f"{tmp_path}/{path}")


def test_a_listing_is_in_byte_order(tmp_path: Path) -> None:
    for name in ("b", "a", "B", "é", "10", "9", "_", "名", "\N{PILE OF POO}", "ﬀ"):
        (tmp_path / name).touch()
    listed = names(LOCAL.listing(str(tmp_path)))
    assert listed == sorted(listed, key=str.encode)
    assert len(listed) == 10


@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_the_page_size_does_not_change_what_is_listed(page_size: int, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
    listing = LOCAL.listing(str(tmp_path), page_size=page_size)
    assert names(listing) == ["0", "1", "2", "3", "4"]


def test_an_empty_folder_lists_as_empty_but_exists(tmp_path: Path) -> None:
    assert names(LOCAL.listing(str(tmp_path))) == []
    assert LOCAL.exists(str(tmp_path))


def test_a_file_that_goes_while_it_is_listed_is_left_out(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    listing = LOCAL.listing(str(tmp_path))
    assert next(listing).name == "a"
    (tmp_path / "b").unlink()
    assert names(listing) == ["c"]


def tag(path: Path) -> str:
    (listed,) = LOCAL.listing(str(path.parent))
    return listed.e_tag


def test_a_file_made_anew_has_another_tag_and_one_left_alone_the_same(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    path.write_bytes(b"one")
    first = tag(path)
    assert tag(path) == first
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    second = tag(path)
    path.write_bytes(b"longer")
    os.utime(path, ns=(0, 0))
    assert len({first, second, tag(path)}) == 3


@pytest.mark.parametrize(
    "read",
    [
        lambda folder: LOCAL.read(f"{folder}/file"),
        lambda folder: names(LOCAL.listing(str(folder))),
    ],
    ids=["read", "listing"],
)
def test_a_denied_permission_is_said_to_be_one(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "file").write_bytes(b"x")
    with denied(folder), pytest.raises(StorageError, match="Permission denied") as refused:
        read(folder)
    assert refused.value.kind == "permission"
    assert str(folder) in refused.value.target
    assert isinstance(refused.value.__cause__, PermissionError)


def test_a_graph_that_may_not_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    GraphBuilder.create(tmp_path / "g", "node Person { name: String @key }")
    with denied(tmp_path / "g"), pytest.raises(StorageError) as refused:
        og.open(str(tmp_path / "g"))
    assert refused.value.kind == "permission"


def test_a_folder_read_as_a_file_is_a_permanent_failure(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Is a directory") as refused:
        LOCAL.read(str(tmp_path))
    assert refused.value.kind == "permanent"


# -- on S3 -------------------------------------------------------------------------------------


def bucket_store(s3: S3Server, bucket: str) -> ObjectStore:
    return objects_at(f"s3://{bucket}/g", StorageSettings.resolve(s3.storage_options, {}))


def test_folders_of_a_folder_are_listed_on_disk_and_in_buckets_alike(
    s3: S3Server, tmp_path: Path
) -> None:
    bucket = s3.make_bucket()
    for key in ("g/nodes/b/x", "g/nodes/a/y/z", "g/nodes/file", "g/nodesque/c/x"):
        s3.client().put_object(Bucket=bucket, Key=key, Body=b"")
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).touch()
    for root, store in ((f"s3://{bucket}", bucket_store(s3, bucket)), (str(tmp_path), LOCAL)):
        assert store.folders(f"{root}/g/nodes") == ["a", "b"]
        assert store.folders(f"{root}/g/edges") == []


def test_objects_of_a_bucket_are_read_listed_and_found(s3: S3Server) -> None:
    bucket = s3.make_bucket()
    for key in ("g/b", "g/a", "g/deep/c", "gg", "g2/d"):
        s3.client().put_object(Bucket=bucket, Key=key, Body=key.encode())
    store = bucket_store(s3, bucket)
    assert store.read(f"s3://{bucket}/g/a") == b"g/a"
    assert store.read(f"s3://{bucket}/g/missing") is None
    assert names(store.listing(f"s3://{bucket}/g")) == ["a", "b"]
    assert names(store.listing(f"s3://{bucket}/missing")) == []
    # A prefix that only begins like the folder's name is another folder.
    assert names(store.listing(f"s3://{bucket}/g2")) == ["d"]
    assert store.exists(f"s3://{bucket}/g")
    assert store.exists(f"s3://{bucket}/g/deep")
    assert not store.exists(f"s3://{bucket}/g/dee")


def test_small_pages_list_everything_and_fetch_only_what_is_taken(s3: S3Server) -> None:
    bucket = s3.make_bucket()
    for number in range(7):
        s3.client().put_object(Bucket=bucket, Key=f"g/{number}", Body=b"")
    store = bucket_store(s3, bucket)
    s3.reset()
    assert names(store.listing(f"s3://{bucket}/g", page_size=3)) == [*"0123456"]
    assert s3.counts() == {"LIST": 3}
    s3.reset()
    first = islice(store.listing(f"s3://{bucket}/g", page_size=3), 2)
    assert names(first) == ["0", "1"]
    assert s3.counts() == {"LIST": 1}


def test_an_object_written_anew_has_another_tag(s3: S3Server) -> None:
    bucket = s3.make_bucket()
    store = bucket_store(s3, bucket)
    tags = []
    for body in (b"one", b"one", b"two"):
        s3.client().put_object(Bucket=bucket, Key="g/a", Body=body)
        tags += [listed.e_tag for listed in store.listing(f"s3://{bucket}/g")]
    assert tags[0] == tags[1] != tags[2]
    assert '"' not in tags[0]


def test_a_missing_bucket_is_a_matter_of_configuration(s3: S3Server) -> None:
    store = bucket_store(s3, "no-such-bucket")
    for ask in (store.read, store.exists, lambda address: names(store.listing(address))):
        with pytest.raises(StorageError) as refused:
            ask("s3://no-such-bucket/g")
        assert refused.value.kind == "configuration"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("AccessDenied", "permission"),
        ("InvalidAccessKeyId", "configuration"),
        ("SignatureDoesNotMatch", "configuration"),
        ("SlowDown", "transient"),
        ("ServiceUnavailable", "transient"),
        ("InternalError", "transient"),
        ("RequestTimeout", "transient"),
        ("MethodNotAllowed", "unknown"),
    ],
)
def test_what_s3_answers_becomes_a_kind_that_says_what_to_do(
    code: str, kind: str, s3: S3Server
) -> None:
    store = bucket_store(s3, "bucket")
    for operation, ask in (("get_object", store.read), ("list_objects_v2", store.exists)):
        # The client's own answer is replaced: no server gives these on demand.
        with Stubber(vars(store)["_client"]) as stub:
            stub.add_client_error(operation, service_error_code=code)
            with pytest.raises(StorageError, match=code) as refused:
                ask("s3://bucket/g")
        assert refused.value.kind == kind
        assert refused.value.target == "s3://bucket/g"


@pytest.mark.parametrize(
    "prefix", ["plain", "with space", "é/名", "a+b=c&d@e", "{x}[y]'z'", "a./b"]
)
def test_an_accepted_prefix_is_one_place_for_lance_and_for_boto3(
    prefix: str, s3: S3Server, tmp_path: Path
) -> None:
    graph = GraphBuilder.create(tmp_path / "g", "node Person { name: String @key }")
    graph.write({"node:Person": [{"name": "ann"}]})
    root = s3.upload(graph.root, f"s3://{s3.make_bucket()}/{prefix}")
    snapshot = og.open(root, storage=s3.storage_options).snapshot()
    assert snapshot.arrow("Person").to_pylist() == [{"id": "ann", "name": "ann"}]


def test_what_stands_for_a_folder_is_no_object(s3: S3Server) -> None:
    """Consoles and Hadoop leave such objects; they are nobody's file, and go with their folder."""
    bucket = s3.make_bucket()
    for key in ("g/", "g/a", "g/deep/", "g/deep/c", "g/empty/", "g/empty/inner/"):
        s3.client().put_object(Bucket=bucket, Key=key, Body=b"")
    store, root = bucket_store(s3, bucket), f"s3://{bucket}/g"
    assert names(store.listing(root)) == ["a"]
    assert names(store.listing(f"{root}/deep")) == ["c"]
    assert {file.name for file in store.files(root)} == {"a", "deep/c"}
    assert store.exists(root)
    assert not store.exists(f"{root}/empty")
    store.delete_below(root)
    assert "Contents" not in s3.client().list_objects_v2(Bucket=bucket)


class LoginPage(BaseHTTPRequestHandler):
    """What a console, a proxy or a captive portal answers to everything."""

    protocol_version = "HTTP/1.1"
    page = b"<html><body>Please log in</body></html>"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.page)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None:
        return None


@pytest.mark.parametrize("page", [LoginPage.page, b""])
def test_a_server_that_is_none_of_s3_is_named_and_is_not_taken_for_an_empty_bucket(
    page: bytes, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoginPage, "page", page)
    server = ThreadingHTTPServer(("127.0.0.1", 0), LoginPage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    options = {**s3.storage_options, "aws_endpoint": endpoint, "client_max_retries": "0"}
    store, at = objects_at("s3://b/g", StorageSettings.resolve(options, {})), "s3://b/g"
    asked: dict[str, Callable[[], object]] = {
        "list": lambda: names(store.listing(at)),
        "folders": lambda: store.folders(at),
        "exists": lambda: store.exists(at),
        "stat": lambda: store.stat(f"{at}/a"),
        "delete": lambda: store.delete_below(at),
    }
    written: dict[str, Callable[[], object]] = {
        "write": lambda: store.write(f"{at}/a", b"x"),
        "put": lambda: store.put_new(f"{at}/a", b"x"),
    }
    try:
        for name, ask in (asked | written).items():
            with pytest.raises(StorageError, match="no answer of S3") as refused:
                ask()
            assert endpoint in str(refused.value), name
            assert refused.value.kind == ("configuration" if name in asked else IN_DOUBT), name
    finally:
        server.shutdown()
        server.server_close()


def test_content_that_arrives_damaged_is_read_again(s3: S3Server) -> None:
    """RS-63: S3 sends a checksum of what it stores."""
    bucket = s3.make_bucket()
    store = bucket_store(s3, bucket)
    store.write(f"s3://{bucket}/g/a", b"whole")
    client = vars(store)["_client"]
    get, asked = client.get_object, []

    def damaged(**request: Any) -> Any:
        asked.append(request)
        answer = get(**request)
        if len(asked) <= damaged_times:
            answer["Body"]._raw_stream = io.BytesIO(b"whale")
        return answer

    client.get_object = damaged
    try:
        damaged_times = 1
        assert store.read(f"s3://{bucket}/g/a") == b"whole"
        assert len(asked) == 2
        damaged_times = 99
        with pytest.raises(StorageError, match="damaged") as failed:
            store.read(f"s3://{bucket}/g/a")
        assert failed.value.kind == "transient"
    finally:
        client.get_object = get


def test_settings_that_boto3_refuses_are_a_matter_of_configuration(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong_region = StorageSettings.resolve({**s3.storage_options, "aws_region": "eu west"}, {})
    with pytest.raises(StorageError, match="eu west") as refused:
        objects_at("s3://bucket/g", wrong_region)
    assert refused.value.kind == "configuration"
    no_profile = {"aws_profile": "nobody", "aws_access_key_id": "i", "aws_secret_access_key": "s"}
    with pytest.raises(StorageError, match="nobody") as refused:
        objects_at("s3://bucket/g", StorageSettings.resolve(no_profile, {}))
    assert refused.value.kind == "configuration"


def test_a_child_of_a_fork_has_connections_of_its_own(s3: S3Server) -> None:
    """On those of its parent each of the two would read what the other one asked for."""
    bucket = s3.make_bucket()
    store = bucket_store(s3, bucket)
    store.write(f"s3://{bucket}/g/a", b"content")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        # Nothing of this process but its answer: no test goes on in it, nor waits for ever.
        signal.alarm(60)
        answer = 1
        try:
            again = bucket_store(s3, bucket)
            answer = 0 if again is not store and again.read(f"s3://{bucket}/g/a") else 2
        finally:
            os._exit(answer)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert bucket_store(s3, bucket) is store


def test_clients_are_shared_by_equal_settings_and_by_no_others(s3: S3Server) -> None:
    store = bucket_store(s3, "one")
    assert bucket_store(s3, "another") is store
    other = StorageSettings.resolve({**s3.storage_options, "aws_region": "eu-west-1"}, {})
    assert objects_at("s3://one/g", other) is not store
    assert type(LOCAL) is not type(store)
