"""Programs of Spark's distribution started by tests: in a folder of their own, ended with them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.helpers import secrets

#: Far above what a server takes to start on a busy machine.
_PATIENCE_S = 180.0
_CONF = Path(__file__).parent.parent.parent / "conf"
_SMALL = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # The default makes a database of Hive's in the working folder.
    "spark.sql.catalogImplementation": "in-memory",
}


def spark_program(name: str) -> str:
    """The path of a program such as `spark-sql`."""
    return str(Path(pyspark.__file__).parent / "bin" / name)


def settings(more: Mapping[str, str]) -> list[str]:
    """Settings of a small session as arguments."""
    return [
        part for key, value in {**_SMALL, **more}.items() for part in ("--conf", f"{key}={value}")
    ]


def environment() -> dict[str, str]:
    """The environment of a program whose workers are this interpreter."""
    python = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **python, "SPARK_HOME": str(Path(pyspark.__file__).parent)}


@contextmanager
def connect_server(folder: Path, root: str | None = None, **more: str) -> Iterator[str]:
    """A Spark Connect server, which logs no secret; yields its address.

    With a graph it is started by the script in `conf/`, with the logging that is beside it.
    """
    port = _free_port()
    if root is None:
        server_class = "org.apache.spark.sql.connect.service.SparkConnectServer"
        told = settings({"spark.connect.grpc.binding.port": str(port), **more})
        submit = [spark_program("spark-submit"), "--class", server_class]
        command = [*submit, *told, "spark-internal"]
    else:
        logging = f"-Dlog4j2.configurationFile={(_CONF / 'log4j2.properties').as_uri()}"
        options = ["--driver-java-options", logging, *settings(more)]
        command = [str(_CONF / "connect-server.sh"), root, *options]
    log = folder / "connect.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment(), "PORT": str(port)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait(server, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=60)
    assert secrets.leaked([log.read_text(errors="replace")]) == []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text(errors="replace")[-3000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")
