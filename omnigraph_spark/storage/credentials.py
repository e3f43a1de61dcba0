"""Keys that expire: where they come from, and when new ones are fetched.

A source is a function that returns keys: one a user gave, or boto3's own search through profiles,
containers and instance roles. Keys are fetched once per process and again before they expire. They
travel with their source to other processes, which fetch only when these run out.
"""

from __future__ import annotations

import datetime as dt
import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

from omnigraph_spark.errors import InvalidOptionError, OmnigraphError, StorageError

#: New keys are fetched so long before the old ones expire, or in the last quarter of a short life.
_MARGIN_SECONDS = 300.0
#: While old keys are good still, a source that failed is asked again after so long, or sooner when
#: little is left of their life.
_PAUSE_SECONDS = 15.0
#: What a user's function may call its answers; AWS's own answers fit as they are.
_NAMES = {
    "accesskeyid": "access_key_id",
    "secretaccesskey": "secret_access_key",
    "sessiontoken": "session_token",
    "token": "session_token",
    "expiration": "expires_at",
    "expiresat": "expires_at",
    "expirytime": "expires_at",
}
_ACCEPTED = (
    "a function that returns access_key_id, secret_access_key and, where they apply, session_token "
    "and expires_at"
)

Fetch = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Keys:
    """What requests are signed with; never printed."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    #: Unix seconds; None for keys that do not expire.
    expires_at: float | None = None
    #: When to fetch the next ones; no property of the keys.
    refresh_at: float | None = field(default=None, compare=False)

    def settings(self) -> dict[str, str]:
        """Return the keys under Lance's names."""
        named = {
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": self.secret_access_key,
            "aws_session_token": self.session_token,
        }
        return {name: value for name, value in named.items() if value}


class CredentialSource:
    """A place keys come from; two of the same name are one."""

    def __init__(self, name: str, fetch: Fetch) -> None:
        #: ``module:function`` where another process can find the function by it.
        self.name = name
        self._fetch = fetch

    def keys(self) -> Keys:
        """Return keys that are good for a while; fetches them when there are none."""
        with _lock:
            known = _fetched.get(self.name)
            now = time.time()
            if known is not None and (known.refresh_at is None or now < known.refresh_at):
                return known
            try:
                found = read_keys(self._fetch(), now)
            except Exception as error:
                # Whatever a user's function raises: what there is is used for as long as it can be,
                # also by a process that has no search of its own.
                if known is not None and known.expires_at is not None and now < known.expires_at:
                    pause = min(_PAUSE_SECONDS, (known.expires_at - now) / 4)
                    _fetched[self.name] = replace(known, refresh_at=now + pause)
                    return known
                if isinstance(error, OmnigraphError):
                    raise
                # Its text is its author's, and may say what must not be repeated.
                detail = f"storage.credentials raised {type(error).__name__}"
                raise StorageError("configuration", "AWS credentials", detail) from error
            _fetched[self.name] = found
            return found

    @property
    def is_known_elsewhere(self) -> bool:
        """Whether another process can fetch from the source when it has only its name."""
        return not self.name.startswith(_FUNCTION)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CredentialSource) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"CredentialSource({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.name, self._fetch, _fetched.get(self.name))


#: How the names of functions begin that only this process knows.
_FUNCTION = "function "
_PROCESS = uuid4().hex
_functions: dict[str, Fetch] = {}
#: The newest keys of each source, in this process.
_fetched: dict[str, Keys] = {}
_lock = threading.RLock()


def _unlock() -> None:
    global _lock
    _lock = threading.RLock()


# Another thread of the parent may be fetching.
os.register_at_fork(after_in_child=_unlock)


def _arrived(name: str, fetch: Fetch, keys: Keys | None) -> CredentialSource:
    """Take up a source in another process, with the keys it was sent with if they are newer."""
    with _lock:
        known = _fetched.get(name)
        if keys is not None and (
            known is None or (keys.expires_at or 0.0) > (known.expires_at or 0.0)
        ):
            _fetched[name] = keys
    return CredentialSource(name, fetch)


