"""Memory has a bound: of the batches in flight when reading, and of what a process remembers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.storage import lance_session as session_module
from omnigraph_spark.storage.lance_session import lance_session
from tests.helpers.builder import GraphBuilder

pytestmark = pytest.mark.slow

DOCUMENTS = "node Doc { slug: String @key embedding: Vector(256)? payload: Blob? }"
DOC = "node:Doc"
VECTOR = pa.list_(pa.field("item", pa.float32()), 256)
BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.utf8())])

MIB = 1 << 20
SMALL_MIB, LARGE_MIB = 100, 400
#: Half of what the larger fragment has more. A reader that held fragments would need all of it;
#: Lance reads up to 64 MiB ahead and we hold four batches, so between the two sizes about 90 MiB
#: come on top, and above that nothing.
ALLOWED_MIB = (LARGE_MIB - SMALL_MIB) // 2

#: Reads all of a type as one task in a process of its own, and prints the rows and by how many MiB
#: its memory grew at its peak. Linux hands `ru_maxrss` of the parent on to the child, so there the
#: peak is read from the process itself.
READ = """
import resource, sys
from dataclasses import replace
from pathlib import Path

import omnigraph_spark as og
from omnigraph_spark.blobs import Blobs
from omnigraph_spark.scan import ScanRequest, plan_scan, read_task
from omnigraph_spark.scan_source import ScanSource

def peak_mib():
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20

root, column, blobs = sys.argv[1:]
source = ScanSource.of(og.open(root).snapshot()._state, "Doc")
assert len(source.open().fragments()) == 1
request = ScanRequest(columns=("id", column), blobs=Blobs(blobs))
whole = replace(plan_scan(source, request).tasks[0], row_range=None)
before = peak_mib()
rows = sum(batch.num_rows for batch in read_task(whole))
print(rows, peak_mib() - before)
"""


def vectors(mib: int) -> pa.Table:
    """As many MiB of vectors that do not compress; the table shares one MiB of memory."""
    values = pa.Array.from_buffers(pa.float32(), MIB // 4, [None, pa.py_buffer(os.urandom(MIB))])
    chunk = pa.FixedSizeListArray.from_arrays(values, 256)
    return documents(embedding=pa.chunked_array([chunk] * mib))


def blobs(mib: int) -> pa.Table:
    """As many blobs of a MiB each; the table shares the memory of one."""
    offsets = pa.array([0, MIB], pa.int64()).buffers()[1]
    buffers = [None, offsets, pa.py_buffer(os.urandom(MIB))]
    data = pa.Array.from_buffers(pa.large_binary(), 1, buffers)
    one = pa.StructArray.from_arrays([data, pa.nulls(1, pa.utf8())], fields=list(BLOB))
    return documents(payload=pa.chunked_array([one] * mib))


def documents(**column: pa.ChunkedArray[Any]) -> pa.Table:
    """Documents with one column given and the other null."""
    [rows] = map(len, column.values())
    ids = pa.array([f"{number:08}" for number in range(rows)])
    nulls = {"embedding": pa.nulls(rows, VECTOR), "payload": pa.nulls(rows, BLOB)}
    return pa.table({"id": ids, "slug": ids, **nulls, **column})


def growth_mib(root: Path, column: str, blobs: str) -> tuple[int, int]:
    """Rows read, and by how much the memory of the reading process grew."""
    command = [sys.executable, "-c", READ, str(root), column, blobs]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    rows, grown = map(int, done.stdout.split())
    return rows, grown


@pytest.mark.parametrize(
    ("make", "column", "handling"),
    [(vectors, "embedding", "none"), (blobs, "payload", "bytes")],
)
def test_a_fragment_four_times_as_large_takes_no_more_memory_to_read(
    tmp_path: Path, make: Callable[[int], pa.Table], column: str, handling: str
) -> None:
    grown = {}
    for mib in (SMALL_MIB, LARGE_MIB):
        graph = GraphBuilder.create(tmp_path / f"{mib}", DOCUMENTS)
        table = make(mib)
        graph.write({DOC: table})
        rows, grown[mib] = growth_mib(graph.root, column, handling)
        assert rows == table.num_rows
        # pytest would keep half a gigabyte of it.
        shutil.rmtree(graph.root)

    assert grown[LARGE_MIB] < grown[SMALL_MIB] + ALLOWED_MIB, grown


@pytest.mark.parametrize("kept_mib", [1, 64])
def test_what_lance_keeps_of_old_versions_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_mib: int
) -> None:
    """Every commit has a manifest of its own, and that of each dataset grows with its fragments."""
    monkeypatch.setattr(session_module, "_METADATA_BYTES_KEPT", kept_mib * MIB)
    lance_session.cache_clear()
    graph = og.create(tmp_path / "g", "node Person { name: String @key }")
    for number in range(60):
        graph.write(pa.table({"name": [f"p{number}"]}), "Person")
    kept = lance_session().size_bytes()
    lance_session.cache_clear()
    assert (kept <= MIB) == (kept_mib == 1), f"{kept} bytes: 60 commits take more than a MiB"
