"""Our half of the comparison of loads with the engine: its answers are recorded, none is asked."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import ConstraintViolationError, InvalidRecordsError, KeyConflictError
from omnigraph_spark.jsonl.reading import read_jsonl
from omnigraph_spark.names import TypeKey
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.writing.intake import Intake
from omnigraph_spark.writing.violations import refuse
from tests.helpers.jsonl_cases import SCHEMA, Outcome, cases
from tests.helpers.jsonl_loads import (
    BASE,
    LOADS,
    comparable,
    recorded,
    same_records,
    text_of,
)
from tests.helpers.jsonl_loads import SCHEMA as OF_LOADS

LOADED_HERE = (Outcome.SAME, Outcome.OTHER, Outcome.WIDER)


def accepted_here(text: str, schema: GraphSchema) -> bool:
    """Take records on their way in, through everything that looks at them one by one."""
    try:
        with read_jsonl(text if text.lstrip().startswith("{") else [text], schema) as rows:
            for key, batches in rows.items():
                declared = schema.get(TypeKey.parse(key))
                assert declared is not None
                for batch in batches:
                    intake = Intake(declared, batch.schema, "append", allow_external_blobs=True)
                    intake.convert(batch)
                    refuse(intake.violations())
    except (InvalidRecordsError, ConstraintViolationError):
        return False
    return True


def exported(graph: og.Graph, folder: Path) -> list[str]:
    graph.export_jsonl(folder / "export.jsonl")
    return comparable((folder / "export.jsonl").read_text(encoding="utf-8"))


def test_what_we_take_and_refuse_of_single_records_is_as_listed() -> None:
    schema = parse_schema(SCHEMA)
    wrong = [c for c in cases() if accepted_here(c.text, schema) != (c.outcome in LOADED_HERE)]
    assert wrong == []


def test_records_that_both_load_alike_have_the_rows_that_the_engine_made(tmp_path: Path) -> None:
    graph = og.create(tmp_path / "graph", SCHEMA)
    graph.load_jsonl(text_of(same_records()))
    assert exported(graph, tmp_path) == recorded()["records"]["all"]


def test_there_are_loads_of_every_mode_good_and_bad() -> None:
    loads = recorded()["loads"]
    assert loads.keys() == LOADS.keys()
    taken = Counter(LOADS[name].mode for name, answer in loads.items() if answer is not None)
    refused = Counter(LOADS[name].mode for name, answer in loads.items() if answer is None)
    for mode in ("append", "merge", "overwrite"):
        assert taken[mode] >= 3, mode
        assert refused[mode] >= 3, mode


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph that every load begins with."""
    root = tmp_path_factory.mktemp("base") / "graph"
    og.create(root, OF_LOADS).load_jsonl(text_of(BASE))
    return root


@pytest.mark.parametrize("name", LOADS)
def test_a_load_of_several_records_ends_as_the_engine_ends_it(
    name: str, base: Path, tmp_path: Path
) -> None:
    load, theirs = LOADS[name], recorded()["loads"][name]
    graph = og.open(shutil.copytree(base, tmp_path / "graph"))
    before = exported(graph, tmp_path)
    if theirs is not None and not load.differs:
        graph.load_jsonl(text_of(load.records), mode=load.mode)
        assert exported(graph.refresh(), tmp_path) == theirs
        return
    assert (theirs is None) != bool(load.differs)
    refusals = (InvalidRecordsError, ConstraintViolationError, KeyConflictError)
    with pytest.raises(refusals):
        graph.load_jsonl(text_of(load.records), mode=load.mode)
    assert exported(graph.refresh(), tmp_path) == before
