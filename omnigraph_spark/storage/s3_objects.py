"""Control files in a bucket: atomic by nature, and conditional by `If-None-Match`.

Exactness rests on the store's honouring that header, as S3 and its current imitations do; Lance's
own commits rest on it as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.credentials import Keys
from omnigraph_spark.storage.objects import IN_DOUBT, Listed, Stat, StoredFile
from omnigraph_spark.storage.s3_failures import (
    CONFIGURATION,
    NOT_S3,
    code_of,
    s3_failures,
    was_retried,
)
from omnigraph_spark.storage.s3_patience import ask_busy_servers_again, tries
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import split_s3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectIdentifierTypeDef

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
        profile = settings.known.get("aws_profile")
        with self._failures("s3://"):
            maker = boto3.Session(profile_name=profile) if profile else boto3
            self._client: S3Client = maker.client("s3", **settings.for_boto3(keys))
        ask_busy_servers_again(self._client, settings.retries)

    def read(self, address: str) -> bytes | None:
        from botocore.exceptions import (
            FlexibleChecksumError,
            IncompleteReadError,
            ResponseStreamingError,
        )

        bucket, key = split_s3(address)
        with self._failures(address):
            for left in tries(_TRIES):
                try:
                    # boto3 repeats the request, but not the reading of an answer that broke off.
                    return self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
                except self._client.exceptions.NoSuchKey:
                    return None
                except (FlexibleChecksumError, IncompleteReadError, ResponseStreamingError):
                    if not left:
                        raise
        raise AssertionError("the last try returns or raises")

    def stat(self, address: str) -> Stat | None:
        head = self._head(address)
        return None if head is None else head[0]

    def listing(self, folder: str, page_size: int = 1000) -> Iterator[Listed]:
        for page in self._pages(folder, page_size, Delimiter="/"):
            for found in page.get("Contents", ()):
                if not _marks_folder(found["Key"]):
                    yield Listed(found["Key"].rsplit("/", 1)[-1], found["ETag"].strip('"'))

    def folders(self, folder: str) -> list[str]:
        return [
            found["Prefix"].rstrip("/").rsplit("/", 1)[-1]
            for page in self._pages(folder, Delimiter="/")
            for found in page.get("CommonPrefixes", ())
        ]

    def files(self, folder: str) -> Iterator[StoredFile]:
        _, key = split_s3(folder)
        for page in self._pages(folder):
            for found in page.get("Contents", ()):
                if not _marks_folder(found["Key"]):
                    name = found["Key"].removeprefix(f"{key}/")
                    yield StoredFile(name, found["Size"], found["LastModified"].timestamp())

    def exists(self, folder: str) -> bool:
        pages = self._pages(folder, page_size=8)
        return any(
            not _marks_folder(found["Key"]) for page in pages for found in page.get("Contents", ())
        )

    def write(self, address: str, data: bytes) -> None:
        bucket, key = split_s3(address)
        with self._failures(address, writing=True):
            put = self._client.put_object(Bucket=bucket, Key=key, Body=data)
            self._tag(put, address, IN_DOUBT)

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
        with self._failures(folder):
            for page in self._pages(folder):
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
                    return Stat(len(data), self._tag(put, address, IN_DOUBT))
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
        return Stat(head["ContentLength"], self._tag(head, address)), head["Metadata"]

    def _pages(
        self, folder: str, page_size: int = 1000, **more: Any
    ) -> Iterator[ListObjectsV2OutputTypeDef]:
        """Yield the pages of a listing; an answer that is none must not pass for an empty one."""
        bucket, key = split_s3(folder)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{key}/", PaginationConfig={"PageSize": page_size}, **more
        )
        with self._failures(folder):
            for page in pages:
                if "IsTruncated" not in page:
                    raise self._no_answer(folder, CONFIGURATION)
                yield page

    def _tag(self, answer: Mapping[str, Any], address: str, kind: str = CONFIGURATION) -> str:
        """Return the tag of an object, which S3 never leaves out."""
        if "ETag" not in answer:
            raise self._no_answer(address, kind)
        return str(answer["ETag"])

    def _no_answer(self, address: str, kind: str) -> StorageError:
        where = f"bucket {split_s3(address)[0]!r} at {self._place}"
        return StorageError(kind, address, f"{NOT_S3} ({where})")

    def _failures(
        self, address: str, writing: bool = False, doubtful: bool = False
    ) -> AbstractContextManager[None]:
        return s3_failures(address, self._place, writing, doubtful)


def _marks_folder(key: str) -> bool:
    """Tell whether an object stands for a folder, as consoles and Hadoop make them: it is none."""
    return key.endswith("/")
