"""Parquet files of the user's, on a local disk or S3: which there are, and their rows in portions.

A part is one file, or some row groups of a large one. It is a plain value, read in any process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from omnigraph_spark.errors import InvalidOptionError, StorageError, UnsupportedError
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import canonical_root, is_s3

#: A file above this size is read by several tasks, if it has several row groups: Spark's own target
#: for file scans.
PART_BYTES = 128 << 20
# Small files are read together, but not by fewer tasks than work at the same time.
_SPREAD_OVER = 8
_LEAST_BYTES = 4 << 20
_BATCH_ROWS = 65_536
_PATTERN = frozenset("*?[")
_HIDDEN = ("_", ".")


@dataclass(frozen=True)
class ParquetPart:
    """A Parquet file, or some of its row groups."""

    address: str
    size_bytes: int
    settings: StorageSettings
    row_groups: tuple[int, ...] | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the rows."""
        with _failures(self.address), _opened(self.address, self.settings) as file:
            groups = self.row_groups or range(file.num_row_groups)
            yield from file.iter_batches(batch_size=_BATCH_ROWS, row_groups=list(groups))

    def reader(self) -> pa.RecordBatchReader:
        """Stream the rows, with their schema also where there are none."""
        return pa.RecordBatchReader.from_batches(self._schema(), self.batches())

    def no_rows(self) -> pa.RecordBatchReader:
        """Return the schema alone, as a stream of nothing."""
        return pa.RecordBatchReader.from_batches(self._schema(), [])

    def _schema(self) -> pa.Schema:
        with _failures(self.address), _opened(self.address, self.settings) as file:
            schema: pa.Schema = file.schema_arrow
        return schema


def parquet_parts(place: str, settings: StorageSettings) -> list[ParquetPart]:
    """Return the parts of what a path stands for: a file, a folder or a pattern, by name.

    Files whose names begin with . or _ are left out, as Spark does.
    """
    parts: list[ParquetPart] = []
    for address, size in _files(_canonical(place), settings):
        if size <= PART_BYTES:
            parts.append(ParquetPart(address, size, settings))
            continue
        with _failures(address), _opened(address, settings) as file:
            sizes = [
                file.metadata.row_group(number).total_byte_size
                for number in range(file.num_row_groups)
            ]
        total = max(1, sum(sizes))
        for groups in _grouped(sizes, PART_BYTES * total // size):
            own = sum(sizes[number] for number in groups) * size // total
            parts.append(ParquetPart(address, own, settings, groups))
    if not parts:
        raise InvalidOptionError("path", place, "a Parquet file, a folder of them, or a pattern")
    return parts


def share_out(parts: Sequence[ParquetPart]) -> list[tuple[ParquetPart, ...]]:
    """Return what each task reads: one part, or several small ones."""
    sizes = [part.size_bytes for part in parts]
    most = min(PART_BYTES, max(_LEAST_BYTES, -(-sum(sizes) // _SPREAD_OVER)))
    return [tuple(parts[number] for number in numbers) for numbers in _grouped(sizes, most)]


def _grouped(sizes: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Put neighbours together up to a size."""
    waiting: list[int] = []
    held = 0
    for number, size in enumerate(sizes):
        if waiting and held + size > most:
            yield tuple(waiting)
            waiting, held = [], 0
        waiting.append(number)
        held += size
    if waiting:
        yield tuple(waiting)


def _canonical(place: str) -> str:
    """Return an address without what patterns are made of being taken for something else."""
    if "://" not in place:
        return canonical_root(place)
    scheme, _, rest = place.partition("://")
    head, *tail = rest.split("/")
    plain = 0
    while plain < len(tail) and not _PATTERN & set(tail[plain]):
        plain += 1
    base = canonical_root("/".join((f"{scheme}://{head}", *tail[:plain])))
    return "/".join((base, *tail[plain:]))


def _files(address: str, settings: StorageSettings) -> list[tuple[str, int]]:
    from pyarrow import fs

    store, path = _store(address, settings)
    prefix = address.removesuffix(path)
    segments = path.split("/")
    first = next((at for at, part in enumerate(segments) if _PATTERN & set(part)), len(segments))
    folder, pattern = "/".join(segments[:first]), segments[first:]
    with _failures(address):
        found = store.get_file_info(folder or "/")
        if found.type == fs.FileType.File:
            return [(address, found.size)]
        listed = store.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    chosen = []
    for each in listed:
        below = each.path.removeprefix(folder).lstrip("/").split("/")
        hidden = any(part.startswith(_HIDDEN) for part in below)
        if each.type != fs.FileType.File or hidden or (pattern and not _matches(below, pattern)):
            continue
        if any("=" in part for part in below[:-1]):
            raise UnsupportedError(
                f"importing {prefix}{each.path}, a part of whose values is in the names of folders",
                "read it with spark.read.parquet and write it with graph.write",
            )
        chosen.append((f"{prefix}{each.path}", each.size))
    return sorted(chosen)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether a path below a folder is meant: part by part, `**` being any folders.

    >>> (
    ...     _matches(["a", "x.parquet"], ["*", "*.parquet"]),
    ...     _matches(["a", "x.parquet"], ["*.parquet"]),
    ... )
    (True, False)
    """
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _store(address: str, settings: StorageSettings) -> tuple[Any, str]:
    """Return the file system of an address, and the path there."""
    from pyarrow import fs

    if not is_s3(address):
        return fs.LocalFileSystem(), address
    keys = settings.keys(address)
    known = settings.known | (keys.settings() if keys else {})
    # The same checks, region where none is given, and way to name a bucket as everywhere else.
    arguments = settings.for_boto3(keys)
    endpoint = known.get("aws_endpoint", "")
    store = fs.S3FileSystem(
        access_key=known.get("aws_access_key_id"),
        secret_key=known.get("aws_secret_access_key"),
        session_token=known.get("aws_session_token"),
        anonymous=known.get("aws_skip_signature", "").lower() in ("1", "true"),
        region=arguments["region_name"],
        force_virtual_addressing=arguments["config"].s3["addressing_style"] == "virtual",
        endpoint_override=endpoint.rpartition("://")[2] or None,
        scheme="http" if endpoint.startswith("http://") else "https",
        connect_timeout=3,
        request_timeout=30,
    )
    return store, address.removeprefix("s3://")


@contextmanager
def _opened(address: str, settings: StorageSettings) -> Iterator[Any]:
    from pyarrow import parquet

    store, path = _store(address, settings)
    with store.open_input_file(path) as source:
        # Spark writes times as INT96 nanoseconds, which Arrow's own cannot all hold.
        yield parquet.ParquetFile(
            source, pre_buffer=is_s3(address), coerce_int96_timestamp_unit="us"
        )


@contextmanager
def _failures(address: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise StorageError("permanent", address, str(error)) from error
