"""The command line on a terminal of a given width, in this process: others start slowly."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pytest

from omnigraph_spark.cli import main

_STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}


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
