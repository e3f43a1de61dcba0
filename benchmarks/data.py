"""The rows that are measured with: made once for each size, from fixed seeds, and kept in a folder.

Spark tasks make them and write Parquet; the Delta tables and the graph are copies of that. Ids have
no order, so no statistics of a file help to find one. Edges follow R-MAT: few nodes have many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Row {
    a: I64
    b: I64
    c: F64
    d: F64
    day: Date
    at: DateTime
    flag: Bool
    kind: String
    name: String
    text: String
    vector: Vector(8)
}
node Person { name: String @key  age: I32  city: String  joined: Date }
node Document { title: String  body: String  embedding: Vector(128) }
edge Knows: Person -> Person { since: Date }
"""
#: Columns of each type as Spark knows them, in stored order.
COLUMNS = {
    "Row": "id string, a bigint, at timestamp, b bigint, c double, d double, day date,"
    " flag boolean, kind string, name string, text string, vector array<float>",
    "Person": "id string, age int, city string, joined date, name string",
    "Document": "id string, body string, embedding array<float>, title string",
    "Knows": "id string, src string, dst string, since date",
}
_BATCH = 65_536
_SEED = 7
#: Probabilities of the quadrants of R-MAT, as Graph500 has them.
_QUADRANTS = (0.57, 0.19, 0.19)
_WORDS = pa.array(["graph", "branch", "commit", "merge", "scan", "index", "row", "edge", "node"])


class Reading(Protocol):
    """A session, and how each contestant reads a type there."""

    @property
    def data(self) -> Data:
        """The rows."""
        ...

    def read(self, contestant: str, name: str, columns: str | None = None) -> DataFrame:
        """Read a type as a contestant does."""
        ...


@dataclass(frozen=True)
class Data:
    """Where the rows of one size lie, and how many there are."""

    folder: Path
    rows: int

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each type."""
        return {
            "Row": self.rows,
            "Person": max(1_000, self.rows // 10),
            "Document": max(1_000, self.rows // 50),
            "Knows": self.rows,
        }

    @property
    def graph(self) -> Path:
        """Root of the graph."""
        return self.folder / "graph"

    def parquet(self, name: str) -> str:
        """Folder of a type's Parquet files."""
        return str(self.folder / "parquet" / name)

    def delta(self, name: str) -> str:
        """Folder of a type's Delta table."""
        return str(self.folder / "delta" / name)

    def prepare(self, spark: SparkSession, contestants: Iterable[str]) -> None:
        """Make what is not there yet."""
        self.prepare_parquet(spark)
        if "delta" in contestants:
            for name in COLUMNS:
                self.once(f"delta/{name}", lambda name=name: self._copy_to_delta(spark, name))
        self.once("graph", lambda: self._copy_to_graph(spark))

    def prepare_parquet(self, spark: SparkSession) -> None:
        """Make the Parquet files that are not there yet: what everybody else's rows come from."""
        for name in COLUMNS:
            self.once(f"parquet/{name}", lambda name=name: self._make(spark, name))

    def once(self, part: str, make: Callable[[], None]) -> None:
        """Make a part unless an earlier run did."""
        done = self.folder / "done" / part.replace("/", "-")
        if not done.exists():
            print(f"making {part} of {self.rows:,} rows …", flush=True)
            make()
            done.parent.mkdir(parents=True, exist_ok=True)
            done.touch()

    def _make(self, spark: SparkSession, name: str) -> None:
        frame = generated(spark, name, self.counts)
        frame.write.mode("overwrite").parquet(self.parquet(name))

    def _copy_to_delta(self, spark: SparkSession, name: str) -> None:
        rows = spark.read.parquet(self.parquet(name))
        rows.write.format("delta").mode("overwrite").save(self.delta(name))

    def _copy_to_graph(self, spark: SparkSession) -> None:
        import shutil

        import omnigraph_spark as og

        shutil.rmtree(self.graph, ignore_errors=True)
        graph = og.create(self.graph, SCHEMA, spark=spark)
        with graph.transaction(check="rows") as tx:
            for name in COLUMNS:
                tx.append(name, spark.read.parquet(self.parquet(name)))
        graph.build_indexes()


