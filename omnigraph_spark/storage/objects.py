"""Control files: small objects read and listed without Lance, on local disk and on S3.

Schema files, branch refs and the listing of dataset versions go through here. Data never does.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import is_s3, split_s3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Listed(NamedTuple):
    """One object of a listing: its name below the listed folder, and a tag of its content."""

    name: str
    e_tag: str


class ObjectStore(Protocol):
    """What both kinds of storage offer; addresses are canonical (see `uri`)."""

    def read(self, address: str) -> bytes | None:
        """Return the object's bytes, or None when there is none."""

    def listing(self, folder: str, page_size: int = 1000) -> Iterator[Listed]:
        """Yield the objects directly in a folder by name in byte order; a missing one is empty.

        Pages are fetched as they are consumed: whoever wants the first names asks for small pages.
        """

    def exists(self, folder: str) -> bool:
        """Tell whether anything lies at or below a folder."""


#: What a file system says of something that is not there, or could not be: a name it cannot store.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class LocalObjects:
    """Control files on a local disk."""

    def read(self, address: str) -> bytes | None:
        try:
            with open(address, "rb") as file:
                return file.read()
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise _local_failure(address, error) from error

    def listing(self, folder: str, page_size: int = 1000) -> Iterator[Listed]:
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            if error.errno in _ABSENT:
                return
            raise _local_failure(folder, error) from error
        for name in names:
            # Stat only what the caller takes: probing a version reads one name of thousands.
            try:
                status = os.stat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            # The engine's own tag: inode, modification time and size.
            yield Listed(name, f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}")

    def exists(self, folder: str) -> bool:
        return os.path.exists(folder)


class S3Objects:
    """Control files in a bucket."""

    def __init__(self, settings: StorageSettings) -> None:
        import boto3

        self._client: S3Client = boto3.client("s3", **settings.for_boto3())

    def read(self, address: str) -> bytes | None:
        from botocore.exceptions import BotoCoreError, ClientError

        bucket, key = split_s3(address)
        try:
            return self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        except self._client.exceptions.NoSuchKey:
            return None
        except (BotoCoreError, ClientError) as error:
            raise _s3_failure(address, error) from error

    def listing(self, folder: str, page_size: int = 1000) -> Iterator[Listed]:
        from botocore.exceptions import BotoCoreError, ClientError

        bucket, key = split_s3(folder)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket,
            Prefix=f"{key}/",
            Delimiter="/",
            PaginationConfig={"PageSize": page_size},
        )
        try:
            for page in pages:
                for found in page.get("Contents", ()):
                    yield Listed(found["Key"].rsplit("/", 1)[-1], found["ETag"].strip('"'))
        except (BotoCoreError, ClientError) as error:
            raise _s3_failure(folder, error) from error

    def exists(self, folder: str) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        bucket, key = split_s3(folder)
        try:
            found = self._client.list_objects_v2(Bucket=bucket, Prefix=f"{key}/", MaxKeys=1)
        except (BotoCoreError, ClientError) as error:
            raise _s3_failure(folder, error) from error
        return found["KeyCount"] > 0


@lru_cache(maxsize=16)
def _s3_objects(settings: StorageSettings) -> S3Objects:
    return S3Objects(settings)


def objects_at(address: str, settings: StorageSettings) -> ObjectStore:
    """Return the store that holds an address; S3 clients are shared within the process."""
    return _s3_objects(settings) if is_s3(address) else LocalObjects()


def _local_failure(address: str, error: OSError) -> StorageError:
    kind = "permission" if isinstance(error, PermissionError) else "permanent"
    return StorageError(kind, address, error.strerror or type(error).__name__)


_CONFIGURATION = frozenset({"NoSuchBucket", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
_TRANSIENT = frozenset({"SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout"})


def _s3_failure(address: str, error: Exception) -> StorageError:
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        # Unreachable endpoint, missing credentials: nothing was sent or nothing came back.
        return StorageError("configuration", address, str(error))
    code = error.response.get("Error", {}).get("Code", "")
    if code in ("AccessDenied", "403"):
        kind = "permission"
    elif code in _CONFIGURATION:
        kind = "configuration"
    else:
        kind = "transient" if code in _TRANSIENT else "unknown"
    return StorageError(kind, address, str(error))
