"""Object-store settings: one resolution from environment and options, for Lance and for boto3.

Options win over the environment. Values may be secrets: this class never prints them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph_spark.errors import ConflictingOptionsError

# Environment variable -> canonical setting; a later line wins, so the S3-specific endpoint does.
_ENVIRONMENT = (
    ("AWS_DEFAULT_REGION", "aws_region"),
    ("AWS_REGION", "aws_region"),
    ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    ("AWS_SESSION_TOKEN", "aws_session_token"),
    ("AWS_ENDPOINT_URL", "aws_endpoint"),
    ("AWS_ENDPOINT_URL_S3", "aws_endpoint"),
    ("AWS_ALLOW_HTTP", "allow_http"),
)
# Lance accepts several spellings of one setting; one is kept so that a given option really wins.
_ALIASES = {
    "region": "aws_region",
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "token": "aws_session_token",
    "aws_token": "aws_session_token",
    "endpoint": "aws_endpoint",
    "endpoint_url": "aws_endpoint",
    "aws_endpoint_url": "aws_endpoint",
    "aws_allow_http": "allow_http",
    "virtual_hosted_style_request": "aws_virtual_hosted_style_request",
}


def _canonical(given: Mapping[str, str]) -> dict[str, str]:
    own: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for key, value in given.items():
        name = _ALIASES.get(key.lower(), key.lower())
        if own.get(name, str(value)) != str(value):
            # Which one counts would depend on the order in which Spark hands options over.
            raise ConflictingOptionsError((spelled[name], key), "they are one setting")
        own[name], spelled[name] = str(value), key
    return own


@dataclass(frozen=True)
class StorageSettings:
    """Resolved settings of one object store; hashable, so that clients and handles are shared."""

    items: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: What the caller gave, to be handed on to other processes that have their own environment.
    given: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def resolve(
        cls, given: Mapping[str, str] | None = None, environ: Mapping[str, str] = os.environ
    ) -> StorageSettings:
        """Merge the AWS variables with the options a caller gave; the options win."""
        merged = {key: environ[name] for name, key in _ENVIRONMENT if environ.get(name)}
        if environ.get("AWS_S3_FORCE_PATH_STYLE", "").lower() in ("1", "true"):
            merged["aws_virtual_hosted_style_request"] = "false"
        own = _canonical(given or {})
        return cls(tuple(sorted((merged | own).items())), tuple(sorted(own.items())))

    def for_lance(self) -> dict[str, str]:
        """Return the storage options Lance takes."""
        return dict(self.items)

    def for_boto3(self) -> dict[str, Any]:
        """Return the arguments of ``boto3.client("s3", ...)``."""
        from botocore.config import Config

        known = dict(self.items)
        path_style = known.get("aws_virtual_hosted_style_request", "").lower() == "false"
        return {
            "region_name": known.get("aws_region"),
            "aws_access_key_id": known.get("aws_access_key_id"),
            "aws_secret_access_key": known.get("aws_secret_access_key"),
            "aws_session_token": known.get("aws_session_token"),
            "endpoint_url": known.get("aws_endpoint"),
            "config": Config(
                # A wrong endpoint is reported within seconds; three tries bridge a blip.
                connect_timeout=5,
                read_timeout=20,
                retries={"total_max_attempts": 3, "mode": "standard"},
                s3={"addressing_style": "path" if path_style else "auto"},
            ),
        }

    def __repr__(self) -> str:
        return f"StorageSettings({', '.join(key for key, _ in self.items)})"
