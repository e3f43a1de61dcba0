"""Conditions that planners push choose the rows Spark would, with and without indexes."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.predicates import lance_condition, looked_up
from omnigraph_spark.scan import ScanRequest, ScanSource, count_task, plan_scan, read_task
from omnigraph_spark.schema.model import Scalar

#: How many conditions are tried on each graph; more by the variable.
CONDITIONS = int(os.environ.get("OMNIGRAPH_CONDITIONS", "150"))
COLUMNS = {
    "b": Scalar.BOOL,
    "i": Scalar.I32,
    "l": Scalar.I64,
    "u": Scalar.U32,
    "ul": Scalar.U64,
    "f": Scalar.F32,
    "d": Scalar.F64,
    "s": Scalar.STRING,
    "day": Scalar.DATE,
    "at": Scalar.DATETIME,
}
_PROPERTIES = (
    "b: Bool?  i: I32?  l: I64?  u: U32?  ul: U64?  f: F32?  d: F64?  s: String?  day: Date?  "
    "at: DateTime?"
)
_INDEXED = "\n".join(f"@index({name})" for name in COLUMNS)
_TINY = 1.401298464324817e-45
#: Stored values: those at the ends, and those that are equal though they look different.
VALUES: dict[str, list[Any]] = {
    "b": [True, False],
    "i": [0, 1, -1, 7, 2**31 - 1, -(2**31)],
    "l": [0, 1, -5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "u": [0, 1, 5, 2**31, 2**32 - 1],
    "ul": [0, 1, 5, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1],
    "f": [0.0, -0.0, 1.5, -2.25, 0.10000000149011612, math.nan, math.inf, -math.inf, _TINY, -_TINY],
    "d": [0.0, -0.0, 0.1, 0.10000000149011612, -1.5, 1e308, 5e-324, math.nan, math.inf, -math.inf],
    "s": ["", "a", "ab", "abc", "A", "b%", "a_b", "O'Brien", 'x"', "\\", "\\'", "ü", "z ", "🙂"],
    "day": [-719_162, -1, 0, 1, 19_782, 2_932_896],
    "at": [-315_619_200_000, -1, 0, 1, 1_710_054_000_123, 10_413_792_000_000, -62_135_596_800_000],
}
#: What they are compared with as well, as the jar sends it; instants are microseconds there.
_OTHERS: dict[str, list[Any]] = {
    "i": [2, -2],
    "l": [2**53 - 1, -(2**63) + 1],
    "u": [-1, 2**32, -(2**63), 2**63 - 1],
    "ul": ["-1", "18446744073709551616", "99999999999999999999", "-99999999999999999999"],
    "f": [0.5, 3.4028234663852886e38],
    "d": [0.30000000000000004, -5e-324, 1.7976931348623157e308],
    "s": ["%", "_", "b\\%", "\n", "''", "'; --", "É", "a\u0000"],
    "day": [2, -2, 18_000],
    "at": [-1, 1, 999, -999, 500, -62_135_596_800_000_001, 9_223_372_036_854_775_807],
}
_COMPARISONS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": str.__contains__,
}

Row = Mapping[str, Any]


def literals(name: str) -> list[Any]:
    """Everything a column is compared with; what is not finite stays in Spark."""
    stored = [v for v in VALUES[name] if not isinstance(v, float) or math.isfinite(v)]
    if name == "at":
        stored = [value * 1_000 for value in stored]
    if name == "ul":
        stored = [str(value) for value in stored]
    return stored + _OTHERS.get(name, [])


def comparable(name: str, value: Any) -> Any:
    """What compares as Spark compares values of a column."""
    match COLUMNS[name]:
        case Scalar.STRING:
            return str(value).encode()
        case Scalar.U64:
            return int(value)
        case Scalar.F32 | Scalar.F64:
            return (1, 0.0) if math.isnan(value) else (0, float(value))
    return value


def holds(tree: Mapping[str, Any], row: Row) -> bool | None:
    """What Spark says of a row: true, false, or None for unknown."""
    op, args = tree["op"], tree["args"]
    if op in ("and", "or"):
        decides = op == "or"
        found = [holds(arg, row) for arg in args]
        return decides if decides in found else None if None in found else not decides
    if op == "not":
        inner = holds(args[0], row)
        return None if inner is None else not inner
    name = args[0]["col"]
    value, given = row[name], [arg["lit"] for arg in args[1:]]
    if op in ("is_null", "is_not_null"):
        return (value is None) == (op == "is_null")
    if op == "<=>":
        if value is None or given[0] is None:
            return value is None and given[0] is None
        return _order(name, value, given[0]) == 0
    if value is None:
        return None
    if op == "in":
        same = any(_order(name, value, v) == 0 for v in given if v is not None)
        return True if same else None if None in given else False
    if op in _TEXTS:
        return _TEXTS[op](value, given[0])
    return _COMPARISONS[op](_order(name, value, given[0]))


def _order(name: str, stored: Any, given: Any) -> int:
    if name == "at":
        stored *= 1_000
    left, right = comparable(name, stored), comparable(name, given)
    return (left > right) - (left < right)


def tree(pick: random.Random, depth: int = 2) -> dict[str, Any]:
    """A condition as the jar writes it."""
    shape = pick.random()
    if depth and shape < 0.3:
        args = [tree(pick, depth - 1) for _ in range(pick.randint(2, 3))]
        return {"op": pick.choice(["and", "or"]), "args": args}
    if depth and shape < 0.45:
        return {"op": "not", "args": [tree(pick, depth - 1)]}
    name = pick.choice(list(COLUMNS))
    column, pool = {"col": name}, literals(name)
    if shape < 0.55:
        return {"op": pick.choice(["is_null", "is_not_null"]), "args": [column]}
    if shape < 0.7:
        values = pick.sample(pool, min(len(pool), pick.randint(1, 3)))
        values += [None] * (pick.random() < 0.25)
        return {"op": "in", "args": [column, *({"lit": value} for value in values)]}
    if name == "s" and shape < 0.85:
        return {"op": pick.choice(list(_TEXTS)), "args": [column, {"lit": pick.choice(pool)}]}
    op = pick.choice([*_COMPARISONS, "<=>"])
    value = None if op == "<=>" and pick.random() < 0.2 else pick.choice(pool)
    return {"op": op, "args": [column, {"lit": value}]}


def made(number: int, first: int, pick: random.Random) -> list[dict[str, Any]]:
    """Rows with every value in some row, and a fifth of them null."""
    rows = []
    for place in range(first, first + number):
        values = {name: pick.choice(pool) for name, pool in VALUES.items()}
        nulls = {name: None for name in VALUES if pick.random() < 0.2}
        rows.append({"name": f"t{place:03}", **values, **nulls})
    return rows


def table(rows: list[dict[str, Any]]) -> pa.Table:
    kinds: dict[str, pa.DataType] = {
        "b": pa.bool_(), "i": pa.int32(), "l": pa.int64(), "u": pa.uint32(), "ul": pa.uint64(),
        "f": pa.float32(), "d": pa.float64(), "s": pa.string(), "day": pa.date32(),
        "at": pa.timestamp("ms", "UTC"),
    }  # fmt: skip
    columns: dict[str, Any] = {"name": pa.array([row["name"] for row in rows])}
    for name, kind in kinds.items():
        whole = {"day": pa.int32(), "at": pa.int64()}.get(name, kind)
        columns[name] = pa.array([row[name] for row in rows], whole).cast(kind)
    return pa.table(columns)


@dataclass(frozen=True)
class Case:
    graph: og.Graph
    rows: list[dict[str, Any]]

    def source(self) -> ScanSource:
        return ScanSource.of(self.graph.refresh().snapshot()._state, "Thing")


@pytest.fixture(scope="module", params=["no index", "indexes", "indexes and rows since"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Things in three fragments, some of them deleted, some rewritten."""
    indexes = request.param != "no index"
    schema = f"node Thing {{ name: String @key  {_PROPERTIES} {_INDEXED if indexes else ''} }}"
    graph = og.create(tmp_path_factory.mktemp("predicates") / "g", schema)
    pick = random.Random(request.param)
    rows = {row["name"]: row for row in made(120, 0, pick)}
    for first in (0, 40, 80):
        graph.write(table(list(rows.values())[first : first + 40]), "Thing")
    if indexes:
        graph.build_indexes()
    if request.param != "indexes":
        changed = [*made(20, 30, pick), *made(20, 120, pick)]
        graph.write(table(changed), "Thing", "merge")
        rows |= {row["name"]: row for row in changed}
    gone = [f"t{place:03}" for place in range(5, 120, 9)]
    graph.delete("Thing", where=f"name in ({', '.join(map(repr, gone))})")
    return Case(graph, [row for name, row in rows.items() if name not in gone])


@pytest.mark.slow
def test_a_pushed_condition_chooses_the_rows_that_spark_would(case: Case) -> None:
    source, pick = case.source(), random.Random(7)
    for _ in range(CONDITIONS):
        trees = [tree(pick) for _ in range(pick.randint(1, 2))]
        where = lance_condition(trees, COLUMNS)
        asked = ScanRequest(
            columns=("name",), where=where, keys=tuple(looked_up(trees)), own_filter=True
        )
        tasks = plan_scan(source, asked).tasks
        found = [n for t in tasks for b in read_task(t) for n in b.column("name").to_pylist()]
        wanted = [row["name"] for row in case.rows if all(holds(t, row) is True for t in trees)]
        assert sorted(found) == sorted(wanted), where
        assert sum(map(count_task, tasks)) == len(wanted), where
