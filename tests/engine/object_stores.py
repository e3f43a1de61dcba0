"""The object stores that tests run on: moto always, a production gateway where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.helpers.s3 import S3Server
from tests.helpers.versitygw import MISSING, Gateway, gateway, gateway_binary

Server = S3Server | Gateway
NAMES = ["moto", "versitygw"]


def hadoop_settings(server: Server) -> dict[str, str]:
    """What reaches a server, as a session says it to Hadoop's own client."""
    known = server.storage_options
    return {
        "fs.s3a.access.key": known["aws_access_key_id"],
        "fs.s3a.secret.key": known["aws_secret_access_key"],
        "fs.s3a.endpoint": server.endpoint,
        "fs.s3a.endpoint.region": known["aws_region"],
        "fs.s3a.path.style.access": "true",
    }


@contextmanager
def running(name: str, moto: S3Server) -> Iterator[Server]:
    """Yield the server of a name; moto runs already."""
    if name == "moto":
        yield moto
        return
    binary = gateway_binary()
    if binary is None:
        pytest.skip(MISSING)
    with gateway(binary) as server:
        yield server
