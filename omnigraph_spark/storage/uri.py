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
# Lance reads addresses as URLs and boto3 does not: with these the two would read different objects.
_S3_AMBIGUOUS = re.compile(r"[%?#]")


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
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path or "\0" in path:
        rule = "file:// followed by an absolute path, as in file:///data/social"
        raise InvalidNameError("graph root", text, rule)
    # Taking the text before '?' or '#' for the path would open another graph.
    if parts.query or parts.fragment:
        rule = "in a file:// address '?' is written %3F and '#' is written %23"
        raise InvalidNameError("graph root", text, rule)
    return os.path.abspath(path)


def _s3_address(text: str) -> str:
    _, slashes, rest = text.partition("://")
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.rstrip("/")
    if not slashes or not bucket or any(part in ("", ".", "..") for part in prefix.split("/")):
        raise InvalidNameError("graph root", text, "s3://bucket/prefix without empty or '..' parts")
    if found := _S3_AMBIGUOUS.search(prefix):
        rule = f"a prefix on S3 without {found[0]!r}, which Lance takes for a part of a URL"
        raise InvalidNameError("graph root", text, rule)
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
