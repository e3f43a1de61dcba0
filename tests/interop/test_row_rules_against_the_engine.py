"""Rules that one row breaks by itself, against the released engine: the same rows, the same answer.

Every row goes through our intake. Those it takes are loaded by the engine in one go and its export
has to equal what we store. Each of the others is loaded on its own and has to be refused, but for
the values on record as ones where we are stricter.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_spark.errors import OmnigraphError
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.writing.intake import Intake
from tests.helpers.engine import run_engine
from tests.helpers.exported import exported_rows, lines
from tests.helpers.pattern_cases import INVALID, NOT_CHECKABLE
from tests.helpers.row_cases import ABSENT, GROUPS, Group

pytestmark = pytest.mark.engine

#: Two processes keep two cores busy.
LANES = 2
#: The engine opens a graph of few types much faster.
TYPES_IN_A_GRAPH = 12


@dataclass(frozen=True)
class Row:
    """One value of a group as a row: for the engine and for us."""

    group: Group
    name: str
    id: str
    value: Any
    stricter: bool

    def record(self) -> str:
        """Return the row in the engine's own format."""
        data = {} if self.value is ABSENT else {"x": self.value}
        if self.group.edge:
            return json.dumps(
                {"edge": self.name, "from": "end", "to": "end", "data": {"id": self.id, **data}}
            )
        return json.dumps({"type": self.name, "data": {"name": self.id, **data}})

    def table(self) -> pa.Table:
        """Return the row as Arrow."""
        ends = {"src": ["end"], "dst": ["end"]} if self.group.edge else {"name": [self.id]}
        x = {} if self.value is ABSENT else {"x": pa.array([self.value], self.group.arrow)}
        return pa.table({"id": [self.id], **ends, **x})


def _rows() -> Iterator[Row]:
    for number, group in enumerate(GROUPS):
        values = [(value, False) for value in group.values]
        values += [(value, True) for more in group.stricter.values() for value in more]
        for place, (value, stricter) in enumerate(values):
            yield Row(group, f"G{number}", f"{number:03}-{place:03}", value, stricter)


ROWS = list(_rows())
END = json.dumps({"type": "End", "data": {"id": "end"}})
DECLARATIONS = {
    f"G{number}": group.declaration(f"G{number}") for number, group in enumerate(GROUPS)
}
ENDS = "node End { }"
SCHEMA = "\n".join([ENDS, *DECLARATIONS.values()])
TYPES: dict[str, EntityType] = {
    declared.name: declared for declared in parse_schema(SCHEMA).types()
}


@functools.cache
def _taken() -> dict[str, pa.Table]:
    """Return what we store of every row we do not refuse, by its id."""
    tables = {}
    for row in ROWS:
        rows = row.table()
        try:
            intake = Intake(TYPES[row.name], rows.schema, "append")
        except OmnigraphError:
            continue
        stored = intake.convert(rows.to_batches()[0])
        if not intake.violations():
            tables[row.id] = pa.Table.from_batches([stored])
    return tables


def _created(schema: str, folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "schema.pg").write_text(schema, encoding="utf-8")
    run_engine("init", "--schema", folder / "schema.pg", folder / "graph", check=True)
    return folder / "graph"


def _refusal(graph: Path, *records: str) -> str | None:
    """Let the engine load records; return what it says when it does not."""
    data = graph.parent / "rows.jsonl"
    data.write_text("\n".join(records), encoding="utf-8")
    done = run_engine("load", graph, "--data", data, "--mode", "append")
    return None if done.returncode == 0 else done.stderr


def _each(declarations: dict[str, str], records: list[tuple[str, str]], folder: Path) -> list[Any]:
    """Load records of types one by one, in graphs of a few types; return what the engine says."""
    names = list(declarations)
    answers: list[str | None] = [None] * len(records)

    def run(first: int) -> None:
        types = names[first : first + TYPES_IN_A_GRAPH]
        schema = "\n".join([ENDS, *(declarations[name] for name in types)])
        graph = _created(schema, folder / f"from-{first}")
        assert _refusal(graph, END) is None
        for place, (name, record) in enumerate(records):
            if name in types:
                answers[place] = _refusal(graph, record)

    with ThreadPoolExecutor(LANES) as pool:
        list(pool.map(run, range(0, len(names), TYPES_IN_A_GRAPH)))
    return answers


