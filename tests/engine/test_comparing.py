"""Two versions of a type compared: exactly what differs comes out, and little is read for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.comparing.compare import compare
from omnigraph_spark.comparing.encoding import encode
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import PropertyType, Scalar
from omnigraph_spark.writing.workspace import DuckWorkspace
from tests.engine.writing import people

EVERYTHING = """
node Thing {
    name: String @key
    text: String?
    yes: Bool?
    small: I32?
    big: I64?
    un: U32?
    unbig: U64?
    thin: F32?
    wide: F64?
    day: Date?
    at: DateTime?
    texts: [String]?
    numbers: [F64]?
    spot: Vector(2)?
    payload: Blob?
}
"""
NAN = float("nan")
#: Column -> values that all differ from one another, however alike they look.
VALUES: dict[str, list[Any]] = {
    "text": [None, "", "a", "A", "a ", "a\0"],
    "yes": [None, True, False],
    "small": [None, 0, -1, 2**31 - 1],
    "big": [None, 0, 2**53, 2**53 + 1],
    "un": [None, 0, 2**32 - 1],
    "unbig": [None, 0, 2**64 - 1, 2**64 - 2],
    "thin": [None, 0.0, -0.0, 1.0],
    "wide": [None, 0.0, -0.0, 0.1, 0.1 + 2**-54],
    "day": [None, 0, 1],
    "at": [None, 0, 1, 86_400_000],
    "texts": [None, [], [""], ["a", "b"], ["ab"], ["a,b"], ["b", "a"]],
    "numbers": [None, [], [0.0], [-0.0], [0.0, 0.0]],
    "spot": [None, [0.0, 0.0], [-0.0, 0.0], [1.0, 0.0]],
    "payload": [None, b"a", b"b", b"ab", b"x" * 100_000, b"x" * 99_999 + b"y"],
}
TYPES: dict[str, pa.DataType] = {
    "yes": pa.bool_(), "small": pa.int32(), "big": pa.int64(), "un": pa.uint32(),
    "unbig": pa.uint64(), "thin": pa.float32(), "wide": pa.float64(), "day": pa.date32(),
    "at": pa.timestamp("ms", tz="UTC"), "texts": pa.list_(pa.string()),
    "numbers": pa.list_(pa.float64()), "spot": pa.list_(pa.float32(), 2), "payload": pa.binary(),
}  # fmt: skip


def difference(
    before: og.Snapshot | None, after: og.Snapshot | None, type: str = "Person"
) -> dict[str, tuple[str, list[str]]]:
    """What differs, as id -> (change, columns)."""
    sides = [None if side is None else ScanSource.of(side._state, type) for side in (before, after)]
    with DuckWorkspace() as space:
        names = compare(space, "found", *sides)
        rows = space.rows("SELECT id, change, differing FROM found")
    found = {}
    for id_, change, differing in rows:
        numbers = sorted(map(int, differing.split(","))) if differing else []
        found[id_] = (change, [names[number] for number in numbers])
    assert len(found) == len(rows), "every id comes once"
    return found


def thing(name: str, **values: Any) -> pa.Table:
    columns = {"name": pa.array([name])}
    for column, value in values.items():
        columns[column] = pa.array([value], TYPES.get(column, pa.string()))
    return pa.table(columns)


@pytest.fixture
def things(tmp_path: Path) -> og.Graph:
    return og.create(tmp_path / "g", EVERYTHING)


def test_every_value_differs_from_every_other_and_from_none(things: og.Graph) -> None:
    rows = [(column, at) for column, values in VALUES.items() for at in range(len(values))]

    def shifted(by: int) -> pa.Table:
        return pa.concat_tables(
            [
                thing(f"{column}-{at}", **{column: VALUES[column][(at + by) % len(VALUES[column])]})
                for column, at in rows
            ],
            promote_options="default",
        )

    things.write(shifted(0), "Thing")
    before = things.snapshot()
    for by in range(1, max(map(len, VALUES.values()))):
        things.write(shifted(by), "Thing", mode="merge")
        expected = {
            f"{column}-{at}": ("changed", [column])
            for column, at in rows
            if by % len(VALUES[column])
        }
        assert difference(before, things.snapshot(), "Thing") == expected
        assert difference(things.snapshot(), before, "Thing") == expected


def test_rows_written_again_with_the_same_values_do_not_differ(things: og.Graph) -> None:
    longest = max(map(len, VALUES.values()))
    table = pa.concat_tables(
        [
            thing(f"t{at}", **{name: values[at % len(values)] for name, values in VALUES.items()})
            for at in range(longest)
        ]
    )
    things.write(table, "Thing")
    before = things.snapshot()
    things.write(table, "Thing", mode="merge")
    assert difference(before, things.snapshot(), "Thing") == {}
    things.write(table, "Thing", mode="overwrite")
    assert difference(before, things.snapshot(), "Thing") == {}


def test_nan_equals_nan_whatever_its_bits() -> None:
    odd = pa.array([0x7FF8000000000001, 0xFFF8000000000000 - 2**64], pa.int64()).view(pa.float64())
    column = Column("wide", PropertyType(Scalar.F64))
    assert encode(odd, column) == encode(pa.array([NAN, NAN]), column)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([0x7FC00000, 0x7FC00002, 0, 0], pa.uint32()).view(pa.float32()), 2
    )
    column = Column("spot", PropertyType(Scalar.VECTOR, dimension=2))
    plain = pa.array([[NAN, NAN], [0.0, 0.0]], pa.list_(pa.float32(), 2))
    assert encode(vectors, column) == encode(plain, column)
    nulls = pa.array([[NAN, None], [0.0, None]], pa.list_(pa.float32(), 2))
    assert encode(nulls, column) != encode(plain, column)


def test_a_version_does_not_differ_from_itself(graph: og.Graph) -> None:
    assert difference(graph.snapshot(), graph.snapshot()) == {}


def test_inserts_updates_and_deletes_come_out_by_id_and_column(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.write(people(Ann=31, Dan=1), "Person", mode="merge")
    graph.delete("Person", ["Bob"])
    expected = {"Ann": ("changed", ["age"]), "Dan": ("added", []), "Bob": ("removed", [])}
    assert difference(before, graph.snapshot()) == expected
    back = {"Ann": ("changed", ["age"]), "Dan": ("removed", []), "Bob": ("added", [])}
    assert difference(graph.snapshot(), before) == back


def test_a_type_that_one_side_does_not_have_is_added_or_removed_whole(graph: og.Graph) -> None:
    everybody = {"Ann", "Bob", "Cid"}
    assert difference(None, graph.snapshot()) == dict.fromkeys(everybody, ("added", []))
    assert difference(graph.snapshot(), None) == dict.fromkeys(everybody, ("removed", []))


def test_a_row_deleted_and_inserted_again_is_changed_or_the_same(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.delete("Person", ["Ann"])
    graph.write(people(Ann=30), "Person")
    assert difference(before, graph.snapshot()) == {}
    graph.delete("Person", ["Ann"])
    graph.write(people(Ann=7), "Person")
    assert difference(before, graph.snapshot()) == {"Ann": ("changed", ["age"])}


@pytest.mark.parametrize("update", [False, True], ids=["alone", "after an update"])
def test_compaction_is_silent(graph: og.Graph, update: bool) -> None:
    for age in range(3):
        graph.write(people(**{f"p{age}": age, f"q{age}": age}), "Person")
    graph.delete("Person", ["q0"])
    before = graph.snapshot()
    if update:
        graph.write(people(Ann=1, q1=7), "Person", mode="merge")
        graph.delete("Person", ["Cid"])
    moved = _compacted(graph)
    expected = {"Ann": ("changed", ["age"]), "q1": ("changed", ["age"]), "Cid": ("removed", [])}
    assert difference(before, moved) == (expected if update else {})


def test_metadata_tells_that_compaction_moved_rows_and_which_rows_were_deleted(
    graph: og.Graph,
) -> None:
    for name in "pqr":
        graph.write(people(**{name: 1}), "Person")
    before, moved = graph.snapshot(), _compacted(graph)
    graph.create_branch("dev")
    data = Path(graph.root, before.entries["node:Person"].path, "data")
    data.rename(data.with_name("elsewhere"))
    assert difference(before, moved) == {}
    assert difference(before, graph.at(branch="dev")) == {}
    with pytest.raises(og.OmnigraphError):
        before.arrow("Person", columns=["age"])


def _compacted(graph: og.Graph) -> og.Snapshot:
    """The newest snapshot, with Person compacted as the engine does it: a version of its own."""
    state = graph.snapshot()._state
    entry = state.entry("Person")
    dataset = lance.dataset(f"{graph.root}/{entry.path}", version=entry.dataset_version)
    dataset.optimize.compact_files(target_rows_per_fragment=1_000)
    assert len(dataset.get_fragments()) == 1
    compacted = replace(entry, dataset_version=dataset.version, tag=None)
    return og.Snapshot(replace(state, entries={**state.entries, "node:Person": compacted}))


def test_branches_are_compared_with_one_another(graph: og.Graph) -> None:
    graph.create_branch("dev")
    dev = graph.as_branch("dev")
    dev.write(people(Ann=1, Eve=5), "Person", mode="merge")
    graph.write(people(Bob=2, Eve=5), "Person", mode="merge")
    expected = {"Ann": ("changed", ["age"]), "Bob": ("changed", ["age"])}
    assert difference(graph.snapshot(), dev.snapshot()) == expected
    dev.create_branch("deep", from_="dev")
    deep = graph.as_branch("deep")
    deep.delete("Person", ["Cid"])
    assert difference(dev.snapshot(), deep.snapshot()) == {"Cid": ("removed", [])}
    assert difference(deep.snapshot(), dev.snapshot()) == {"Cid": ("added", [])}
