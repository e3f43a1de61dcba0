"""An S3 server on the loopback interface that writes down every request it gets.

It is moto behind its usual HTTP server, so Lance, boto3 and Spark's workers (other processes) all
reach it, and a test can count what an operation costs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

import boto3
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from tests.helpers import secrets

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_HOST = "127.0.0.1"
_REGION = "us-east-1"
_ACCESS_KEY = "testing"
_SECRET_KEY = secrets.MOTO

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Request:
    """One request: method, path with bucket, query, the range it asked for, the answer's status."""

    method: str
    path: str
    query: str
    range: str
    status: int

    @property
    def kind(self) -> str:
        """``GET``, ``PUT``, ``HEAD``, ``DELETE``, ``POST``, or ``LIST`` for a listing."""
        return "LIST" if self.method == "GET" and "list-type=" in self.query else self.method

    def __str__(self) -> str:
        query = f"?{self.query}" if self.query else ""
        span = f" {self.range}" if self.range else ""
        return f"{self.kind} {self.path}{query}{span} -> {self.status}"


class _QuietHandler(MotoRequestHandler):  # type: ignore[misc]  # moto has no types
    """moto's handler without its line per request on stderr: `requests()` has them."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        return None


class S3Server:
    """A running server; `requests()` since the last `reset()`, in the order they were answered."""

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._lock = threading.Lock()
        app = self._recording(DomainDispatcherApplication(create_backend_app))
        self._server = make_server(_HOST, 0, app, threaded=True, request_handler=_QuietHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://{_HOST}:{self._server.server_port}"

    @property
    def storage_options(self) -> dict[str, str]:
        """What Lance needs to reach this server."""
        return {
            "aws_access_key_id": _ACCESS_KEY,
            "aws_secret_access_key": _SECRET_KEY,
            "aws_region": _REGION,
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
            "aws_virtual_hosted_style_request": "false",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as environment variables, for boto3 and for other processes."""
        return {
            "AWS_ACCESS_KEY_ID": _ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET_KEY,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_REGION": _REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    def client(self) -> S3Client:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=_REGION,
            aws_access_key_id=_ACCESS_KEY,
            aws_secret_access_key=_SECRET_KEY,
        )

    def make_bucket(self) -> str:
        """Create a bucket of a new name; tests that share the server do not share buckets."""
        name = f"graphs-{uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name

    def upload(self, local_root: Path, uri: str) -> str:
        """Copy a folder to ``s3://bucket/prefix`` as it is and return that address."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        client = self.client()
        for path in sorted(local_root.rglob("*")):
            # Lance keeps this hint on local disks only; on S3 it would be a file nobody maintains.
            if path.is_file() and path.name != "latest_version_hint.json":
                key = f"{prefix.rstrip('/')}/{path.relative_to(local_root)}"
                client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
        return uri

    def requests(self) -> list[Request]:
        with self._lock:
            return list(self._requests)

    def reset(self) -> None:
        """Forget the requests so far."""
        with self._lock:
            self._requests.clear()

    def counts(self) -> Counter[str]:
        """How many requests of each kind."""
        return Counter(request.kind for request in self.requests())

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _recording(self, app: WsgiApp) -> WsgiApp:
        def record(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            def note(status: str, *rest: Any) -> Any:
                request = Request(
                    method=environ["REQUEST_METHOD"],
                    path=unquote(environ["PATH_INFO"]),
                    query=unquote(environ.get("QUERY_STRING", "")),
                    range=environ.get("HTTP_RANGE", ""),
                    status=int(status.split()[0]),
                )
                with self._lock:
                    self._requests.append(request)
                return start_response(status, *rest)

            return app(environ, note)

        return record


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server for as long as the block lasts."""
    server = S3Server()
    try:
        yield server
    finally:
        server.close()
