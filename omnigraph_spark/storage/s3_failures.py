"""What S3's failures mean: which kind, whether a write may have happened, and where to look.

boto3 repeats what may be repeated, a few times and with growing pauses; what arrives here is final.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.objects import IN_DOUBT
from omnigraph_spark.storage.uri import split_s3

TRANSIENT, PERMISSION, CONFIGURATION = "transient", "permission", "configuration"
_EXPIRED = "the credentials have expired; renew them, or give storage.credentials"
_UNKNOWN_KEYS = "the server does not accept these keys"
_BUSY = "the server asked to slow down for too long"
#: What answers a request may be a console, a proxy or a login page.
NOT_S3 = "this is no answer of S3; is it the address of an S3 server?"
#: What a code of S3 means: the kind, and what to tell beside S3's own words.
_CODES = {
    "NoSuchBucket": (CONFIGURATION, "there is no such bucket on this server"),
    "PermanentRedirect": (CONFIGURATION, "the bucket is in another region"),
    "AuthorizationHeaderMalformed": (CONFIGURATION, "the bucket is in another region"),
    "InvalidAccessKeyId": (CONFIGURATION, _UNKNOWN_KEYS),
    "SignatureDoesNotMatch": (CONFIGURATION, _UNKNOWN_KEYS),
    "XAdminUserNotFound": (CONFIGURATION, _UNKNOWN_KEYS),
    "InvalidToken": (CONFIGURATION, _UNKNOWN_KEYS),
    "ExpiredToken": (CONFIGURATION, _EXPIRED),
    "ExpiredTokenException": (CONFIGURATION, _EXPIRED),
    "RequestTimeTooSkewed": (CONFIGURATION, "the clock of this machine is wrong"),
    "AccessDenied": (PERMISSION, "these keys may not do this here"),
    "AllAccessDisabled": (PERMISSION, "these keys may not do this here"),
    # Answers to HEAD have no body, and so no word for the reason.
    "403": (PERMISSION, "the keys are not accepted, or may not do this here"),
    "SlowDown": (TRANSIENT, _BUSY),
    "503": (TRANSIENT, _BUSY),
    "ServiceUnavailable": (TRANSIENT, _BUSY),
    "RequestLimitExceeded": (TRANSIENT, _BUSY),
    "InternalError": (TRANSIENT, "the server failed"),
    "500": (TRANSIENT, "the server failed"),
    "RequestTimeout": (TRANSIENT, "the connection was too slow"),
}


@contextmanager
def s3_failures(
    address: str, place: str, writing: bool = False, doubtful: bool = False
) -> Iterator[None]:
    """Run requests about one object of a server; what they raise becomes a `StorageError`.

    `doubtful` says that an earlier try of the same write may have been carried out.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        kind, meaning = _meaning(error)
        if writing and (doubtful or not _surely_not_done(error)):
            kind = IN_DOUBT
        bucket = split_s3(address)[0]
        where = f"bucket {bucket!r} at {place}" if bucket else f"at {place}"
        told = f"{meaning}: {error}" if meaning else str(error)
        raise StorageError(kind, address, f"{told} ({where})") from error


def code_of(error: Exception) -> str:
    """Return S3's code for an error, or the empty text."""
    response: Mapping[str, Mapping[str, str]] = getattr(error, "response", {})
    return response.get("Error", {}).get("Code", "")


def was_retried(error: Exception) -> bool:
    """Tell whether boto3 had sent the request before, and got no answer that settled it."""
    response: Mapping[str, Mapping[str, int]] = getattr(error, "response", {})
    return response.get("ResponseMetadata", {}).get("RetryAttempts", 0) > 0


def _surely_not_done(error: Exception) -> bool:
    """Tell whether a failed write can have left nothing behind, now or later."""
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

    if not isinstance(error, ClientError):
        # Even a refused connection may be the last of several tries, the first of which was heard.
        return not isinstance(error, (ConnectionError, HTTPClientError))
    answer = error.response.get("ResponseMetadata", {})
    refused = 400 <= answer.get("HTTPStatusCode", 0) < 500
    return refused and not was_retried(error)


def _meaning(error: Exception) -> tuple[str, str]:
    from botocore.exceptions import (
        ClientError,
        ConnectionClosedError,
        ConnectTimeoutError,
        EndpointConnectionError,
        FlexibleChecksumError,
        HTTPClientError,
    )

    if isinstance(error, ClientError):
        status = str(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
        return _CODES.get(code_of(error)) or _CODES.get(status, ("unknown", ""))
    if isinstance(error, (EndpointConnectionError, ConnectTimeoutError)):
        return CONFIGURATION, "the server cannot be reached"
    if isinstance(error, (HTTPClientError, ConnectionClosedError)):
        return TRANSIENT, "the connection broke off"
    if isinstance(error, FlexibleChecksumError):
        return TRANSIENT, "the content arrived damaged"
    # Missing credentials, a malformed endpoint: nothing was sent.
    return CONFIGURATION, ""
