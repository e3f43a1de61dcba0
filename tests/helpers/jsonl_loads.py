"""Loads of several records at once: rules that no record breaks by itself, in every mode.

Each begins with the graph of `BASE`. What the engine made of each is recorded in
`tests/data/recorded-0.8.0`, which `python -m tests.helpers.jsonl_loads` writes anew.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.engine import run_engine
from tests.helpers.jsonl_cases import NODES, Outcome, cases, differences
from tests.helpers.jsonl_cases import SCHEMA as OF_RECORDS

RECORDED = Path(__file__).parent.parent / "data" / "recorded-0.8.0" / "jsonl.json"

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node Flat { street: String  number: I32?  @unique(street, number) }
edge Knows: Person -> Person @card(0..2) { since: I32? }
edge Owns: Person -> Flat { share: I32?  @unique(share) }
"""


def person(name: str, **values: Any) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, **values}})


def flat(id_: str, street: str, number: int | None = None) -> str:
    return json.dumps({"type": "Flat", "data": {"id": id_, "street": street, "number": number}})


def edge(type_: str, id_: str | None, src: str, dst: str, **values: Any) -> str:
    data = values if id_ is None else {"id": id_, **values}
    return json.dumps({"edge": type_, "from": src, "to": dst, "data": data})


def knows(id_: str | None, src: str, dst: str, **values: Any) -> str:
    return edge("Knows", id_, src, dst, **values)


BASE = [
    person("A", age=1, mail="a@x"),
    person("B", age=2, mail="b@x"),
    flat("f1", "Main", 1),
    knows("k1", "A", "B", since=1),
    edge("Owns", "o1", "A", "f1", share=5),
]


@dataclass(frozen=True)
class Load:
    """Records loaded at once in one mode; `differs` says what the engine does where we refuse."""

    mode: str
    records: tuple[str, ...]
    differs: str = ""


def _load(mode: str, *records: str, differs: str = "") -> Load:
    return Load(mode, records, differs)


_TWICE = "`append` of an id that exists adds a second row of that id"
_BOTH = "an id that comes twice in an `append` is there twice, of edges and of nodes without a key"
_LAST = "of edges with one id in a `merge` the last one stays"
C, D, E = person("C"), person("D"), person("E")
LOADS: dict[str, Load] = {
    "append, nothing": _load("append"),
    "append, a new row": _load("append", C),
    "append, an id that exists": _load("append", person("A", age=9), differs=_TWICE),
    "append, an id of no key that exists": _load("append", flat("f1", "Side", 2), differs=_TWICE),
    "append, an edge id that exists": _load("append", knows("k1", "B", "A"), differs=_TWICE),
    "append, a key twice": _load("append", C, person("C", age=3)),
    "append, the same row twice": _load("append", C, C),
    "append, an id without a key twice": _load(
        "append", flat("f2", "S", 2), flat("f2", "T", 3), differs=_BOTH
    ),
    "append, an edge id twice": _load(
        "append", knows("k2", "A", "B"), knows("k2", "B", "A"), differs=_BOTH
    ),
    "append, edges before their nodes": _load("append", knows("k2", "C", "D"), D, C),
    "append, an edge from nowhere": _load("append", knows("k2", "X", "A")),
    "append, an edge to nowhere": _load("append", C, knows("k2", "C", "X")),
    "append, an edge to a node of another type": _load("append", knows("k2", "A", "f1")),
    "append, one bad record among good ones": _load("append", C, '{"type":"Person","data":{}}', D),
    "append, an unknown type among good ones": _load("append", C, '{"type":"Nobody","data":{}}'),
    "append, an unknown edge among good ones": _load("append", C, edge("Likes", "l", "A", "B")),
    "append, a unique value twice": _load("append", person("C", mail="c"), person("D", mail="c")),
    "append, a unique value that exists": _load("append", person("C", mail="a@x")),
    "append, null is no unique value": _load("append", C, D, E),
    "append, a unique pair twice": _load("append", flat("f2", "S", 2), flat("f3", "S", 2)),
    "append, a unique pair that exists": _load("append", flat("f2", "Main", 1)),
    "append, a unique pair with null twice": _load("append", flat("f2", "S"), flat("f3", "S")),
    "append, a unique value of an edge that exists": _load(
        "append", edge("Owns", "o2", "B", "f1", share=5)
    ),
    "append, as many edges as may be": _load("append", knows("k2", "A", "A")),
    "append, an edge more than may be": _load(
        "append", knows("k2", "A", "A"), C, knows("k3", "A", "C")
    ),
    "merge, an id that exists": _load("merge", person("A", age=9)),
    "merge, a key twice": _load("merge", C, person("C", age=3)),
    "merge, an edge id twice": _load(
        "merge", knows("k1", "A", "B"), knows("k1", "B", "A"), differs=_LAST
    ),
    "merge, an edge that moves": _load("merge", knows("k1", "B", "A")),
    "merge, an edge to nowhere": _load("merge", knows("k1", "A", "X")),
    "merge, edges before their nodes": _load("merge", knows("k2", "C", "A"), C),
    "merge, the unique value of the row itself": _load("merge", person("A", mail="a@x")),
    "merge, a unique value of another row": _load("merge", person("B", mail="a@x")),
    "merge, unique values that change places": _load(
        "merge", person("A", mail="b@x"), person("B", mail="a@x")
    ),
    "merge, a unique value that is given up": _load(
        "merge", person("A", mail="z"), person("C", mail="a@x")
    ),
    "merge, an edge more than may be": _load("merge", knows("k2", "A", "A"), knows("k3", "A", "B")),
    "merge, an unknown type among good ones": _load("merge", C, '{"type":"Nobody","data":{}}'),
    "overwrite, all types": _load("overwrite", C, D, knows("k9", "C", "D"), flat("f9", "S", 9)),
    "overwrite, nodes that edges end at": _load("overwrite", C),
    "overwrite, edges alone": _load("overwrite", knows("k9", "B", "A")),
    "overwrite, an edge to a node that is gone": _load("overwrite", C, knows("k9", "C", "A")),
    "overwrite, a key twice": _load("overwrite", C, person("C", age=3)),
    "overwrite, a unique value that goes with its row": _load(
        "overwrite", person("B", mail="a@x"), person("A")
    ),
    "overwrite, an edge more than may be": _load(
        "overwrite", knows("k7", "A", "B"), knows("k8", "A", "A"), knows("k9", "A", "B")
    ),
    "overwrite, nothing": _load("overwrite"),
}