def _exported(graph: Path) -> list[dict[str, Any]]:
    """Return what the engine exports, but for the ends of edges."""
    text = run_engine("export", graph, check=True).stdout
    # Not `splitlines`: some of the values are separators to it.
    rows = [json.loads(line) for line in text.split("\n") if line]
    return [row for row in rows if row.get("type") != "End"]


def test_there_are_enough_rows_of_every_rule() -> None:
    """Forty of each, with good and bad among them."""
    tried = Counter(row.group.rule for row in ROWS)
    good = Counter(row.group.rule for row in ROWS if row.id in _taken())
    for rule in (
        "required",
        "enum",
        "range",
        "check",
        "vector",
        "list",
        "integer",
        "float",
        "time",
    ):
        assert tried[rule] >= 40, (rule, tried[rule])
        assert good[rule] >= 10, rule
    for rule in ("required", "enum", "range", "check", "vector", "list", "integer"):
        assert tried[rule] - good[rule] >= 10, rule


def test_what_we_take_the_engine_takes_and_stores_alike(tmp_path: Path) -> None:
    taken = _taken()
    graph = _created(SCHEMA, tmp_path / "all")
    assert _refusal(graph, END, *(row.record() for row in ROWS if row.id in taken)) is None
    ours: list[dict[str, Any]] = []
    for name, declared in TYPES.items():
        tables = [taken[row.id] for row in ROWS if row.name == name and row.id in taken]
        if tables:
            ours += exported_rows(str(declared.type_key), pa.concat_tables(tables))
    assert sorted(lines(ours)) == sorted(lines(_exported(graph)))


def test_what_we_refuse_the_engine_refuses_but_for_what_is_on_record(tmp_path: Path) -> None:
    refused = [row for row in ROWS if row.id not in _taken()]
    answers = _each(DECLARATIONS, [(row.name, row.record()) for row in refused], tmp_path)
    surprises = [
        (row.group.rule, row.group.type, row.group.constraint, row.value, answer)
        for row, answer in zip(refused, answers, strict=True)
        if (answer is None) != row.stricter
    ]
    assert surprises == []


def test_what_is_on_record_as_stricter_is_refused_by_us() -> None:
    assert [row for row in ROWS if row.stricter and row.id in _taken()] == []


def test_patterns_are_valid_to_the_engine_where_we_say_so(tmp_path: Path) -> None:
    patterns = {f"P{number}": text for number, text in enumerate([*INVALID, *NOT_CHECKABLE])}
    declarations = {
        name: f"node {name} {{ x: String?  @check(x, {json.dumps(text, ensure_ascii=False)}) }}"
        for name, text in patterns.items()
    }
    # Null breaks no rule, so only a pattern that cannot be read refuses it.
    records = [(name, json.dumps({"type": name})) for name in patterns]
    answers = _each(declarations, records, tmp_path)
    assert [
        text
        for text, answer in zip(patterns.values(), answers, strict=True)
        if answer is not None and "invalid regex" in answer
    ] == list(INVALID)


# Ids: (what the engine gets, what we get), and whether only we refuse it.

KEY_DECLARATIONS = {
    "Keyed": "node Keyed { name: String @key }",
    "Pair": "node Pair { b: String  a: String  @key(b, a) }",
    "Free": "node Free { text: String? }",
    "Edge": "edge Edge: End -> End { w: I32? }",
}
KEYS = "\n".join([ENDS, *KEY_DECLARATIONS.values()])
KEY_TYPES: dict[str, EntityType] = {t.name: t for t in parse_schema(KEYS).types()}
IDS = ["a", "", " ", "A", "é", "a b", "a'b", 'a"b', "0", "null", "\0", "x" * 300]


def _id_cases() -> Iterator[tuple[str, dict[str, Any], bool]]:
    for text in IDS:
        yield "Keyed", {"name": text}, False
        yield "Keyed", {"name": text, "id": text}, False
        yield "Keyed", {"name": text, "id": None}, False
        yield "Keyed", {"name": text, "id": text + "x"}, False
        yield "Free", {"id": text}, False
        yield "Edge", {"id": text}, False
    yield "Keyed", {"name": None}, False
    yield "Keyed", {"name": None, "id": "a"}, False
    yield "Keyed", {"id": "a"}, False
    yield "Keyed", {"name": "a", "id": 5}, True
    yield "Free", {"id": 5}, True
    yield "Edge", {"id": 5}, True
    for nothing in ({}, {"id": None}):
        yield "Free", {"text": "t", **nothing}, False
        yield "Edge", {"w": 1, **nothing}, False
    yield "Pair", {"a": "A", "b": "B"}, False
    yield "Pair", {"a": "A", "b": "B", "id": "A"}, False
    yield "Pair", {"a": "A", "b": "B", "id": "B"}, False
    yield "Pair", {"a": "A", "b": None}, False
    yield "Pair", {"a": None, "b": "B"}, False


