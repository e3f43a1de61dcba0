"""The same records, loaded by the engine and by us; and what both export, byte for byte."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import (
    UnsupportedError,
)
from omnigraph_spark.jsonl.exporting import export_lines
from omnigraph_spark.names import Ref
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers.engine import run_engine
from tests.helpers.jsonl_cases import NODES, SCHEMA, Case, Outcome, cases
from tests.helpers.jsonl_loads import (
    LOADS,
    ask_engine,
    ask_engine_of_records,
    comparable,
    recorded,
)

pytestmark = pytest.mark.engine

CASES = cases()
LOADED_HERE = (Outcome.SAME, Outcome.OTHER, Outcome.WIDER)
LOADED_BY_THE_ENGINE = (Outcome.SAME, Outcome.OTHER, Outcome.STRICTER)


class Engine:
    """A graph that the engine made and writes to."""

    def __init__(self, folder: Path, schema: str = SCHEMA) -> None:
        folder.mkdir()
        (folder / "schema.pg").write_text(schema, encoding="utf-8")
        self.root = folder / "graph"
        self._input = folder / "input.jsonl"
        run_engine("init", "--schema", folder / "schema.pg", self.root, check=True)

    def load(self, *texts: str) -> str | None:
        """Load texts in one commit; return the engine's refusal, if it is one."""
        self._input.write_bytes("\n".join(texts).encode("utf-8", "surrogatepass"))
        done = run_engine("load", self.root, "--data", self._input, "--mode", "append")
        return done.stderr if done.returncode else None

    def export(self) -> str:
        return engine_export_text(self.root)


def engine_export_text(root: Path) -> str:
    return run_engine("export", root, check=True).stdout


def our_export_text(root: Path) -> str:
    reader = GraphReader.open(str(root), StorageSettings.resolve(None))
    return "".join(f"{line}\n" for line in export_lines(reader.resolve(Ref.branch())))


def load_here(root: Path, *texts: str) -> og.Graph:
    graph = og.create(root, SCHEMA)
    graph.load_jsonl("\n".join(texts), mode="append")
    return graph


def texts(*outcomes: Outcome) -> list[str]:
    return [case.text for case in CASES if case.outcome in outcomes and not case.unexportable]


def test_what_the_engine_takes_and_refuses_is_as_listed(tmp_path: Path) -> None:
    engines = [Engine(tmp_path / str(n)) for n in range(2)]
    refused = [case for case in CASES if case.outcome not in LOADED_BY_THE_ENGINE]

    def loaded(engine: Engine, mine: list[Case]) -> list[Case]:
        return [case for case in mine if engine.load(NODES, case.text) is None]

    with ThreadPoolExecutor(2) as pool:
        halves = [refused[::2], refused[1::2]]
        assert [case for found in pool.map(loaded, engines, halves) for case in found] == []
    unexportable = [case.text for case in CASES if case.unexportable]
    assert engines[0].load(NODES, *unexportable) is None


def test_rows_of_the_same_records_are_equal(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine")
    assert engine.load(NODES, *texts(Outcome.SAME)) is None
    ours = load_here(tmp_path / "ours", NODES, *texts(Outcome.SAME))
    assert comparable(our_export_text(Path(ours.root))) == comparable(engine.export())


def test_what_is_recorded_of_the_engine_is_what_it_does(tmp_path: Path) -> None:
    answers = {
        "records": {"all": ask_engine_of_records(tmp_path)},
        "loads": ask_engine(LOADS, tmp_path),
    }
    assert answers == recorded()


def test_records_we_read_otherwise_do_differ(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine")
    assert engine.load(*texts(Outcome.OTHER)) is None
    ours = load_here(tmp_path / "ours", *texts(Outcome.OTHER))
    theirs = dict(rows_by_id(engine.export()))
    assert [
        id_ for id_, row in rows_by_id(our_export_text(Path(ours.root))) if row == theirs[id_]
    ] == []


def rows_by_id(export: str) -> list[tuple[str, str]]:
    return [(json.loads(line)["data"]["id"], line) for line in export.splitlines()]


def test_both_export_a_graph_of_extremes_of_either_alike(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine")
    stricter = [case for case in CASES if case.outcome is Outcome.STRICTER]
    loadable = [c.text for c in stricter if not c.unexportable]
    assert engine.load(NODES, *texts(Outcome.SAME, Outcome.OTHER), *loadable) is None
    assert our_export_text(engine.root) == engine.export()
    ours = Path(load_here(tmp_path / "ours", NODES, *texts(*LOADED_HERE)).root)
    assert our_export_text(ours) == engine_export_text(ours)


def test_external_blobs_are_exported_as_their_address_without_a_look_at_them(
    tmp_path: Path,
) -> None:
    there = tmp_path / "there.txt"
    there.write_text("outside", encoding="utf-8")
    engine = Engine(tmp_path / "engine")
    blobs = [f'"file://{there}"', '"base64:AAE="', "null", f'"file://{there}"', '"base64:AAECAw=="']
    records = [
        f'{{"type":"All","data":{{"id":"b{n}","p":{blob}}}}}' for n, blob in enumerate(blobs)
    ]
    assert engine.load(*records) is None
    before = engine.export()
    assert our_export_text(engine.root) == before
    there.unlink()
    assert our_export_text(engine.root) == before
    assert run_engine("export", engine.root).returncode != 0


def test_a_time_outside_of_the_engines_calendar_is_exported_as_a_number(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine")
    far = 9223372036854775807
    assert engine.load(f'{{"type":"All","data":{{"id":"far","at":{far}}}}}') is None
    assert "ERROR: Cast error" in engine.export()
    row = json.loads(our_export_text(engine.root))
    assert row["data"]["at"] == far


def test_infinity_stops_both_exports(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine")
    assert engine.load('{"type":"All","data":{"id":"big","f":1e39}}') is None
    with pytest.raises(UnsupportedError, match=r"inf in node:All\.f of id 'big'"):
        our_export_text(engine.root)
    assert run_engine("export", engine.root).returncode != 0
