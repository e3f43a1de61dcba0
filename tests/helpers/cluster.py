"""A standalone Spark cluster on the loopback interface: a master and workers as processes.

Executors are processes of the workers, started in folders of their own: they share neither memory
nor working directory with the driver, only the installed package and the disk.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.helpers import secrets

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
# Far above what an idle machine needs; a busy one is no reason to fail.
_PATIENCE_S = 180


class Cluster:
    """A running master and its workers."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder

    def executors(self) -> list[int]:
        """Process ids of all executors of this cluster."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                if b"CoarseGrainedExecutorBackend" in command and self._owns(entry):
                    found.append(int(entry.name))
        return found

    def _owns(self, entry: Path) -> bool:
        return str(self._folder) in os.readlink(entry / "cwd")


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a cluster and end it, with whatever its processes started; none logs a secret."""
    import pyspark

    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = {
        # Whatever executors know of a store they were sent.
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        # The daemons are small; without this each takes a gigabyte.
        "SPARK_DAEMON_MEMORY": "256m",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, host: str, *command: str) -> Path:
        log = folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [spark_class, *command, "--host", host, "--webui-port", "0"],
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**environment, "SPARK_LOCAL_IP": host},
                # A group of its own, so that its executors end with it.
                start_new_session=True,
            )
        started.append(process)
        return log

    try:
        log = start("master", "127.0.0.1", _MASTER, "--port", "0")
        url = waited_for(lambda: _found(r"Starting Spark master at (\S+)", log))
        for number in range(workers):
            own = folder / f"worker-{number}"
            own.mkdir()
            options = ("--cores", "1", "--memory", "700m", "--work-dir", str(own))
            # Hosts of their own: Spark runs no duplicate of a task on the host of the first.
            log = start(f"worker-{number}", f"127.0.0.{number + 1}", _WORKER, url, *options)
            waited_for(lambda log=log: _found(r"Successfully (registered) with master", log))
        yield Cluster(url, folder)
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # What master, workers and executors logged.
    assert secrets.leaked_in(folder) == []


def waited_for(look: Callable[[], str | None]) -> str:
    """What is found once it is there."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come in time")


def _found(pattern: str, log: Path) -> str | None:
    match = re.search(pattern, log.read_text(errors="replace"))
    return match[1] if match else None