def _id_record(name: str, data: dict[str, Any]) -> str:
    if name == "Edge":
        return json.dumps({"edge": name, "from": "end", "to": "end", "data": data})
    return json.dumps({"type": name, "data": data})


def _id_taken(name: str, data: dict[str, Any]) -> list[dict[str, Any]] | None:
    ends = {"src": "end", "dst": "end"} if name == "Edge" else {}
    texts = {key: pa.string() for key, value in data.items() if value is None}
    columns = {key: pa.array([value], texts.get(key)) for key, value in {**ends, **data}.items()}
    rows = pa.table(columns)
    try:
        intake = Intake(KEY_TYPES[name], rows.schema, "append")
    except OmnigraphError:
        return None
    stored = pa.Table.from_batches([intake.convert(rows.to_batches()[0])])
    if intake.violations():
        return None
    return exported_rows(str(KEY_TYPES[name].type_key), stored)


def _with_made_ids_hidden(rows: list[dict[str, Any]]) -> list[str]:
    for row in rows:
        if re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", row["data"]["id"]):
            row["data"]["id"] = "<made>"
    return lines(rows)


def test_ids_are_those_of_the_engine(tmp_path: Path) -> None:
    cases = list(_id_cases())
    assert len(cases) >= 40
    bad = [case for case in cases if _id_taken(*case[:2]) is None]
    assert len(bad) >= 15
    records = [(name, _id_record(name, data)) for name, data, _ in bad]
    answers = _each(KEY_DECLARATIONS, records, tmp_path)
    assert [
        (case, answer)
        for case, answer in zip(bad, answers, strict=True)
        if (answer is None) != case[2]
    ] == []

    # A key is unique in a load, so rows that differ only in how the id was given go one by one.
    good = [case for case in cases if _id_taken(*case[:2]) is not None]
    loads: dict[int, list[tuple[str, dict[str, Any]]]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for name, data, _ in good:
        key = (name, str(data.get("name", data.get("a", data.get("id")))))
        loads.setdefault(seen[key], []).append((name, data))
        seen[key] += 1
    for number, load in loads.items():
        graph = _created(KEYS, tmp_path / f"load-{number}")
        assert _refusal(graph, END, *(_id_record(*row) for row in load)) is None
        ours = [line for row in load for line in _id_taken(*row) or ()]
        theirs = _with_made_ids_hidden(_exported(graph))
        assert sorted(_with_made_ids_hidden(ours)) == sorted(theirs)


def test_keys_that_are_not_text_form_ids_as_the_engines_inserts_do(tmp_path: Path) -> None:
    keys = {
        "I32": ("7", pa.array([7], pa.int32())),
        "I64": ("9223372036854775807", pa.array([2**63 - 1])),
        "U32": ("4294967295", pa.array([2**32 - 1], pa.uint32())),
        "U64": ("5", pa.array([5], pa.uint64())),
        "Bool": ("true", pa.array([True])),
        "Date": ('date("2024-01-02")', pa.array([19724], pa.date32())),
    }
    schema = "\n".join(f"node K{kind} {{ k: {kind} @key }}" for kind in keys)
    graph = _created(schema, tmp_path / "one")
    inserts = " ".join(f"insert K{kind} {{ k: {text} }}" for kind, (text, _) in keys.items())
    run_engine("mutate", "--store", graph, "-e", f"query m() {{ {inserts} }}", check=True)
    types = {declared.name: declared for declared in parse_schema(schema).types()}
    ours: list[dict[str, Any]] = []
    for kind, (_, values) in keys.items():
        intake = Intake(types[f"K{kind}"], pa.schema([("k", values.type)]), "append")
        stored = intake.convert(pa.record_batch({"k": values}))
        ours += exported_rows(f"node:K{kind}", pa.Table.from_batches([stored]))
    assert sorted(lines(ours)) == sorted(lines(_exported(graph)))
