"""Memory shared with the JVM, whose part is played here: mapped through /proc, marked, freed."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark_omnigraph import ring as ring_module
from pyspark_omnigraph.ring import PLACE_BYTES, PLACES, Ring, Rings
from pyspark_omnigraph.tunnel import TunnelReader, _parts

from omnigraph_spark.storage.parts import ScanCost

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux shares memory without a name"
)


class Jvm:
    """The other side: what `Ring.java` does."""

    def __init__(self, address: str) -> None:
        token, _, path = address.partition(":")
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        assert struct.unpack_from("<Q", self.memory, 8) == (int(token, 16),)
        struct.pack_into("<Q", self.memory, 0, 1)

    def read(self, offset: int, length: int) -> pa.Table:
        stream = pa.py_buffer(self.memory[offset : offset + length])
        return pa.ipc.open_stream(stream).read_all()

    def free(self, number: int) -> None:
        struct.pack_into("<Q", self.memory, 64 * (1 + number), 0)


def numbers(rows: int, start: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, start + rows), pa.int64())})


def put(ring: Ring, batch: pa.RecordBatch, size: int | None = None) -> ring_module.Place:
    place = ring.put(batch, size or next(_parts(batch))[1], patience_s=0)
    assert place is not None
    return place


@pytest.fixture
def ring() -> Iterator[Ring]:
    made = Ring()
    yield made
    made.close()


def test_a_batch_is_read_where_it_was_written(ring: Ring) -> None:
    jvm = Jvm(ring.address)
    for start in range(3):
        place = put(ring, numbers(1_000, start))
        assert jvm.read(place.offset, place.length) == pa.table(numbers(1_000, start))


def test_a_place_that_was_given_back_is_the_next_one_used(ring: Ring) -> None:
    jvm = Jvm(ring.address)
    first, second = put(ring, numbers(9)), put(ring, numbers(9))
    assert first.offset < second.offset
    jvm.free(first.number)
    assert put(ring, numbers(9)).offset == first.offset
    assert put(ring, numbers(9)).offset > second.offset


def test_places_in_use_never_overlap_whatever_their_sizes(ring: Ring) -> None:
    jvm = Jvm(ring.address)
    taken = {}
    for step in range(200):
        batch = numbers(1 + step * 7919 % 60_000, step)
        place = ring.put(batch, next(_parts(batch))[1], patience_s=0)
        if place is None or step % 3 == 2:
            number, (at, length, expected) = taken.popitem()
            assert jvm.read(at, length) == expected
            jvm.free(number)
        if place is not None:
            taken[place.number] = (place.offset, place.length, pa.table(batch))
    assert all(jvm.read(at, length) == batch for at, length, batch in taken.values())


def test_a_full_ring_is_waited_for_only_so_long(ring: Ring) -> None:
    for _ in range(PLACES):
        put(ring, numbers(1))
    begun = time.monotonic()
    assert ring.put(numbers(1), 8_192, patience_s=0.05) is None
    assert 0.05 <= time.monotonic() - begun < 5


def test_the_memory_has_no_name_and_cannot_be_cut_short(ring: Ring) -> None:
    path = ring.address.partition(":")[2]
    assert os.readlink(path).endswith("(deleted)")
    file = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def test_a_process_that_is_killed_leaves_nothing_behind() -> None:
    program = (
        "from pyspark_omnigraph.ring import Ring; r = Ring(); print(r.address, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        jvm = Jvm(address)
        process.send_signal(signal.SIGKILL)
    assert not os.path.exists(address.partition(":")[2])
    assert jvm.memory[0] == 1  # what was mapped stays readable: no bus error


class Batches:
    """A reader of so many batches."""

    def __init__(self, count: int, rows: int = 10) -> None:
        self.count, self.rows = count, rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition, cost: ScanCost) -> Iterator[pa.RecordBatch]:
        for n in range(self.count):
            yield numbers(self.rows, n)
        cost.requests += 7


def cells(reader: TunnelReader) -> Iterator[dict[str, object]]:
    for batch in reader.read(InputPartition(0)):
        [row] = batch.to_pylist()
        yield row


def test_batches_go_through_the_socket_until_the_other_side_has_mapped_the_ring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark_omnigraph.tunnel.RINGS", Rings())
    rows = cells(TunnelReader(Batches(4)))
    first = next(rows)
    assert first["ipc"] is not None
    jvm = Jvm(str(first["ring"]))
    second, *_, last = rows
    assert second["ipc"] is None
    at, length = second["offset"], second["length"]
    assert isinstance(at, int)
    assert isinstance(length, int)
    assert jvm.read(at, length) == pa.table(numbers(10, 1))
    assert last["requests"] == 7
    assert last["ipc"] is None
    assert last["place"] is None


def test_the_next_reader_of_a_worker_uses_the_ring_that_is_mapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark_omnigraph.tunnel.RINGS", Rings())
    first, *_ = rows = list(cells(TunnelReader(Batches(2))))
    jvm = Jvm(str(first["ring"]))
    assert {row["ring"] for row in cells(TunnelReader(Batches(2)))} == {first["ring"], None}
    again = list(cells(TunnelReader(Batches(2))))
    assert all(row["ipc"] is None for row in again)
    assert len(rows) == len(again)
    assert jvm.memory[0] == 1


def test_readers_at_the_same_time_have_rings_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_omnigraph.tunnel.RINGS", Rings())
    one, other = cells(TunnelReader(Batches(3))), cells(TunnelReader(Batches(3)))
    assert next(one)["ring"] != next(other)["ring"]


def test_a_ring_of_a_reader_that_was_broken_off_is_closed_and_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark_omnigraph.tunnel.RINGS", Rings())
    reading = TunnelReader(Batches(9)).read(InputPartition(0))
    [abandoned] = [batch.column("ring")[0].as_py() for batch in islice(reading, 1)]
    jvm = Jvm(abandoned)
    reading.close()  # type: ignore[attr-defined]  # a generator, as Spark has it
    assert not os.path.exists(abandoned.partition(":")[2])
    assert jvm.memory[0] == 1  # what was mapped stays readable
    assert next(cells(TunnelReader(Batches(1))))["ring"] != abandoned


def test_a_worker_whose_ring_stays_full_goes_on_through_the_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark_omnigraph.tunnel.RINGS", Rings())
    rows = cells(TunnelReader(Batches(PLACES + 5)))
    Jvm(str(next(rows)["ring"]))
    inline = [row["ipc"] is not None for row in rows][:-1]
    assert inline == [False] * PLACES + [True] * 4


def test_without_shared_memory_every_batch_goes_through_the_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(name: str, flags: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "memfd_create", refused)
    monkeypatch.setattr("pyspark_omnigraph.tunnel.RINGS", Rings())
    [*batches, last] = cells(TunnelReader(Batches(3)))
    assert all(row["ipc"] is not None and row["ring"] is None for row in batches)
    assert last["ipc"] is None


def test_a_batch_larger_than_a_place_is_cut_into_parts_that_fit() -> None:
    batch = numbers(3_000_000)
    parts = list(_parts(batch))
    assert len(parts) > 2
    assert all(size <= PLACE_BYTES for _, size in parts)
    assert pa.Table.from_batches([part for part, _ in parts]) == pa.table(batch)