def generated(spark: SparkSession, name: str, counts: dict[str, int]) -> DataFrame:
    """Return the rows of a type as a DataFrame of tasks that make them."""
    rows, persons, make = counts[name], counts["Person"], _MAKERS[name]
    # As many partitions as fragments of a million rows, and never fewer than both cores can share.
    partitions = max(4, -(-rows // 1_000_000))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_numpy()
            for start in range(0, len(numbers), _BATCH):
                part = numbers[start : start + _BATCH]
                random = np.random.default_rng((_SEED, int(part[0])))
                yield pa.RecordBatch.from_pydict(make(part, rows, persons, random))

    return spark.range(0, rows, 1, partitions).mapInArrow(run, COLUMNS[name])


def row_ids(numbers: np.ndarray, rows: int) -> pa.Array:
    """Return ids of rows, in no order: each number has its own."""
    return _labelled("row-", _shuffled(numbers, rows))


def person_ids(numbers: np.ndarray, persons: int) -> pa.Array:
    """Return ids of persons, in no order."""
    return _labelled("person-", _shuffled(numbers, persons))


def rmat(count: int, nodes: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw edges between numbered nodes, by R-MAT: each bit of both ends chooses a quadrant."""
    src, dst = np.zeros(count, np.int64), np.zeros(count, np.int64)
    a, b, c = _QUADRANTS
    for _ in range(max(1, (nodes - 1).bit_length())):
        draw = random.random(count)
        src = src * 2 + (draw >= a + b)
        dst = dst * 2 + (((draw >= a) & (draw < a + b)) | (draw >= a + b + c))
    return src % nodes, dst % nodes


def _shuffled(numbers: np.ndarray, count: int) -> np.ndarray:
    """Map numbers below `count` to one another, each to another one, far apart."""
    step = 2_654_435_761 % count or 1
    while np.gcd(step, count) != 1:
        step += 1
    return numbers.astype(np.int64) * step % count


def _labelled(label: str, numbers: np.ndarray) -> pa.Array:
    digits = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 10, "0")
    return pc.binary_join_element_wise(label, digits, "")


def _text(label: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(label, pc.cast(pa.array(numbers), pa.string()), "")


def _days(random: np.random.Generator, count: int) -> pa.Array:
    return pa.array(random.integers(0, 20_000, count).astype("int32")).view(pa.date32())


def _vectors(random: np.random.Generator, count: int, length: int) -> pa.Array:
    values = pa.array(random.random(count * length, dtype=np.float32))
    return pa.ListArray.from_arrays(pa.array(range(0, (count + 1) * length, length)), values)


def _sentences(random: np.random.Generator, count: int, words: int) -> pa.Array:
    columns = [_WORDS.take(pa.array(random.integers(0, len(_WORDS), count))) for _ in range(words)]
    return pc.binary_join_element_wise(*columns, " ")


Columns = dict[str, pa.Array]


def _row(numbers: np.ndarray, rows: int, _: int, random: np.random.Generator) -> Columns:
    count = len(numbers)
    millis = pa.array(random.integers(0, 1 << 41, count))
    names = _text("name-", random.integers(0, 100_000, count))
    line = pc.binary_join_element_wise(names, "wrote", _sentences(random, count, 3), " ")
    return {
        "id": row_ids(numbers, rows),
        "a": pa.array(random.integers(0, 1_000_000, count)),
        "at": millis.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        "b": pa.array(numbers),
        "c": pa.array(random.random(count)),
        "d": pa.array(random.normal(size=count)),
        "day": _days(random, count),
        "flag": pa.array(random.random(count) < 0.5),
        "kind": _text("kind-", random.integers(0, 12, count)),
        "name": names,
        "text": line,
        "vector": _vectors(random, count, 8),
    }


def _person(numbers: np.ndarray, _: int, persons: int, random: np.random.Generator) -> Columns:
    ids = person_ids(numbers, persons)
    return {
        "id": ids,
        "age": pa.array(random.integers(0, 100, len(numbers)).astype("int32")),
        "city": _text("city-", random.integers(0, 1_000, len(numbers))),
        "joined": _days(random, len(numbers)),
        "name": ids,
    }


def _document(numbers: np.ndarray, rows: int, _: int, random: np.random.Generator) -> Columns:
    return {
        "id": _labelled("document-", _shuffled(numbers, rows)),
        "body": _sentences(random, len(numbers), 160),
        "embedding": _vectors(random, len(numbers), 128),
        "title": _sentences(random, len(numbers), 4),
    }


def _knows(numbers: np.ndarray, rows: int, persons: int, random: np.random.Generator) -> Columns:
    src, dst = rmat(len(numbers), persons, random)
    return {
        "id": _labelled("knows-", _shuffled(numbers, rows)),
        "src": person_ids(src, persons),
        "dst": person_ids(dst, persons),
        "since": _days(random, len(numbers)),
    }


_MAKERS: dict[str, Callable[[np.ndarray, int, int, np.random.Generator], Columns]] = {
    "Row": _row,
    "Person": _person,
    "Document": _document,
    "Knows": _knows,
}
