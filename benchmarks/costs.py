"""What operations ask of an object store: the cost model, and what it says of a graph of any size.

`python -m benchmarks.costs --edges 10000000000 --executors 200` prints it as `README.md` has it.
`tests/cost/test_model.py` holds the model against counted requests.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from math import ceil

from omnigraph_spark.packing import SPLIT_BYTES
from omnigraph_spark.writing.stage import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE

#: Of every file that a process reads: its end, what it holds, where its columns lie.
_PER_FILE = 4
#: Lance asks for long ranges in pieces; this is the mean of the smallest ones that were seen.
_PIECE_BYTES = 256 << 10
#: Longer files are uploaded in parts, with a request to begin and one to end.
_PART_BYTES = 5 << 20
#: Lock, lease, sidecar, the newest version before and in the window, the publish.
_PER_COMMIT = 17
#: Where it stands, its rows staged and looked up, its commit.
_PER_TYPE = 11
#: A publish reads the files of the manifest; they are made one after so many publishes.
MANIFEST_FILES = 50
#: What a Lance manifest says of one fragment.
_FRAGMENT_BYTES = 250
_CORES = 4


def scan_requests(files: int, read_bytes: int) -> int:
    """Return the most requests that reading takes, in a process that knows none of the files.

    >>> scan_requests(files=10, read_bytes=1 << 30)
    4136
    """
    return _PER_FILE * files + ceil(read_bytes / _PIECE_BYTES)


def commit_requests(types: int, manifest_files: int = 1) -> int:
    """Return the most requests of a small commit, one staged file to a type.

    >>> commit_requests(types=2), commit_requests(types=500)
    (40, 5518)
    """
    return _PER_COMMIT + _PER_TYPE * types + manifest_files


def staging_requests(files: int, file_bytes: int) -> int:
    """Return the most requests that uploading staged files takes.

    >>> staging_requests(files=3, file_bytes=1 << 20), staging_requests(3, 256 << 20)
    (3, 165)
    """
    if file_bytes <= _PART_BYTES:
        return files
    # The end of a file, which says what it holds, may be a part of its own.
    return files * (ceil(file_bytes / _PART_BYTES) + 1 + 2)


def model(edges: int, edge_bytes: int, executors: int) -> Iterator[tuple[str, str]]:
    """Yield what a graph of so many edges asks for."""
    fragments = ceil(edges / MAX_ROWS_PER_FILE)
    stored = edges * edge_bytes
    workers = executors * _CORES
    manifest = fragments * _FRAGMENT_BYTES
    yield "fragments of the edge type", f"{fragments:,}"
    yield "its Lance manifest, read once by each worker", f"{manifest / 1e6:.1f} MB"
    yield f"all {workers:,} workers open it", f"{2 * workers:,} requests, {_gb(workers * manifest)}"
    yield "tasks of a scan", f"{ceil(stored / SPLIT_BYTES):,}"
    for part, share in (("all columns", 1.0), ("a fifth of the bytes", 0.2)):
        read = int(stored * share)
        yield f"scan of {part}", f"{_gb(read)}, {_about(scan_requests(fragments, read))} requests"
    file_bytes = min(MAX_BYTES_PER_FILE, edge_bytes * MAX_ROWS_PER_FILE)
    files = ceil(stored / file_bytes)
    staged = _about(staging_requests(files, file_bytes))
    yield "all edges written", f"{files:,} files, {staged} requests"
    small = f"{commit_requests(2, 1)} to {commit_requests(2, MANIFEST_FILES)} requests"
    yield "a small commit of two types, whatever else there is", small


def _gb(size: int) -> str:
    return f"{size / 1e9:,.0f} GB"


def _about(number: int) -> str:
    """Round to two digits: the model knows no more.

    >>> _about(2_331_415), _about(517)
    ('2,300,000', '520')
    """
    return f"{round(number, 2 - len(str(number))):,}"


def table(edges: int, edge_bytes: int, executors: int) -> str:
    """Return the model as Markdown."""
    lines = [f"| {edges:,} edges of {edge_bytes} bytes, {executors} executors | |", "|---|---|"]
    lines += [f"| {what} | {cost} |" for what, cost in model(edges, edge_bytes, executors)]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the model."""
    parser = argparse.ArgumentParser(prog="benchmarks.costs", description=__doc__)
    parser.add_argument("--edges", type=int, default=10_000_000_000)
    parser.add_argument("--edge-bytes", type=int, default=60, help="stored, on average")
    parser.add_argument("--executors", type=int, default=200, help=f"of {_CORES} cores each")
    given = parser.parse_args(arguments)
    print(table(given.edges, given.edge_bytes, given.executors))


if __name__ == "__main__":
    main()
