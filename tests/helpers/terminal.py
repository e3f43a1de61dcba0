"""The command line on a terminal: of a given width in this process, or typed at in another."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self
from unittest.mock import patch

import pytest

from omnigraph_spark.cli import main

_STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}
#: The first terminal that a process without one opens is its own: Ctrl-C on it is a signal, which
#: tests that run in the background of a shell hand on as ignored.
_OWN_TERMINAL = """
import os, signal, sys
for fd in (0, 1, 2):
    os.dup2(os.open(sys.argv[1], os.O_RDWR), fd)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
#: A start of Python on a busy machine; nothing that is typed takes as long.
_PATIENCE = 60.0


def on_terminal(columns: int, *arguments: str, code: int = 0) -> str:
    """Run the command line on a terminal of that many columns, and return what it shows."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    shown: list[bytes] = []
    reading = threading.Thread(target=_read, args=(outer, shown))
    reading.start()
    try:
        with _standing_in(inner), pytest.raises(SystemExit) as ended:
            main(arguments)
    finally:
        # Nobody has the terminal open any more: the reader is at its end.
        os.close(inner)
        reading.join()
        os.close(outer)
    assert ended.value.code == code
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(shown).decode()).replace("\r", "")


def _read(outer: int, shown: list[bytes]) -> None:
    try:
        while part := os.read(outer, 4096):
            shown.append(part)
    except OSError:
        return


@contextmanager
def _standing_in(terminal: int) -> Iterator[None]:
    """A terminal as the three streams, files and all, in the environment and with the warnings of a
    program that was just started."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, {"TERM": "xterm", "NO_COLOR": "1"}))
        os.environ.pop("COLUMNS", None)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("default")
        for number, (name, mode) in enumerate(_STREAMS.items()):
            before = os.dup(number)
            stack.callback(os.close, before)
            stack.callback(os.dup2, before, number)
            os.dup2(terminal, number)
            stream = stack.enter_context(open(number, mode, closefd=False, encoding="utf-8"))
            stack.enter_context(patch.object(sys, name, stream))
        yield


class Typing:
    """A Python program on a terminal of its own, where keys, such as Ctrl-C, do what they do."""

    def __init__(self, program: str) -> None:
        self.shown = ""
        self._unseen = ""
        self._outer, inner = pty.openpty()
        command = [sys.executable, "-W", "ignore", "-c", _OWN_TERMINAL + program, os.ttyname(inner)]
        environment = {**os.environ, "TERM": "dumb"}
        self._process = subprocess.Popen(command, start_new_session=True, env=environment)
        # Kept until the program has opened it: without anybody on it a terminal is at its end.
        self._inner = inner

    def type(self, keys: str) -> Self:
        """Type keys."""
        os.write(self._outer, keys.encode())
        return self

    def see(self, expected: str) -> Self:
        """Wait until a text is shown, after what was seen before."""
        assert self._sees(expected, _PATIENCE), f"{expected!r} is not shown after {self.shown!r}"
        return self

    def interrupt(self, expected: str) -> Self:
        """Type Ctrl-C, and wait until a text is shown.

        One that comes between a prompt and the wait for keys is only noticed with the next key.
        """
        assert any(self.type("\x03")._sees(expected, _PATIENCE / 10) for _ in range(10))
        return self

    def _sees(self, expected: str, seconds: float) -> bool:
        while expected not in self._unseen:
            ready, *_ = select.select([self._outer], [], [], seconds)
            if not ready:
                return False
            part = os.read(self._outer, 4096).decode()
            self.shown += part
            self._unseen += part
        self._unseen = self._unseen.partition(expected)[2]
        return True

    @property
    def code(self) -> int:
        """The exit code."""
        return self._process.wait(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.wait(_PATIENCE)
        os.close(self._inner)
        os.close(self._outer)
