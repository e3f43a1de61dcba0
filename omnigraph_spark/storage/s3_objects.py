"""Control files in a bucket: atomic by nature, and conditional by `If-None-Match`.

Exactness rests on the store's honouring that header, as S3 and its current imitations do; Lance's
own commits rest on it as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from uuid import uuid4

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.credentials import Keys
from omnigraph_spark.storage.objects import IN_DOUBT, Listed, Stat, StoredFile
from omnigraph_spark.storage.s3_failures import code_of, s3_failures, was_retried
from omnigraph_spark.storage.s3_patience import ask_busy_servers_again, tries
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import split_s3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

#: S3's words for a conditional write that was not done, and whether that is final: after the second
#: it asks to try again, because another write of the same object was in flight.
_LOST = {"PreconditionFailed": True, "ConditionalRequestConflict": False}
_TRIES = 5
#: Names the attempt in an object that was stored conditionally.
_ATTEMPT = "omnigraph-attempt"


class S3Objects:
    """Control files in a bucket."""

    def __init__(self, settings: StorageSettings, keys: Keys | None = None) -> None:
        import boto3

        self._place = settings.place()
        self._client: S3Client = boto3.client("s3", **settings.for_boto3(keys))
        ask_busy_servers_again(self._client, settings.retries)

    def read(self, address: str) -> bytes | None:
        from botocore.exceptions import IncompleteReadError, ResponseStreamingError

        bucket, key = split_s3(address)
        with self._failures(address):
            for left in tries(_TRIES):
                try:
                    # boto3 repeats the request, but not the reading of an answer that broke off.
                    return self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
                except self._client.exceptions.NoSuchKey:
                    return None
                except (IncompleteReadError, ResponseStreamingError):
                    if not left:
                        raise
        raise AssertionError("the last try returns or raises")

    def stat(self, address: str) -> Stat | None:
        head = self._head(address)
        return None if head is None else head[0]

    def listing(self, folder: str, page_size: int = 1000) -> Iterator[Listed]:
        bucket, key = split_s3(folder)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket,
            Prefix=f"{key}/",
            Delimiter="/",
            PaginationConfig={"PageSize": page_size},
        )
        with self._failures(folder):
            for page in pages:
                for found in page.get("Contents", ()):
                    yield Listed(found["Key"].rsplit("/", 1)[-1], found["ETag"].strip('"'))

    def folders(self, folder: str) -> list[str]:
        bucket, key = split_s3(folder)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{key}/", Delimiter="/"
        )
        with self._failures(folder):
            return [
                found["Prefix"].rstrip("/").rsplit("/", 1)[-1]
                for page in pages
                for found in page.get("CommonPrefixes", ())
            ]

    def files(self, folder: str) -> Iterator[StoredFile]:
        bucket, key = split_s3(folder)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{key}/"
        )
        with self._failures(folder):
            for page in pages:
                for found in page.get("Contents", ()):
                    name = found["Key"].removeprefix(f"{key}/")
                    yield StoredFile(name, found["Size"], found["LastModified"].timestamp())

    def exists(self, folder: str) -> bool:
        bucket, key = split_s3(folder)
        with self._failures(folder):
            found = self._client.list_objects_v2(Bucket=bucket, Prefix=f"{key}/", MaxKeys=1)
        return found["KeyCount"] > 0

    def write(self, address: str, data: bytes) -> None:
        bucket, key = split_s3(address)
        with self._failures(address, writing=True):
            self._client.put_object(Bucket=bucket, Key=key, Body=data)

    def put_new(self, address: str, data: bytes) -> bool:
        return self._put_new(address, data) is not None

    def place(self, source: str, target: str) -> Stat | None:
        data = self.read(source)
        if data is None:
            raise StorageError("permanent", source, "not there")
        return self._put_new(target, data)

    def delete(self, address: str) -> None:
        bucket, key = split_s3(address)
        with self._failures(address):
            self._client.delete_object(Bucket=bucket, Key=key)

    def delete_below(self, folder: str, keep: Collection[str] = ()) -> None:
        bucket, key = split_s3(folder)
        kept = tuple(f"{split_s3(path)[1]}/" for path in keep)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{key}/"
        )
        with self._failures(folder):
            for page in pages:
                keys = [found["Key"] for found in page.get("Contents", ())]
                doomed: list[ObjectIdentifierTypeDef] = [
                    {"Key": key} for key in keys if not key.startswith(kept)
                ]
                if not doomed:
                    continue
                done = self._client.delete_objects(Bucket=bucket, Delete={"Objects": doomed})
                for failed in done.get("Errors", ()):
                    at = f"s3://{bucket}/{failed.get('Key', key)}"
                    raise StorageError("unknown", at, failed.get("Message", "not deleted"))

    def _put_new(self, address: str, data: bytes) -> Stat | None:
        from botocore.exceptions import ClientError

        bucket, key = split_s3(address)
        attempt, doubtful = uuid4().hex, False
        for _ in tries(_TRIES):
            with self._failures(address, writing=True, doubtful=doubtful):
                try:
                    put = self._client.put_object(
                        Bucket=bucket,
                        Key=key,
                        Body=data,
                        IfNoneMatch="*",
                        Metadata={_ATTEMPT: attempt},
                    )
                    return Stat(len(data), put["ETag"])
                except ClientError as error:
                    if code_of(error) not in _LOST:
                        raise
                    lost = _LOST[code_of(error)]
                    # A write in flight may be this one, of which boto3 lost an answer.
                    doubtful = doubtful or was_retried(error)
            if lost:
                return self._if_ours(address, attempt)
        raise StorageError(IN_DOUBT, address, "other writers kept the object busy")

    def _if_ours(self, address: str, attempt: str) -> Stat | None:
        """Look whose object is there: boto3 may have repeated a request that had been done."""
        try:
            head = self._head(address)
        except StorageError as error:
            raise StorageError(IN_DOUBT, address, error.detail) from error
        return head[0] if head is not None and head[1].get(_ATTEMPT) == attempt else None

    def _head(self, address: str) -> tuple[Stat, Mapping[str, str]] | None:
        from botocore.exceptions import ClientError

        bucket, key = split_s3(address)
        with self._failures(address):
            try:
                head = self._client.head_object(Bucket=bucket, Key=key)
            except ClientError as error:
                if code_of(error) in ("404", "NoSuchKey", "NotFound"):
                    return None
                raise
        return Stat(head["ContentLength"], head["ETag"]), head["Metadata"]

    def _failures(
        self, address: str, writing: bool = False, doubtful: bool = False
    ) -> AbstractContextManager[None]:
        return s3_failures(address, self._place, writing, doubtful)
