"""A network between us and an S3 server that does what networks do, on demand and by seed.

Every request passes through `S3Proxy`. A plan looks at each and names a fault, or none. What had
been done when a fault struck is written down, so that a test can tell a request that never arrived
from an answer that got lost.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Fault(StrEnum):
    """What may happen to a request."""

    RESET = "connection reset before the request arrives"
    LOST_ANSWER = "done, and the answer lost"
    SLOW_DOWN = "503 SlowDown, not done"
    LATE = "answered late"
    TRUNCATED = "the body breaks off"
    STALE_LIST = "a page as it was before"
    EXPIRED = "400 ExpiredToken, not done"
    DENIED = "403 AccessDenied, not done"
    CONFLICT = "409 ConditionalRequestConflict, not done"
    #: Until whoever asked gives up, at most `S3Proxy.silent_seconds`.
    SILENT = "taken, and never answered"
    #: Only in plans that wait for it (`S3Proxy.arrived`): nothing tells it from one that was lost.
    DELAYED = "the connection lost, and done a moment later"


@dataclass(frozen=True)
class Call:
    """A request as a plan sees it."""

    method: str
    path: str
    query: str
    conditional: bool
    #: Whom the request is signed by.
    access_key: str

    @property
    def kind(self) -> str:
        """``GET``, ``PUT``, ``HEAD``, ``DELETE``, ``POST``, or ``LIST`` for a listing."""
        return "LIST" if self.method == "GET" and "list-type=" in self.query else self.method

    def __str__(self) -> str:
        return f"{self.kind} {self.path}{' if absent' if self.conditional else ''}"


Plan = Callable[[Call], Fault | None]


def no_faults(call: Call) -> None:
    """Let everything pass."""


def once(fault: Fault, where: Callable[[Call], bool], times: int = 1) -> Plan:
    """Strike the first requests of a kind."""
    return sometimes(fault, where, range(times))


def always(fault: Fault, where: Callable[[Call], bool]) -> Plan:
    """Strike all requests of a kind."""
    return lambda call: fault if where(call) else None


def sometimes(fault: Fault, where: Callable[[Call], bool], which: Sequence[int]) -> Plan:
    """Strike those requests of a kind whose numbers are given, from 0."""
    lock, seen = threading.Lock(), 0

    def plan(call: Call) -> Fault | None:
        nonlocal seen
        if not where(call):
            return None
        with lock:
            seen += 1
            return fault if seen - 1 in which else None

    return plan


def burst(fault: Fault, begins: Callable[[Call], bool], seconds: float) -> Plan:
    """From the first request of a kind on, strike all requests for some seconds."""
    began: list[float] = []

    def plan(call: Call) -> Fault | None:
        if not began and begins(call):
            began.append(time.monotonic())
        return fault if began and time.monotonic() - began[0] < seconds else None

    return plan


#: What a seeded plan draws from, and how often; latency most, as in life.
_WEIGHTS = {
    Fault.RESET: 3,
    Fault.LOST_ANSWER: 4,
    Fault.SLOW_DOWN: 3,
    Fault.LATE: 4,
    Fault.TRUNCATED: 2,
    Fault.STALE_LIST: 2,
    Fault.DELAYED: 2,
    # Conditional puts are few, and these two end the writer: there is no second try.
    Fault.CONFLICT: 4,
    Fault.EXPIRED: 1,
    Fault.DENIED: 1,
}
#: The requests that a fault suits, where not all.
_SUITS: dict[Fault, Callable[[Call], bool]] = {
    Fault.TRUNCATED: lambda call: call.kind in ("GET", "LIST"),
    Fault.STALE_LIST: lambda call: call.kind == "LIST",
    Fault.DELAYED: lambda call: call.kind in ("PUT", "POST", "DELETE"),
    Fault.CONFLICT: lambda call: call.conditional,
}


def seeded(seed: int, rate: float) -> Plan:
    """Strike a share of all requests with faults that suit them, the same ones for a seed.

    Whoever follows it waits for requests that were delayed before judging (`S3Proxy.arrived`).

    Which request is which number depends on threads; which numbers are struck does not.
    """
    draw, lock = random.Random(seed), threading.Lock()

    def plan(call: Call) -> Fault | None:
        with lock:
            struck = draw.random() < rate
            fault = draw.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        suits = _SUITS.get(fault, lambda call: True)
        return fault if struck and suits(call) else None

    return plan


class S3Proxy:
    """A running proxy; `struck` says which requests met which fault."""

    def __init__(self, endpoint: str) -> None:
        target = urlsplit(endpoint)
        self._host, self._port = str(target.hostname), int(target.port or 80)
        self.plan: Plan = no_faults
        self.late_seconds = 0.05
        self.delay_seconds = 0.3
        self.silent_seconds = 60.0
        #: Ends all silence.
        self.heard = threading.Event()
        self._delayed: list[threading.Timer] = []
        self.struck: list[tuple[Fault, Call]] = []
        self.calls: list[Call] = []
        self._lock = threading.Lock()
        #: The newest answer to each listing, and the one that differed from it before.
        self._pages: dict[str, tuple[bytes, bytes]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def faults(self, plan: Plan) -> Iterator[list[tuple[Fault, Call]]]:
        """Follow a plan for as long as the block lasts; yields what was struck."""
        self.struck, self.plan = [], plan
        self.heard.clear()
        try:
            yield self.struck
        finally:
            self.plan = no_faults
            self.heard.set()

    def ledger(self) -> Counter[str]:
        """How many requests of which kind met which fault since `faults` began."""
        return Counter(f"{call.kind}: {fault.value}" for fault, call in self.struck)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def decide(self, call: Call) -> Fault | None:
        fault = self.plan(call)
        with self._lock:
            self.calls.append(call)
            if fault is not None:
                self.struck.append((fault, call))
        return fault

    def forward(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=30)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def forward_later(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        """Let a request arrive once whoever sent it has given it up or sent another."""
        timer = threading.Timer(self.delay_seconds, self.forward, (method, target, headers, body))
        timer.daemon = True
        with self._lock:
            self._delayed.append(timer)
        timer.start()

    def arrived(self) -> None:
        """Wait until no request is under way any more, as recovery does by leases."""
        with self._lock:
            delayed, self._delayed = self._delayed, []
        for timer in delayed:
            timer.join()

    def page(self, target: str, body: bytes, stale: bool) -> bytes:
        """Remember the answer to a listing; return it, or the one before."""
        with self._lock:
            newest, before = self._pages.get(target, (body, body))
            if body != newest:
                newest, before = body, newest
            self._pages[target] = newest, before
            return before if stale else newest


def _handler(proxy: S3Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self._body()
            headers = {name: value for name, value in self.headers.items() if name != "Connection"}
            target = urlsplit(self.path)
            call = Call(
                method=self.command,
                path=unquote(target.path),
                query=unquote(target.query),
                conditional="If-None-Match" in self.headers,
                access_key=self.headers.get("Authorization", "")
                .partition("Credential=")[2]
                .split("/")[0],
            )
            fault = proxy.decide(call)
            if fault is Fault.SILENT:
                proxy.heard.wait(proxy.silent_seconds)
            if fault in (Fault.RESET, Fault.SILENT):
                return self._reset()
            if fault is Fault.SLOW_DOWN:
                return self._refuse(503, "SlowDown", "Please reduce your request rate.")
            if fault is Fault.EXPIRED:
                return self._refuse(400, "ExpiredToken", "The provided token has expired.")
            if fault is Fault.DENIED:
                return self._refuse(403, "AccessDenied", "Access Denied")
            if fault is Fault.CONFLICT:
                return self._refuse(409, "ConditionalRequestConflict", "Another write is under way")
            if fault is Fault.DELAYED:
                proxy.forward_later(self.command, self.path, headers, body)
                return self._reset()
            if fault is Fault.LATE:
                time.sleep(proxy.late_seconds)
            status, answered, content = proxy.forward(self.command, self.path, headers, body)
            if call.kind == "LIST" and status == 200:
                content = proxy.page(self.path, content, fault is Fault.STALE_LIST)
            if fault is Fault.LOST_ANSWER:
                return self._reset()
            return self._answer(status, answered, content, fault is Fault.TRUNCATED)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass

        def _body(self) -> bytes:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                del self.headers["Transfer-Encoding"]
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _answer(
            self, status: int, headers: list[tuple[str, str]], content: bytes, cut: bool
        ) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            length = next((v for n, v in headers if n.lower() == "content-length"), None)
            whole = length if self.command == "HEAD" and length else str(len(content))
            self.send_header("Content-Length", whole)
            self.end_headers()
            if self.command == "HEAD":
                return
            if cut and content:
                self.wfile.write(content[: len(content) // 2])
                self._reset()
                return
            self.wfile.write(content)

        def _refuse(self, status: int, code: str, message: str) -> None:
            text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
            content = b"" if self.command == "HEAD" else text.encode()
            self._answer(status, [("Content-Type", "application/xml")], content, False)

        def _reset(self) -> None:
            """End the connection with nothing said."""
            self.close_connection = True
            try:
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The other side was faster.
                return

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, TimeoutError, ValueError):
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            return None

    return Handler


@contextmanager
def s3_proxy(endpoint: str) -> Iterator[S3Proxy]:
    """Run a proxy in front of a server for as long as the block lasts."""
    proxy = S3Proxy(endpoint)
    try:
        yield proxy
    finally:
        proxy.close()
