"""Secrets that tests use, each recognisable, and the search for them in what a run leaves behind.

Servers of the tests are reached with these keys. Whatever a test prints or logs, and Spark's event
logs, are searched for them by `tests/conftest.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: What moto is reached with, what the gateway is reached with, and a token that nobody checks.
MOTO, GATEWAY, TOKEN = "moto-secret-5b1e7c40", "gateway-secret-9f8e7d21", "token-secret-3ad06f55"
ALL = (MOTO, GATEWAY, TOKEN)


def moto_keys() -> dict[str, str]:
    """For `storage.credentials`: settings of a running session must hold no keys."""
    return {"access_key_id": "testing", "secret_access_key": MOTO, "session_token": TOKEN}


def gateway_keys() -> dict[str, str]:
    """The same for the gateway, which checks them."""
    return {"access_key_id": "gateway", "secret_access_key": GATEWAY}


def leaked(texts: Iterable[str]) -> list[str]:
    """The first letters of secrets that are in a text."""
    found = {secret for text in texts for secret in ALL if secret in text}
    return sorted(secret.partition("-")[0] for secret in found)


def leaked_in(folder: Path) -> list[str]:
    """Secrets in the files below a folder, with the names of the files."""
    found = []
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        found += [f"{path.name}: {name}" for name in leaked([content.decode("latin-1")])]
    return found
