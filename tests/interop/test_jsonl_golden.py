"""Our export of every golden graph is, byte for byte, what the engine printed."""

from __future__ import annotations

import io
import re
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import InvalidRecordsError
from omnigraph_spark.jsonl.exporting import export_jsonl, export_lines
from omnigraph_spark.jsonl.reading import read_jsonl
from omnigraph_spark.names import Ref
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.settings import StorageSettings
from tests.helpers import golden
from tests.helpers.golden import Expected

CASES = golden.intact_cases()


def snapshot(root: Path, branch: str) -> SnapshotState:
    return GraphReader.open(str(root), StorageSettings.resolve(None)).resolve(Ref.branch(branch))


def exported(case: str, branch: str) -> bytes:
    return (Expected(case).folder / f"export-{quote(branch, safe='')}.jsonl").read_bytes()


def readable_branches(case: str) -> list[str]:
    branches = Expected(case).branches()
    return [b for b in branches if (case, b) != (golden.RECLAIMED, "keep")]


@pytest.mark.parametrize("case", CASES)
def test_an_export_equals_the_engines_byte_for_byte_on_every_branch(
    case: str, tmp_path: Path
) -> None:
    root = golden.unpack(case, tmp_path)
    for branch in readable_branches(case):
        ours = "".join(f"{line}\n" for line in export_lines(snapshot(root, branch)))
        assert ours.encode() == exported(case, branch), branch


def test_one_file_and_a_folder_of_files_hold_the_same_lines(tmp_path: Path) -> None:
    state = snapshot(golden.unpack("rich", tmp_path), "main")
    counts = export_jsonl(state, tmp_path / "all.jsonl")
    assert export_jsonl(state, f"{tmp_path}/by-type/") == counts
    assert (tmp_path / "all.jsonl").read_bytes() == exported("rich", "main")
    files = sorted((tmp_path / "by-type").iterdir())
    assert [f.name for f in files[:2]] == ["edge-Knows.jsonl", "edge-LocatedIn.jsonl"]
    assert len(files) == len(state.entries) == len(counts)
    together = b"".join(file.read_bytes() for file in files)
    assert together == exported("rich", "main")


@pytest.mark.parametrize("case", CASES)
def test_what_was_exported_can_be_read_again(case: str, tmp_path: Path) -> None:
    root = golden.unpack(case, tmp_path)
    for branch in readable_branches(case):
        state = snapshot(root, branch)
        with read_jsonl(io.BytesIO(exported(case, branch)), state.schema) as rows:
            found = {key: rows.rows(key) for key in rows}
        assert found == {key: entry.rows for key, entry in state.entries.items() if entry.rows}


@pytest.mark.parametrize("case", CASES)
def test_whatever_the_engine_was_given_is_read(case: str) -> None:
    folder = golden.GOLDEN / case / "input"
    schemas = [parse_schema(path.read_text(encoding="utf-8")) for path in folder.glob("*.pg")]
    for path in folder.glob("*.jsonl"):
        given = sum(map(bool, path.read_text(encoding="utf-8").split("\n")))
        # Which of its schemas an evolved graph had at that load is not recorded.
        assert given in [rows_read(path, schema) for schema in schemas], path


def rows_read(path: Path, schema: GraphSchema) -> int | None:
    try:
        with read_jsonl(path, schema) as rows:
            return sum(rows.rows(key) for key in rows)
    except InvalidRecordsError:
        return None


def test_the_same_records_loaded_here_make_the_rows_the_engine_made(tmp_path: Path) -> None:
    given = golden.GOLDEN / "rich" / "input"
    graph = og.create(tmp_path / "ours", given / "schema.pg")
    with read_jsonl(given / "rich.jsonl", graph.schema) as rows, graph.transaction() as tx:
        for key, batches in rows.items():
            tx.append(key, pa.Table.from_batches(batches))
    ours = list(export_lines(snapshot(tmp_path / "ours", "main")))
    assert without_made_ids(ours) == without_made_ids(exported("rich", "main").decode().split("\n"))


def without_made_ids(lines: list[str]) -> list[str]:
    made = re.compile(r'"id":"[0-7][0-9A-HJKMNP-TV-Z]{25}"')
    return sorted(made.sub('"id":"made"', line) for line in lines if line)
