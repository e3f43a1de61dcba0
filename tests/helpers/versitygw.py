"""A production S3 gateway on the loopback interface: versitygw, which `make s3-server` installs.

It checks signatures and keys, which moto does not, and each folder below its own is a bucket.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

from tests.helpers import secrets

_REPOSITORY = Path(__file__).parent.parent.parent
_ACCESS_KEY, _SECRET_KEY = "gateway", secrets.GATEWAY
MISSING = "versitygw is not installed: make s3-server (it needs Go)"


def gateway_binary() -> Path | None:
    """Where `make s3-server` put the gateway, or OMNIGRAPH_VERSITYGW; None without one."""
    named = os.environ.get("OMNIGRAPH_VERSITYGW")
    found = Path(named) if named else _REPOSITORY / ".tools" / "versitygw"
    return found if found.is_file() else None


class Gateway:
    """A running gateway."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.endpoint = endpoint
        self._folder = folder

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": _ACCESS_KEY,
            "aws_secret_access_key": _SECRET_KEY,
            "aws_region": "us-east-1",
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
            "aws_virtual_hosted_style_request": "false",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables, as the engine reads them."""
        return {
            "AWS_ACCESS_KEY_ID": _ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_FORCE_PATH_STYLE": "true",
        }

    def make_bucket(self) -> str:
        name = f"graphs-{uuid4().hex[:12]}"
        (self._folder / name).mkdir()
        return name


@contextmanager
def gateway(binary: Path) -> Iterator[Gateway]:
    """Run a gateway for as long as the block lasts."""
    folder = Path(mkdtemp(prefix="omnigraph-versitygw-"))
    port = _free_port()
    keys = {"ROOT_ACCESS_KEY": _ACCESS_KEY, "ROOT_SECRET_KEY": _SECRET_KEY}
    command = [str(binary), "--port", f"127.0.0.1:{port}", "--region", "us-east-1", "--quiet"]
    process = subprocess.Popen(
        [*command, "posix", str(folder)],
        env={**os.environ, **keys},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_it_listens(process, port)
        yield Gateway(f"http://127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, "the gateway ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the gateway does not listen")
