"""Addresses: the root of a graph in one canonical form, and paths below it.

A canonical address is an absolute local path or ``s3://bucket/prefix``, without a trailing slash.
Lance writes addresses into branch manifests as given, so they are made absolute here, once.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from omnigraph_spark.errors import InvalidNameError, UnsupportedError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):/")
#: Hadoop's names for S3; the objects behind them are the same.
_S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})


def canonical_root(text: str) -> str:
    """Turn what a user typed into a canonical address.

    >>> canonical_root("s3a://bucket/graphs/social/")
    's3://bucket/graphs/social'
    >>> canonical_root("file:///data/social")
    '/data/social'
    """
    if not text.strip() or "\0" in text:
        raise InvalidNameError("graph root", text, "a local path, file:// or s3:// address")
    scheme = _SCHEME.match(text)
    # One letter before the colon is a drive, not a scheme.
    if scheme is None or len(scheme[1]) == 1:
        return os.path.abspath(text)
    name = scheme[1].lower()
    if name == "file":
        return _local_path(text)
    if name in _S3_SCHEMES:
        return _s3_address(text)
    raise UnsupportedError(f"a graph at {name}://", "use a local path, file:// or s3://")


def _local_path(text: str) -> str:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        rule = "file:// followed by an absolute path, as in file:///data/social"
        raise InvalidNameError("graph root", text, rule)
    return os.path.abspath(unquote(parts.path))


def _s3_address(text: str) -> str:
    bucket, _, prefix = text.split("://", 1)[-1].partition("/")
    prefix = prefix.strip("/")
    if not bucket or not prefix or "//" in prefix:
        raise InvalidNameError("graph root", text, "s3://bucket/prefix without empty parts")
    return f"s3://{bucket}/{prefix}"


def is_s3(address: str) -> bool:
    """Tell whether a canonical address is on S3."""
    return address.startswith("s3://")


def join(address: str, *parts: str) -> str:
    """Append path parts, which use ``/`` on every platform.

    >>> join("/data/social", "nodes/40d7", "tree/dev")
    '/data/social/nodes/40d7/tree/dev'
    """
    return "/".join((address, *parts))


def split_s3(address: str) -> tuple[str, str]:
    """Return bucket and key of an S3 address."""
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key
