"""What the strict commit lands is a version to the released engine: it reads it and goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.storage.branches import create_branch
from omnigraph_spark.storage.datasets import DatasetAddress, open_dataset
from omnigraph_spark.storage.fence import (
    AppendChange,
    Change,
    OverwriteChange,
    UpdateChange,
    commit_fenced,
)
from omnigraph_spark.storage.rewriting import (
    ROW_ADDRESS,
    ROW_ID,
    delete_offsets,
    stage_delete,
    stage_merge,
    stage_rewritten,
)
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, create_dataset, stage_batches
from tests.helpers.builder import GraphBuilder, Pin
from tests.helpers.engine import engine_export, engine_json, run_engine
from tests.helpers.rows import table_of

pytestmark = pytest.mark.engine

SCHEMA = """
node Doc {
    slug: String @key
    size: I32? @index
    at: DateTime?
    vector: Vector(2)?
    payload: Blob?
    words: [String]?
}
edge Cites: Doc -> Doc { why: String? }
"""
DOC, CITES = "node:Doc", "edge:Cites"
SETTINGS = StorageSettings()
LIMITS = (1 << 20, 256 << 20)


@dataclass
class Writer:
    """A graph whose datasets move through the strict commit; the builder publishes."""

    graph: GraphBuilder
    branch: str = "main"

    def entity(self, key: str) -> EntityType:
        return next(one for one in self.graph.schema.types() if str(one.type_key) == key)

    def pin(self, key: str) -> Pin:
        return self.graph.entries(self.branch)[key]

    def address(self, key: str) -> DatasetAddress:
        own = None if self.branch == "main" else self.branch
        return DatasetAddress(str(self.graph.root), self.pin(key).path, own)

    def table(self, key: str, rows: list[dict[str, Any]]) -> pa.Table:
        table = table_of(self.entity(key), rows)
        assert table.schema.equals(arrow_schema(self.entity(key)), check_metadata=True)
        return table

    def stage(self, key: str, rows: list[dict[str, Any]], **given: bool) -> tuple[StagedFile, ...]:
        table = self.table(key, rows)
        staged = stage_batches(
            self.address(key), table.to_batches(), table.schema, SETTINGS, *LIMITS, **given
        )
        return tuple(staged)

    def land(self, changes: Mapping[str, Change]) -> None:
        """Commit every change on the version the graph pins, then publish all at once."""
        pins = {}
        for key, change in changes.items():
            address, pin = self.address(key), self.pin(key)
            landed = commit_fenced(address, pin.version, change, SETTINGS, str(uuid4()), {})
            assert landed.number == pin.version + 1
            dataset = open_dataset(address, landed.number, SETTINGS)
            rows = sum(fragment.rows for fragment in dataset.fragments())
            pins[key] = Pin(key, pin.path, landed.number, rows, address.branch)
        self.graph.publish(pins, branch=self.branch)

    def merged_by_hand(self, key: str, rows: list[dict[str, Any]]) -> UpdateChange:
        """An upsert made of the pieces that run on many machines."""
        address, version = self.address(key), self.pin(key).version
        dataset = open_dataset(address, version, SETTINGS)
        numbers = [fragment.id for fragment in dataset.fragments()]
        columns = ["id", ROW_ID, ROW_ADDRESS]
        targets = pa.Table.from_batches(list(dataset.batches(numbers, columns))).to_pylist()
        known = {row["id"]: row for row in targets}
        source = self.table(key, rows)
        ids = source["id"].to_pylist()
        found = [place for place, id_ in enumerate(ids) if id_ in known]
        new = [place for place, id_ in enumerate(ids) if id_ not in known]
        row_ids = pa.array([known[ids[place]][ROW_ID] for place in found], pa.uint64())
        files = stage_rewritten(
            address,
            source.schema,
            source.take(found).append_column(ROW_ID, row_ids).to_batches(),
            source.take(new).to_batches(),
            SETTINGS,
            *LIMITS,
        )
        updated, removed = [], []
        for number in numbers:
            places = [known[ids[place]][ROW_ADDRESS] for place in found]
            offsets = [place & 0xFFFFFFFF for place in places if place >> 32 == number]
            if not offsets:
                continue
            left = delete_offsets(address, version, number, offsets, SETTINGS)
            if left is None:
                removed.append(number)
            else:
                updated.append(left)
        return UpdateChange(tuple(removed), tuple(updated), tuple(files))

    def docs(self) -> dict[str, Any]:
        rows = engine_export(self.graph.root, self.branch)
        return {row["data"]["id"]: row["data"] for row in rows if row.get("type") == "Doc"}

    def sizes(self) -> dict[str, Any]:
        return {id_: doc["size"] for id_, doc in self.docs().items()}

    def engine_merges(self, tmp_path: Path, *rows: dict[str, Any]) -> None:
        data = tmp_path / "rows.jsonl"
        records = [{"type": "Doc", "data": row} for row in rows]
        data.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        run_engine(
            "load",
            self.graph.root,
            "--data",
            data,
            "--mode",
            "merge",
            "--branch",
            self.branch,
            check=True,
        )

    def assert_clean(self) -> None:
        report = engine_json("repair", self.graph.root)["tables"]
        assert {table["classification"] for table in report} == {"no_drift"}
        for key in (DOC, CITES):
            pin = self.pin(key)
            tree = f"/tree/{pin.branch}" if pin.branch else ""
            dataset = lance.dataset(f"{self.graph.root}/{pin.path}{tree}")
            assert dataset.version == pin.version
            dataset.validate()


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(GraphBuilder.create(tmp_path / "docs", SCHEMA))


def doc(slug: str, size: int | None = None, **more: Any) -> dict[str, Any]:
    return {"slug": slug, "size": size, **more}


def test_the_engine_reads_and_continues_every_kind_of_change(
    writer: Writer, tmp_path: Path
) -> None:
    full = doc("a", 1, at=86_400_001, vector=[0.5, 1.5], payload=b"\x00\xff", words=["x", None])
    cites = {"id": "c1", "src": "a", "dst": "b", "why": "because"}
    writer.land(
        {
            DOC: AppendChange(writer.stage(DOC, [full, doc("b", 2), doc("c", 3)])),
            CITES: AppendChange(writer.stage(CITES, [cites])),
        }
    )
    assert writer.docs()["a"] == {
        "id": "a",
        "at": "1970-01-02T00:00:00.001",
        "payload": "base64:AP8=",
        "size": 1,
        "slug": "a",
        "vector": [0.5, 1.5],
        "words": ["x", None],
    }
    writer.assert_clean()

    # The engine builds its indexes now, which every later change must keep truthful.
    writer.engine_merges(tmp_path, doc("b", 20), doc("d", 4))
    assert writer.sizes() == {"a": 1, "b": 20, "c": 3, "d": 4}

    version = writer.pin(DOC).version
    table = writer.table(DOC, [doc("c", 30, payload=b"new"), doc("e", 5)])
    writer.land({DOC: stage_merge(writer.address(DOC), version, table, SETTINGS)[0]})
    assert writer.sizes() == {"a": 1, "b": 20, "c": 30, "d": 4, "e": 5}
    assert writer.docs()["c"]["payload"] == "base64:bmV3"
    writer.assert_clean()

    writer.land({DOC: writer.merged_by_hand(DOC, [doc("a", 10), doc("b", 21), doc("f", 6)])})
    assert writer.sizes() == {"a": 10, "b": 21, "c": 30, "d": 4, "e": 5, "f": 6}
    writer.engine_merges(tmp_path, doc("a", 11), doc("f", 60), doc("g", 7))
    assert writer.sizes() == {"a": 11, "b": 21, "c": 30, "d": 4, "e": 5, "f": 60, "g": 7}
    writer.assert_clean()

    version = writer.pin(DOC).version
    delete = stage_delete(writer.address(DOC), version, "size < 10", SETTINGS)
    assert delete is not None
    writer.land({DOC: delete})
    assert writer.sizes() == {"a": 11, "b": 21, "c": 30, "f": 60}
    writer.engine_merges(tmp_path, doc("d", 44), doc("c", 33))
    assert writer.sizes() == {"a": 11, "b": 21, "c": 33, "d": 44, "f": 60}
    writer.assert_clean()

    kept = [doc("a", 1), doc("b", 2, payload=b"again")]
    files = writer.stage(DOC, kept, as_given=True)
    writer.land({DOC: OverwriteChange(arrow_schema(writer.entity(DOC)), files)})
    assert writer.sizes() == {"a": 1, "b": 2}
    writer.engine_merges(tmp_path, doc("b", 22), doc("z", 26))
    assert writer.sizes() == {"a": 1, "b": 22, "z": 26}
    writer.assert_clean()

    empty = OverwriteChange(arrow_schema(writer.entity(CITES)), ())
    writer.land({CITES: empty})
    assert [row for row in engine_export(writer.graph.root) if "edge" in row] == []
    writer.assert_clean()


@pytest.mark.parametrize("rows_before", [True, False], ids=["with rows", "of an empty type"])
def test_the_engine_reads_continues_and_merges_a_branch(
    writer: Writer, tmp_path: Path, rows_before: bool
) -> None:
    if rows_before:
        writer.land({DOC: AppendChange(writer.stage(DOC, [doc("a", 1), doc("b", 2)]))})
    graph, pin = writer.graph, writer.pin(DOC)
    before = {"a": 1, "b": 2} if rows_before else {}
    graph.create_branch("team/x")
    create_branch(DatasetAddress(str(graph.root), pin.path), "team/x", None, pin.version, SETTINGS)
    on_branch = Writer(graph, "team/x")
    assert lance.dataset(on_branch.address(DOC).uri).has_stable_row_ids

    on_branch.land({DOC: AppendChange(on_branch.stage(DOC, [doc("c", 3), doc("d", 4)]))})
    on_branch.land({DOC: on_branch.merged_by_hand(DOC, [doc("c", 30), doc("e", 5)])})
    on_branch.engine_merges(tmp_path, doc("c", 31), doc("f", 6))
    version = on_branch.pin(DOC).version
    table = on_branch.table(DOC, [doc("f", 60)])
    on_branch.land({DOC: stage_merge(on_branch.address(DOC), version, table, SETTINGS)[0]})

    after = before | {"c": 31, "d": 4, "e": 5, "f": 60}
    assert on_branch.sizes() == after
    assert writer.sizes() == before
    assert (
        engine_json("branch", "merge", "--uri", graph.root, "team/x")["outcome"] == "fast_forward"
    )
    assert writer.sizes() == after
    writer.assert_clean()


def test_a_dataset_made_here_is_one_the_engine_loads_into(tmp_path: Path) -> None:
    writer = Writer(GraphBuilder.create(tmp_path / "docs", SCHEMA))
    address = writer.address(DOC)
    for file in sorted(Path(address.uri).rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()

    create_dataset(address, arrow_schema(writer.entity(DOC)), SETTINGS)
    writer.engine_merges(tmp_path, doc("a", 1, vector=[1, 2], words=["w"]))

    assert writer.sizes() == {"a": 1}
    writer.land({DOC: AppendChange(writer.stage(DOC, [doc("b", 2)]))})
    assert writer.sizes() == {"a": 1, "b": 2}
    writer.assert_clean()


@pytest.mark.parametrize("hint", ['{"version":1}', None])
def test_the_engine_finds_the_newest_version_whatever_the_hint_says(
    writer: Writer, tmp_path: Path, hint: str | None
) -> None:
    writer.land({DOC: AppendChange(writer.stage(DOC, [doc("a", 1)]))})
    versions = Path(writer.address(DOC).uri) / "_versions"
    (versions / f"{2**64 - 1 - 3:020d}.manifest-{uuid4()}").write_bytes(b"left by a killed commit")
    path = versions / "latest_version_hint.json"
    if hint is None:
        path.unlink()
    else:
        path.write_text(hint)

    writer.engine_merges(tmp_path, doc("b", 2))

    assert writer.sizes() == {"a": 1, "b": 2}
    writer.assert_clean()
