"""Control files: what is there, what is not, what may not be read; on disk and on S3 alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from botocore.stub import Stubber

import omnigraph_spark as og
from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.objects import Listed, ObjectStore, objects_at
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


def test_clients_are_shared_by_equal_settings_and_by_no_others(s3: S3Server) -> None:
    store = bucket_store(s3, "one")
    assert bucket_store(s3, "another") is store
    other = StorageSettings.resolve({**s3.storage_options, "aws_region": "eu-west-1"}, {})
    assert objects_at("s3://one/g", other) is not store
    assert type(LOCAL) is not type(store)
