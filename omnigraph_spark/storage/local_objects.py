"""Control files on a local disk: atomic by rename and by hard link."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.objects import Listed, Stat, StoredFile

#: What a file system says of something that is not there, or could not be: a name it cannot store.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
#: What a file system says that has no hard links, or none for this user.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV})
#: How often a folder is deleted that somebody still puts files into.
_DELETIONS = 5


class LocalObjects:
    """Control files on a local disk."""

    def read(self, address: str) -> bytes | None:
        try:
            with open(address, "rb") as file:
                return file.read()
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise _failure(address, error) from error

    def stat(self, address: str) -> Stat | None:
        try:
            status = os.stat(address)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise _failure(address, error) from error
        # Lance's own tag of a local file: inode, modification time in microseconds, size.
        modified_us = status.st_mtime_ns // 1_000
        return Stat(status.st_size, f"{status.st_ino:x}-{modified_us:x}-{status.st_size:x}")

    def listing(self, folder: str, page_size: int = 1000) -> Iterator[Listed]:
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            if error.errno in _ABSENT:
                return
            raise _failure(folder, error) from error
        for name in names:
            # Stat only what the caller takes: probing a version reads one name of thousands.
            path = os.path.join(folder, name)
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _failure(path, error) from error
            # Finer than `stat`: it tells versions apart that were made within a microsecond.
            yield Listed(name, f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}")

    def folders(self, folder: str) -> list[str]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except OSError as error:
            if error.errno in _ABSENT:
                return []
            raise _failure(folder, error) from error

    def files(self, folder: str) -> Iterator[StoredFile]:
        with _failures(folder):
            for below, _, names in os.walk(folder):
                for name in names:
                    path = os.path.join(below, name)
                    # Deleted since it was listed.
                    with suppress(FileNotFoundError):
                        status = os.stat(path)
                        yield StoredFile(
                            os.path.relpath(path, folder), status.st_size, status.st_mtime
                        )

    def exists(self, folder: str) -> bool:
        return os.path.exists(folder)

    def write(self, address: str, data: bytes) -> None:
        with _failures(address), _temporary(address, data) as temporary:
            os.replace(temporary, address)
            _sync_folder(address)

    def put_new(self, address: str, data: bytes) -> bool:
        with _failures(address), _temporary(address, data) as temporary:
            placed = _link(temporary, address)
            _sync_folder(address)
            return placed

    def place(self, source: str, target: str) -> Stat | None:
        # A link has the inode and the times of its source.
        facts = self.stat(source)
        return facts if _link(source, target) else None

    def ending(self, address: str, count: int) -> tuple[int, bytes]:
        """Return the size of a file and its last bytes; a missing one is an error."""
        with _failures(address), open(address, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - count))
            return size, file.read(count)

    def delete(self, address: str) -> None:
        with _failures(address), suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(address)

    def delete_below(self, folder: str, keep: Collection[str] = ()) -> None:
        kept = [os.path.normpath(path) for path in keep]
        with _failures(folder):
            _delete_below(os.path.normpath(folder), kept)


def _link(source: str, target: str) -> bool:
    """Give a file a second name; False when the name belongs to another file."""
    try:
        # A link, because it never replaces: a rename would, and a copy could be seen half done.
        os.link(source, target)
    except OSError as error:
        # A network file system that lost its own answer reports its success as "exists".
        with suppress(OSError):
            if os.path.samefile(source, target):
                return True
        if isinstance(error, FileExistsError):
            return False
        if error.errno in _NO_LINKS:
            folder = os.path.dirname(target)
            needs = "writing needs a file system with hard links, which decide who was first"
            raise StorageError("configuration", folder, needs) from error
        raise _failure(target, error) from error
    return True


def _delete_below(folder: str, kept: list[str]) -> None:
    if folder in kept:
        return
    if not any(path.startswith(folder + os.sep) for path in kept):
        with suppress(FileNotFoundError, NotADirectoryError):
            _delete_tree(folder)
        return
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            _delete_below(entry.path, kept)
        else:
            os.unlink(entry.path)


def _delete_tree(folder: str) -> None:
    for left in reversed(range(_DELETIONS)):
        try:
            shutil.rmtree(folder)
        except OSError as error:
            # A task that is about to be told to end has put a file there meanwhile.
            if error.errno != errno.ENOTEMPTY or not left:
                raise
        else:
            return


@contextmanager
def _temporary(address: str, data: bytes) -> Iterator[str]:
    """Write data beside an address under a name of its own; whatever is left of it goes."""
    folder, name = os.path.split(address)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.{uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _sync_folder(address: str) -> None:
    """Make a new name in a folder survive a power failure."""
    folder = os.open(os.path.dirname(address), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _failures(address: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _failure(address, error) from error


def _failure(address: str, error: OSError) -> StorageError:
    kind = "permission" if isinstance(error, PermissionError) else "permanent"
    return StorageError(kind, address, error.strerror or type(error).__name__)
