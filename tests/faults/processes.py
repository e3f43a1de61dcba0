"""Processes of one call each: forked from a waiting one, watched, killed at a cut.

The waiting process has imported everything and has used nothing, so a fork of it is as good as a
new process, and costs milliseconds. `python -m tests.faults.processes LIBRARY` is that process.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.shim import Cut, Event, How, Kind, arm, build

_REPOSITORY = Path(__file__).parent.parent.parent
#: What is imported before the first fork; importing starts none of Lance's threads.
_IMPORTS = ("lance", "duckdb", "tests.faults.histories", "tests.faults.plants")


@dataclass(frozen=True)
class Ended:
    """How one call ended: with a value, with an error, or with its process."""

    value: Any = None
    #: The class of the error, its code if it has one, and its text.
    error: str = ""
    code: str | None = None
    text: str = ""
    died: bool = False
    warned: tuple[str, ...] = ()
    #: What it changed below the root, in order, if it was watched.
    events: tuple[Event, ...] = ()


class Processes:
    """The waiting process, and what is asked of it."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server = server
        #: The changes of the call that is watched.
        self.log = folder / "log"

    def call(self, work: str, root: Path | str, *args: Any, cut: Cut | None = None) -> Ended:
        """Run ``module:function(root, *args)`` in a process of its own."""
        self.log.unlink(missing_ok=True)
        asked = {
            "work": work,
            "root": str(root),
            "args": args,
            "cut": None if cut is None else asdict(cut),
            "log": str(self.log),
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        assert answer, "the waiting process is gone"
        told = json.loads(answer)
        told["warned"] = tuple(told.get("warned", ()))
        return Ended(**told, events=self._events())

    def value(self, work: str, root: Path | str, *args: Any) -> Any:
        """Run a call that must work, unwatched."""
        ended = self.call(work, root, *args)
        problem = "it died" if ended.died else f"{ended.error} {ended.text}".strip()
        assert problem == "", f"{work}: {problem}"
        return ended.value

    def _events(self) -> tuple[Event, ...]:
        if not self.log.exists():
            return ()
        return tuple(map(Event.parse, self.log.read_text(encoding="utf-8").splitlines()))


def missing() -> str:
    """Say why nothing can be watched here, if that is so."""
    if not sys.platform.startswith("linux"):
        return "watching system calls needs Linux"
    return "" if build() else "no C compiler: cc, gcc or clang"


@contextmanager
def waiting_process() -> Iterator[Processes]:
    """Start the process that others are forked from, and end it with the block."""
    library = build()
    assert library is not None, missing()
    with tempfile.TemporaryDirectory(prefix="og-faults-") as folder:
        server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.faults.processes", str(library)],
            cwd=_REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        try:
            yield Processes(server, Path(folder))
        finally:
            for pipe in (server.stdin, server.stdout):
                assert pipe is not None
                pipe.close()
            server.wait(30)


# -- the other side --------------------------------------------------------------------------------


def _serve(library: Path) -> None:
    for module in _IMPORTS:
        importlib.import_module(module)
    for line in sys.stdin:
        told = _forked(library, json.loads(line))
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def _forked(library: Path, asked: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(2, 1)
        told = _run(library, asked)
        with open(writing, "w", encoding="utf-8") as pipe:
            json.dump(told, pipe)
        # Nothing is flushed or closed on the way: a process that is done is gone.
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    # Whoever did not get to its answer is dead, by a signal or by its own hand.
    return dict(json.loads(text)) if text else {"died": True}


def _run(library: Path, asked: dict[str, Any]) -> dict[str, Any]:
    from omnigraph_spark.errors import OmnigraphError

    module, _, name = asked["work"].partition(":")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            work = getattr(importlib.import_module(module), name)
            if asked["cut"] is not None:
                flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
                log_file = os.open(asked["log"], flags, 0o600)
                given = asked["cut"]
                cut = Cut(How(given["how"]), given["at"], given["error"], Kind(given["kinds"]))
                arm(library, asked["root"], cut, log_file)
            told: dict[str, Any] = {"value": work(asked["root"], *asked["args"])}
        except OmnigraphError as error:
            told = {"error": type(error).__name__, "code": error.code, "text": str(error)}
        except BaseException as error:  # noqa: BLE001 - a process reports whatever ended its call
            text = f"{error}\n{''.join(traceback.format_tb(error.__traceback__))}"
            told = {"error": type(error).__name__, "text": text}
    told["warned"] = [str(warning.message) for warning in caught]
    return told


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        _serve(Path(sys.argv[1]))
