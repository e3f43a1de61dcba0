"""The schema language against the released engine: same texts, same bytes, same datasets."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pytest

from omnigraph_spark.errors import SchemaError
from omnigraph_spark.formats.v4.layout import dataset_path
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.ir import hash_of_ir_value, ir_hash, ir_pretty
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.schema.printer import print_schema
from tests.helpers.engine import run_engine
from tests.helpers.schema_cases import BAD_RULES, BAD_SYNTAX, GOOD, NOT_STORABLE, UNUSABLE
from tests.helpers.schema_texts import random_schema_text

pytestmark = pytest.mark.engine

#: How the engine begins an error of storage; one of the schema begins with parse or catalog error.
STORAGE_ERROR = "0: storage: "


def _create(text: str, folder: Path) -> Path:
    """Let the engine create a graph."""
    assert _refusal(text, folder) is None
    return folder / "graph"


def _refusal(text: str, folder: Path) -> str | None:
    """Let the engine create a graph; return what it says when it does not."""
    source = folder / "schema.pg"
    source.write_bytes(text.encode())
    done = run_engine("init", "--schema", source, folder / "graph")
    return None if done.returncode == 0 else done.stderr


def _assert_same_files(text: str, root: Path) -> None:
    schema = parse_schema(text)
    compiled = (root / "_schema.ir.json").read_text(encoding="utf-8")
    recorded = json.loads((root / "__schema_state.json").read_text(encoding="utf-8"))
    assert ir_pretty(schema) == compiled
    assert ir_hash(schema) == recorded["schema_ir_hash"]
    assert hash_of_ir_value(json.loads(compiled)) == recorded["schema_ir_hash"]


@pytest.mark.parametrize("name", GOOD)
def test_an_accepted_text_compiles_to_the_engines_bytes(name: str, tmp_path: Path) -> None:
    _assert_same_files(GOOD[name], _create(GOOD[name], tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        *(pytest.param(case[0], id=name) for name, case in BAD_SYNTAX.items()),
        *(pytest.param(case[0], id=name) for name, case in BAD_RULES.items()),
    ],
)
def test_a_text_we_refuse_is_refused_by_the_engine(text: str, tmp_path: Path) -> None:
    refusal = _refusal(text, tmp_path)
    assert refusal is not None
    assert STORAGE_ERROR not in refusal
    with pytest.raises(SchemaError):
        parse_schema(text)


@pytest.mark.parametrize("name", NOT_STORABLE)
def test_what_is_not_storable_passes_the_engines_rules_and_fails_in_storage(
    name: str, tmp_path: Path
) -> None:
    refusal = _refusal(NOT_STORABLE[name][0], tmp_path)
    assert refusal is not None
    assert STORAGE_ERROR in refusal


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_we_do_not_store_makes_a_graph_the_engine_cannot_use(
    name: str, tmp_path: Path
) -> None:
    text = UNUSABLE[name][0]
    root = _create(text, tmp_path)
    assert ir_pretty(parse_schema(text)) == (root / "_schema.ir.json").read_text(encoding="utf-8")
    rows = tmp_path / "rows.jsonl"
    (prop,) = parse_schema(text).nodes[0].properties
    rows.write_text(json.dumps({"type": "A", "data": {prop.name: 1}}))
    assert run_engine("load", root, "--data", rows, "--mode", "append").returncode != 0


@pytest.mark.parametrize("seed", range(20))
def test_a_random_schema_and_its_print_compile_to_the_engines_bytes(
    seed: int, tmp_path: Path
) -> None:
    text = random_schema_text(seed)
    root = _create(text, tmp_path)
    _assert_same_files(text, root)
    _assert_same_files(print_schema(parse_schema(text)), root)


def test_the_engine_opens_a_graph_whose_text_is_our_print(tmp_path: Path) -> None:
    text = GOOD["ranges"] + GOOD["cardinalities"].replace("node A {}", "")
    root = _create(text, tmp_path)
    (root / "_schema.pg").write_text(print_schema(parse_schema(text)), encoding="utf-8")
    assert run_engine("snapshot", root).returncode == 0


@pytest.mark.parametrize("name", ["every scalar", "every scalar, nullable", "every list"])
def test_our_arrow_schema_makes_the_dataset_the_engine_makes(name: str, tmp_path: Path) -> None:
    text = f"{GOOD[name]} edge E: A -> A {{ z: I32 b: Blob? }}"
    root = _create(text, tmp_path)
    for entity in parse_schema(text).types():
        theirs = lance.dataset(root / dataset_path(entity.type_key))
        ours = lance.write_dataset(
            arrow_schema(entity).empty_table(), tmp_path / entity.name, data_storage_version="2.2"
        )
        assert ours.lance_schema == theirs.lance_schema
