"""A local disk that refuses: every failure is told as one of storage, with its place."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from omnigraph_spark.errors import ConflictError, StorageError
from omnigraph_spark.storage.local_objects import LocalObjects
from omnigraph_spark.storage.locks import writer_lock
from omnigraph_spark.storage.settings import StorageSettings


def test_a_file_that_may_not_be_looked_at_is_named_when_its_folder_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("seen", "hidden"):
        (tmp_path / name).touch()
    look = os.stat

    def refuse(path: Any, **how: Any) -> os.stat_result:
        if str(path).endswith("hidden"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return look(path, **how)

    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(StorageError, match="hidden") as refused:
        list(LocalObjects().listing(str(tmp_path)))
    assert refused.value.kind == "permission"


def test_the_lock_file_of_another_user_is_taken_though_it_may_only_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer_lock(str(tmp_path), "main", StorageSettings()):
        pass
    really_open = os.open

    def refuse(path: Any, flags: int, *how: Any) -> int:
        if str(path).endswith(".lock") and flags & os.O_ACCMODE != os.O_RDONLY:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return really_open(path, flags, *how)

    monkeypatch.setattr(os, "open", refuse)
    with (
        writer_lock(str(tmp_path), "main", StorageSettings()),
        pytest.raises(ConflictError, match="'main'"),
        writer_lock(str(tmp_path), "main", StorageSettings(), wait_seconds=0),
    ):
        pytest.fail("two held one lock")


#: Holds the lock of main below argv[1] and forks a child, which lives until its input ends.
#: Then it gives the lock up and says so, or dies.
HOLDER = """
import os, sys
from omnigraph_spark.storage.locks import writer_lock
from omnigraph_spark.storage.settings import StorageSettings

_, root, end = sys.argv
with writer_lock(root, "main", StorageSettings()):
    child = os.fork()
    if child == 0:
        sys.stdin.read()
        os._exit(0)
    if end == "dies":
        os._exit(0)
print("over", flush=True)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("end", ["gives up", "dies"])
def test_a_lock_ends_with_its_holder_although_a_child_was_forked_meanwhile(
    tmp_path: Path, end: str
) -> None:
    """Pools of processes are forked at any time, and live for as long as their program, or longer.

    The kernel keeps a lock for as long as any process has the file open that a fork has opened too.
    """
    holder = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HOLDER, str(tmp_path), end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder, holder.stdin, holder.stdout:
        if end == "dies":
            assert holder.wait(60) == 0
        else:
            assert holder.stdout.readline() == b"over\n"
        with writer_lock(str(tmp_path), "main", StorageSettings(), wait_seconds=0):
            pass


@pytest.mark.parametrize("known", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_written_to_and_one_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    said = [known]

    def refuse(*_: object) -> None:
        raise OSError(said[0], os.strerror(said[0]))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with writer_lock(str(tmp_path), "main", StorageSettings()):
        pass
    said[0] = errno.EIO
    with (
        pytest.raises(StorageError, match=r"main\.lock"),
        writer_lock(str(tmp_path), "main", StorageSettings()),
    ):
        pytest.fail("a lock that failed was held")
