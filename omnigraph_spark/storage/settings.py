"""Object-store settings: one resolution from environment, session and options, for all clients.

Options win over settings of the Spark session, and those over the environment. Keys go together: a
layer that gives one of them gives them all, so no token of another place is mixed in. Values may be
secrets: this class never prints them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from omnigraph_spark.errors import ConflictingOptionsError, InvalidOptionError, StorageError
from omnigraph_spark.storage.credentials import (
    CredentialSource,
    Keys,
    chain_source,
    user_source,
)
from omnigraph_spark.storage.uri import is_s3, split_s3

# Environment variable -> canonical setting; a later line wins, so the S3-specific endpoint does.
_ENVIRONMENT = (
    ("AWS_DEFAULT_REGION", "aws_region"),
    ("AWS_REGION", "aws_region"),
    ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    ("AWS_SESSION_TOKEN", "aws_session_token"),
    ("AWS_PROFILE", "aws_profile"),
    # Three that Lance reads for itself, so that boto3 does what Lance does.
    ("AWS_SKIP_SIGNATURE", "aws_skip_signature"),
    ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "aws_virtual_hosted_style_request"),
    ("AWS_ENDPOINT", "aws_endpoint"),
    ("AWS_ENDPOINT_URL", "aws_endpoint"),
    ("AWS_ENDPOINT_URL_S3", "aws_endpoint"),
    ("AWS_ALLOW_HTTP", "allow_http"),
)
# What Lance would take from the environment beside what it is told, and what keeps it from that: a
# token does not go with keys of another place.
_UNSAID = {
    "AWS_SESSION_TOKEN": ("aws_session_token", ""),
    "AWS_TOKEN": ("aws_session_token", ""),
    "AWS_SKIP_SIGNATURE": ("aws_skip_signature", "false"),
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": ("aws_virtual_hosted_style_request", "false"),
}
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
    "skip_signature": "aws_skip_signature",
    "profile": "aws_profile",
}
#: The setting that holds a function that fetches keys, or its name.
CREDENTIALS = "credentials"
_KEYS = frozenset({"aws_access_key_id", "aws_secret_access_key", "aws_session_token"})
#: All ways to say who signs; one layer's say replaces what the layers below it said.
_SIGNING = _KEYS | {CREDENTIALS, "aws_profile", "aws_skip_signature"}
#: Lance's patience: a busy server is asked again for a quarter of a minute, with pauses that grow
#: and have jitter; one that says nothing is given up within half a minute. Left alone Lance waits
#: longer, does all that four times over, and gives busy servers up within a second.
_PATIENCE = {
    "client_max_retries": "20",
    "client_retry_timeout": "15",
    "connect_timeout": "3s",
    # Until an answer begins: a part of an upload, and those beside it, have to be through by then.
    "read_timeout": "25s",
    "timeout": "30s",
    "lance_aimd_max_retries": "0",
}
#: The same for handles that are read from: what these fetch of files, Lance does four times over. A
#: request that was not answered in time is not repeated in each of the four.
_READING = {"client_retry_timeout": "5", "read_timeout": "6s"}
#: How often boto3 repeats a request of a control file, which is small.
_RETRIES = "3"
_DEFAULT_REGION = "us-east-1"
#: AWS's own servers, which say their region.
_AWS_SERVER = re.compile(
    r"s3[.-](?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-\d)(?:\.vpce)?\.amazonaws\.com(?:\.cn)?$"
)


def is_secret(name: str) -> bool:
    """Tell whether a setting of the object store, however it is spelled, holds a secret.

    >>> is_secret("aws_secret_access_key"), is_secret("Token"), is_secret("region")
    (True, True, False)
    """
    return _ALIASES.get(name.lower(), name.lower()) in _KEYS - {"aws_access_key_id"}


def _canonical(given: Mapping[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for key, given_value in given.items():
        name = _ALIASES.get(key.lower(), key.lower())
        value = given_value if name == CREDENTIALS else str(given_value)
        if own.get(name, value) != value:
            # Which one counts would depend on the order in which Spark hands options over.
            raise ConflictingOptionsError((spelled[name], key), "they are one setting")
        own[name], spelled[name] = value, key
    if CREDENTIALS in own and (also := sorted(_KEYS & own.keys())):
        raise ConflictingOptionsError((CREDENTIALS, also[0]), "keys come from the one or the other")
    return own


def _over(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    kept = _SIGNING if _SIGNING & upper.keys() else frozenset()
    return {name: value for name, value in lower.items() if name not in kept} | dict(upper)


@dataclass(frozen=True)
class StorageSettings:
    """Resolved settings of one object store; hashable, so that clients and handles are shared."""

    items: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: What the caller gave, to be handed on to other processes that have their own environment.
    given: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Where keys come from that are not among the settings; None for those that are.
    source: CredentialSource | None = field(default=None, repr=False)

    @classmethod
    def resolve(
        cls,
        given: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] = os.environ,
        session: Mapping[str, str] | None = None,
    ) -> StorageSettings:
        """Merge the AWS variables, settings of a Spark session and the options a caller gave."""
        merged = {key: environ[name] for name, key in _ENVIRONMENT if environ.get(name)}
        if environ.get("AWS_S3_FORCE_PATH_STYLE", "").lower() in ("1", "true"):
            merged["aws_virtual_hosted_style_request"] = "false"
        own = _over(_canonical(session or {}), _canonical(given or {}))
        known = _over(merged, own)
        source = _source(known)
        handed_on = {key: value for key, value in own.items() if isinstance(value, str)}
        if CREDENTIALS in own and source is not None and source.is_known_elsewhere:
            handed_on[CREDENTIALS] = source.name
        known.pop(CREDENTIALS, None)
        return cls(tuple(sorted(known.items())), tuple(sorted(handed_on.items())), source)

    @property
    def known(self) -> dict[str, str]:
        """The settings under Lance's names, without keys that are fetched."""
        return dict(self.items)

    def handed_on(self) -> dict[str, str]:
        """Return what another process needs to come to the same settings.

        A function that it cannot import stays here; the keys it fetched go instead.
        """
        given = dict(self.given)
        if self.source is not None and not self.source.is_known_elsewhere:
            given |= self.source.keys().settings()
        return given

    def keys(self, address: str) -> Keys | None:
        """Return the keys for an address that have to be fetched; None where nothing has."""
        return self.source.keys() if self.source is not None and is_s3(address) else None

    def for_lance(self, address: str, *, reading: bool = False) -> dict[str, str]:
        """Return the storage options Lance takes for an address; a local path needs none."""
        if not is_s3(address):
            return {}
        endpoint, keys = self._endpoint, self.keys(address)
        given = {name: value for name, value in self.known.items() if name != "aws_profile"}
        region = {"aws_region": self._region} if self._region else {}
        patience = _PATIENCE | _READING if reading else _PATIENCE
        style = self._style_for_lance(endpoint, split_s3(address)[0])
        unsaid = dict(told for name, told in _UNSAID.items() if os.environ.get(name))
        return unsaid | patience | region | given | style | (keys.settings() if keys else {})

    def for_boto3(self, keys: Keys | None = None) -> dict[str, Any]:
        """Return the arguments of ``boto3.client("s3", ...)``, signing with keys of `source`."""
        from botocore import UNSIGNED
        from botocore.config import Config

        known = self.known | (keys.settings() if keys else {})
        endpoint = self._endpoint
        if endpoint and endpoint.startswith("http://") and not _is_true(known.get("allow_http")):
            detail = "is plain http; set AWS_ALLOW_HTTP=true or the option storage.allow_http"
            raise StorageError("configuration", self.place(), detail)
        path_style = known.get("aws_virtual_hosted_style_request", "").lower() == "false"
        style: Literal["virtual", "path", "auto"] = "path" if path_style else "auto"
        if self._hosts_name_buckets:
            style = "virtual"
        # Lance does not know of the addresses in a profile, and the two must not go apart.
        more: dict[str, Any] = {"ignore_configured_endpoint_urls": True}
        if _is_unsigned(known):
            more["signature_version"] = UNSIGNED
        return {
            "region_name": self._region,
            "aws_access_key_id": known.get("aws_access_key_id"),
            "aws_secret_access_key": known.get("aws_secret_access_key"),
            "aws_session_token": known.get("aws_session_token"),
            "endpoint_url": endpoint,
            "config": Config(
                # A wrong endpoint is reported within seconds; boto3 waits between tries, longer
                # each time and never two clients alike: for three retries, seven seconds at most.
                # Four tries without an answer take 23 seconds at most.
                connect_timeout=3,
                read_timeout=4,
                retries={"total_max_attempts": 1 + self.retries, "mode": "standard"},
                s3={"addressing_style": style},
                **more,
            ),
        }

    @property
    def retries(self) -> int:
        """How often a request of a control file is repeated."""
        text = self.known.get("client_max_retries", _RETRIES)
        if not text.isdecimal():
            accepted = "a whole number, zero or more"
            raise InvalidOptionError("storage.client_max_retries", text, accepted)
        return int(text)

    @property
    def _region(self) -> str | None:
        known = self.known
        if "aws_region" in known or "aws_endpoint" not in known:
            return known.get("aws_region")
        said = _AWS_SERVER.search(urlsplit(known["aws_endpoint"]).hostname or "")
        return said[1] if said else _DEFAULT_REGION

    @property
    def _hosts_name_buckets(self) -> bool:
        """Whether a server of one's own has a host for each bucket: one with a number has none."""
        known = self.known
        host = urlsplit(known.get("aws_endpoint", "")).hostname or ""
        wanted = _is_true(known.get("aws_virtual_hosted_style_request"))
        return wanted and "." in host and re.fullmatch(r"[\d.]+", host) is None

    def _style_for_lance(self, endpoint: str | None, bucket: str) -> dict[str, str]:
        """Return how Lance finds a bucket on a server of one's own, as boto3 finds it.

        Where hosts name buckets it takes the address it is given for the bucket's: with that of the
        server it would read and write another bucket, of the name that the path begins with.
        """
        if endpoint is None or "aws_virtual_hosted_style_request" not in self.known:
            return {}
        if not self._hosts_name_buckets or "." in bucket:
            return {"aws_virtual_hosted_style_request": "false"}
        scheme, _, host = endpoint.partition("://")
        return {"aws_endpoint": f"{scheme}://{bucket}.{host}"}

    @property
    def _endpoint(self) -> str | None:
        """The address of a server of one's own, which clients may repeat in what they say."""
        endpoint = self.known.get("aws_endpoint")
        if endpoint is None:
            return None
        if not endpoint.startswith(("http://", "https://")):
            detail = "is no address of a server; it begins with https:// or http://"
            raise StorageError("configuration", self.place(), detail)
        if "@" in endpoint:
            detail = "is given with a user or password, which no S3 server takes; it takes keys"
            raise StorageError("configuration", self.place(), detail)
        return endpoint

    def place(self) -> str:
        """Name the server these settings lead to, for errors."""
        known = self.known
        if endpoint := known.get("aws_endpoint"):
            # Without what stands before an @, which would be a password.
            scheme, slashes, rest = endpoint.rpartition("://")
            return f"{scheme}{slashes}{rest.rpartition('@')[2]}"
        return f"AWS in {known['aws_region']}" if "aws_region" in known else "AWS"

    def __repr__(self) -> str:
        return f"StorageSettings({', '.join(key for key, _ in self.items)})"


def _source(known: Mapping[str, Any]) -> CredentialSource | None:
    if CREDENTIALS in known:
        return user_source(known[CREDENTIALS])
    if "aws_access_key_id" in known or _is_unsigned(known):
        return None
    return chain_source(known.get("aws_profile"))


def _is_unsigned(known: Mapping[str, Any]) -> bool:
    return _is_true(known.get("aws_skip_signature"))


def _is_true(text: str | None) -> bool:
    return (text or "").lower() in ("1", "true")
