"""Where records come from: a file, a folder, a pattern, text, or lines that somebody else reads."""

from __future__ import annotations

import glob
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from omnigraph_spark.errors import InvalidOptionError, StorageError, UnsupportedError
from omnigraph_spark.jsonl.records import Line

#: So many bytes are read before somebody who waits is told.
_TOLD_BYTES = 1 << 20


@dataclass(frozen=True)
class Watched:
    """Files that this process reads while somebody watches: `read` is told of bytes on disk."""

    place: str | os.PathLike[str]
    read: Callable[[int], None]


#: A path or pattern, the text itself (it begins with a brace), or lines.
Source = str | os.PathLike[str] | Iterable[Line] | Watched


@dataclass(frozen=True)
class Text:
    """The lines of one text; `name` says which in messages, if there are several."""

    lines: Iterable[Line]
    name: str | None = None


def total_bytes(place: str | os.PathLike[str]) -> int:
    """Return how many bytes the files have that a path or pattern stands for."""
    return sum(path.stat().st_size for path in _files(os.fspath(place)))


def texts_of(source: Source) -> Iterator[Text]:
    """Yield the texts of a source one after the other; files are open only while they are read.

    >>> [list(text.lines) for text in texts_of('{"type": "Person"}')]
    [[b'{"type": "Person"}']]
    """
    if isinstance(source, str) and source.lstrip()[:1] in ("{", ""):
        # Not `splitlines`: it also splits at characters that JSON allows inside of texts.
        yield Text(io.BytesIO(source.encode("utf-8", "surrogatepass")))
    elif isinstance(source, (str, os.PathLike)):
        for path in _files(os.fspath(source)):
            yield Text(_lines(path), path.name)
    elif isinstance(source, Watched):
        for path in _files(os.fspath(source.place)):
            yield Text(_watched(path, source.read), path.name)
    else:
        yield Text(source)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError("permanent", str(path), str(error)) from error


def _watched(path: Path, read: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the lines of a file; a packed one counts when it is read to its end."""
    size = path.stat().st_size
    seen = untold = 0
    for line in _lines(path):
        yield line
        untold += len(line)
        if untold >= _TOLD_BYTES and seen + untold <= size:
            read(untold)
            seen, untold = seen + untold, 0
    read(size - seen)


def _files(place: str) -> list[Path]:
    """Return the files a path stands for, by name; those whose names begin with . or _ are not."""
    if "://" in place:
        raise UnsupportedError(
            f"reading {place!r} without a SparkSession", "pass its lines, or a local path"
        )
    path = Path(place)
    if path.is_file():
        return [path]
    found = path.iterdir() if path.is_dir() else map(Path, glob.glob(place, recursive=True))
    files = sorted(file for file in found if file.is_file() and file.name[0] not in "._")
    if not files:
        expected = "a file, a folder of files or a pattern that matches some"
        raise InvalidOptionError("source", place, expected)
    return files