def user_source(given: Fetch | str) -> CredentialSource:
    """Return the source behind what a user gave: a function, or its name as ``module:function``."""
    if isinstance(given, str):
        return CredentialSource(given, partial(_call, given))
    name = importable_name(given)
    if name is not None:
        return CredentialSource(name, partial(_call, name))
    if not callable(given):
        raise InvalidOptionError("storage.credentials", type(given).__name__, _ACCEPTED)
    name = f"{_FUNCTION}{_PROCESS}-{id(given)}"
    # Kept for good: another function must not come by its number, and with it by its keys.
    _functions[name] = given
    return CredentialSource(name, given)


def importable_name(function: Any) -> str | None:
    """Return ``module:function`` when another process finds the function by it, else None."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return f"{module}:{name}" if found is function else None


def chain_source(profile: str | None) -> CredentialSource:
    """Return boto3's own search; `profile` is a section of the AWS configuration files."""
    return CredentialSource(f"boto3 {profile or ''}".strip(), partial(_search, profile))


def _call(name: str) -> Mapping[str, Any]:
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        accepted = "module:function of a function that this process can import"
        raise InvalidOptionError("storage.credentials", name, accepted) from error
    answer: Mapping[str, Any] = found()
    return answer


def _search(profile: str | None) -> Mapping[str, Any]:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = boto3.Session(profile_name=profile).get_credentials()
        frozen = None if found is None else found.get_frozen_credentials()
    except (BotoCoreError, ClientError) as error:
        raise StorageError("configuration", "AWS credentials", str(error)) from error
    if found is None or frozen is None:
        detail = (
            "none found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, the options "
            "storage.access_key_id and storage.secret_access_key, or storage.credentials"
        )
        raise StorageError("configuration", "AWS credentials", detail)
    return {
        "access_key_id": frozen.access_key,
        "secret_access_key": frozen.secret_key,
        "session_token": frozen.token,
        # Only keys that boto3 renews itself have one; it has no public name.
        "expires_at": getattr(found, "_expiry_time", None),
    }


def read_keys(answer: Mapping[str, Any], now: float) -> Keys:
    """Read what a function answered; values are never repeated in an error."""
    if not isinstance(answer, Mapping):
        raise InvalidOptionError("storage.credentials", type(answer).__name__, _ACCEPTED)
    folded = {str(name).lower().replace("_", "").removeprefix("aws"): name for name in answer}
    known = {_NAMES[short]: answer[name] for short, name in folded.items() if short in _NAMES}
    if not known.get("access_key_id") or not known.get("secret_access_key"):
        names = ", ".join(sorted(map(str, answer))) or "nothing"
        raise InvalidOptionError("storage.credentials", f"an answer with {names}", _ACCEPTED)
    token = known.get("session_token")
    expires = _seconds(known.get("expires_at"))
    if expires is not None and expires <= now:
        raise StorageError("configuration", "AWS credentials", "the keys fetched had expired")
    return Keys(
        access_key_id=str(known["access_key_id"]),
        secret_access_key=str(known["secret_access_key"]),
        session_token=str(token) if token else None,
        expires_at=expires,
        refresh_at=None if expires is None else expires - min(_MARGIN_SECONDS, (expires - now) / 4),
    )


def _seconds(when: Any) -> float | None:
    if when is None:
        return None
    if isinstance(when, (int, float)):
        return float(when)
    try:
        time_ = when if isinstance(when, dt.datetime) else dt.datetime.fromisoformat(str(when))
    except ValueError as error:
        accepted = "a time, ISO 8601 text or Unix seconds"
        raise InvalidOptionError("expires_at", "another text", accepted) from error
    return (time_ if time_.tzinfo else time_.replace(tzinfo=dt.UTC)).timestamp()
