"""The installed program on a terminal of a given width."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path


def on_terminal(columns: int, *arguments: str, code: int = 0) -> str:
    """Run the program with a terminal of that many columns, and return what it shows."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    program = Path(sys.executable).with_name("omnigraph-spark")
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [program, *arguments], stdin=inner, stdout=inner, stderr=inner, env=environment
    ) as running:
        os.close(inner)
        shown = b""
        with contextlib.suppress(OSError):
            while part := os.read(outer, 4096):
                shown += part
        assert running.wait() == code
    os.close(outer)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "")