def loads_differences() -> str:
    """Print README's table of differences that are about several records."""
    examples: dict[str, str] = {}
    for load in LOADS.values():
        if load.differs:
            examples.setdefault(load.differs, " ".join(load.records))
    return differences("An error names the ids", examples)


#: The rows of a graph as its export tells them; None where a load is refused.
Answer = list[str] | None

_ULID = re.compile(r'"id":\s?"[0-7][0-9A-HJKMNP-TV-Z]{25}"')


def comparable(export: str) -> list[str]:
    """Lines without ids that were made; such lines are in no order."""
    return sorted(_ULID.sub('"id":"made"', line) for line in export.splitlines())


def recorded() -> dict[str, dict[str, Answer]]:
    """Return what the engine made of every load, and of all records that both sides load alike."""
    answers: dict[str, dict[str, Answer]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return answers


def text_of(records: Iterable[str]) -> str:
    """Return records as lines."""
    return "".join(f"{record}\n" for record in records)


def same_records() -> list[str]:
    """Return the single records that both sides load with equal rows, and what they refer to."""
    return [NODES, *(case.text for case in cases() if case.outcome is Outcome.SAME)]


def ask_engine(loads: Mapping[str, Load], folder: Path) -> dict[str, Answer]:
    """Let the engine do every load, each on a copy of one graph that it made."""
    base = _created(folder / "base", SCHEMA, BASE)

    def answer(number: int, load: Load) -> Answer:
        graph = Path(shutil.copytree(base, folder / f"g{number}"))
        if not _engine_load(graph, load.records, load.mode):
            return None
        return comparable(run_engine("export", graph, check=True).stdout)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(loads, pool.map(answer, range(len(loads)), loads.values()), strict=True))


def ask_engine_of_records(folder: Path) -> Answer:
    """Let the engine load all single records that both sides load alike."""
    graph = _created(folder / "records", OF_RECORDS, same_records())
    return comparable(run_engine("export", graph, check=True).stdout)


def _created(graph: Path, schema: str, records: list[str]) -> Path:
    graph.with_suffix(".pg").write_text(schema, encoding="utf-8")
    run_engine("init", "--schema", graph.with_suffix(".pg"), graph, check=True)
    assert _engine_load(graph, records, "append")
    return graph


def _engine_load(graph: Path, records: Iterable[str], mode: str) -> bool:
    data = graph.with_suffix(".jsonl")
    data.write_text(text_of(records), encoding="utf-8")
    return run_engine("load", graph, "--data", data, "--mode", mode).returncode == 0


def main() -> None:
    """Record anew what the engine makes of every load."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        alike = {"all": ask_engine_of_records(place)}
        answers = {"records": alike, "loads": ask_engine(LOADS, place)}
    RECORDED.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
