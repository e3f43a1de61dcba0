"""Queries made up at random, and rows with everything that is easily got wrong.

A query is text with `{thing}`, `{old}` (an earlier snapshot) and `{link}` for its tables.
Conditions never fail: none overflows, and none casts text to a number.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import StructType

SCHEMA = """
node Thing {
    name: String @key  n: I32  b: Bool?  i: I32?  l: I64?  u: U32?  ul: U64?  f: F32?  d: F64?
    s: String?  e: enum(red, green, blue)?  dt: Date?  ts: DateTime?  tags: [String]?
    vec: Vector(2)?  mixedCase: I32?
}
edge Link: Thing -> Thing { w: I32? }
"""
#: The same rows to Spark; the ids are the keys.
THING = (
    "id string, name string, n int, b boolean, i int, l bigint, u bigint, ul decimal(20,0), "
    "f float, d double, s string, e string, dt date, ts timestamp, tags array<string>, "
    "vec array<float>, mixedCase int"
)
LINK = "id string, src string, dst string, w int"

_UTC = dt.UTC
_VALUES: dict[str, list[Any]] = {
    "b": [True, False],
    "i": [0, 1, -1, 7, 100, 2**31 - 1, -(2**31)],
    "l": [0, 1, -5, 2**53 + 1, 2**63 - 1, -(2**63)],
    "u": [0, 1, 5, 2**31, 2**32 - 1],
    "ul": [0, 1, 5, 2**63, 2**64 - 1],
    "f": [0.0, -0.0, 1.5, -2.25, 0.10000000149011612, math.nan, math.inf, 3.4028234663852886e38],
    "d": [0.0, -0.0, 0.1, -1.5, 1e308, 5e-324, math.nan, math.inf, -math.inf],
    "s": [
        "",
        "a",
        "ab",
        "abc",
        "A",
        "b%",
        "a_b",
        "O'Brien",
        'say "x"',
        "back\\slash",
        "ü",
        "z ",
        "🙂",
        # What stands for bytes that are no text, and is none itself.
        "\ufffd",
    ],
    "e": ["red", "green", "blue"],
    "dt": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "ts": [
        dt.datetime(1960, 1, 1, 0, 0, 0, 1000, _UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999000, _UTC),
        dt.datetime(1970, 1, 1, tzinfo=_UTC),
        dt.datetime(2024, 3, 10, 7, 0, 0, 123000, _UTC),
        dt.datetime(2024, 11, 3, 5, 30, tzinfo=_UTC),
        dt.datetime(2300, 1, 1, tzinfo=_UTC),
    ],
    "tags": [[], ["x"], ["x", "y"], ["z", "x", "x"]],
    "vec": [[0.0, 1.0], [-1.5, 2.5]],
    "mixedCase": [1, 2, 3],
}

_LITERALS: dict[str, list[str]] = {
    "id": ["'t007'", "'t1'", "''", "'T007'"],
    "n": ["0", "3", "-1", "5000000000"],
    "b": ["true", "false"],
    "i": ["0", "7", "-1", "2147483647", "-2147483648", "3000000000", "1.5"],
    "l": ["0L", "-5L", "9007199254740993L", "9223372036854775807L", "1"],
    "u": ["0L", "5L", "4294967295L", "-1L", "4294967296L", "2147483648"],
    "ul": ["0BD", "5BD", "18446744073709551615BD", "-1BD", "9223372036854775808BD", "1"],
    "f": ["0.0F", "-0.0F", "1.5F", "0.1F", "0.1D", "float('NaN')", "float('inf')", "3.4028234E38F"],
    "d": ["0.0D", "-0.0D", "0.1D", "double('NaN')", "double('-inf')", "1e308D", "5e-324D", "1"],
    "s": [
        "''",
        "'a'",
        "'ab'",
        "'A'",
        "'b%'",
        "'O\\'Brien'",
        "'ü'",
        "'back\\\\slash'",
        "'say \"x\"'",
    ],
    "e": ["'red'", "'blue'", "'none'"],
    "dt": ["DATE'0001-01-01'", "DATE'1969-12-31'", "DATE'2024-02-29'", "DATE'9999-12-31'"],
    "ts": [
        "TIMESTAMP'1969-12-31 23:59:59.999Z'",
        "TIMESTAMP'1970-01-01 00:00:00'",
        "TIMESTAMP'2024-03-10 07:00:00.1235Z'",
        "TIMESTAMP'2024-03-10 02:30:00'",
        "TIMESTAMP'2024-11-03 01:30:00'",
        "TIMESTAMP'2300-01-01 00:00:00Z'",
        "DATE'2024-03-10'",
        "TIMESTAMP_NTZ'2024-03-10 07:00:00.123'",
    ],
    "mixedCase": ["1", "2"],
}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_LIKES = (
    "a%",
    "%b",
    "%a%",
    "a_b",
    "_",
    "%",
    "",
    "a%c",
    "b\\\\%",
    "%\\'%",
    "%🙂",
    "ü%",
    "%\\\\\\\\%",
)
_FUNCTIONS = (
    "length(s) > 1",
    "upper(s) = 'A'",
    "coalesce(i, 0) = 0",
    "i % 3 = 1",
    "i < l",
    "e = s",
    "array_contains(tags, 'x')",
    "size(tags) = 2",
    "tags IS NULL",
    "vec IS NOT NULL",
    "vec[0] < 0",
    "isnan(d)",
    "year(ts) = 2024",
    "hour(ts) < 6",
    "date(ts) = DATE'2024-03-10'",
    "cast(i AS string) = '7'",
    "b OR b",
    "NOT b",
    "i = NULL",
    "i <=> NULL",
    "s IN ('a', NULL)",
    "s NOT IN ('a', NULL)",
    "startswith(s, 'a')",
    "endswith(s, 'b')",
    "contains(s, 'b')",
    "s RLIKE '^a.'",
    "s ILIKE 'A%'",
    "MIXEDCASE = 1",
    "true OR b",
    "false AND b",
    "CASE WHEN i > 0 THEN s = 'a' ELSE b END",
    "if(b, i, l) > 0",
    "ul > l",
    "u = i",
    "id IN (SELECT src FROM {link} WHERE w > 2)",
    "NOT EXISTS (SELECT 1 FROM {link} k WHERE k.dst = id)",
)


_SHAPES = (
    "SELECT * FROM {thing} WHERE {where}",
    "SELECT id, {column} FROM {thing} WHERE {where} {order}",
    "SELECT id, {column} FROM {thing} {order} OFFSET {offset}",
    "SELECT count(*) FROM {thing} WHERE {where}",
    "SELECT count(*), count({column}), count(n) FROM {thing}",
    "SELECT min({column}), max({column}), count({other}) FROM {thing} WHERE {where}",
    "SELECT {column}, count(*), sum(n) FROM {thing} GROUP BY {column}",
    "SELECT n, max({column}), count(DISTINCT {other}) FROM {thing} WHERE {where} GROUP BY n",
    """SELECT sum(i), sum(w) FROM {thing} t JOIN {link} k ON k.src = t.id
       WHERE n < 3 AND i < 1000 AND i > -1000""",
    """SELECT k.id, a.{column}, b.{other} FROM {link} k JOIN {thing} a ON k.src = a.id
       LEFT JOIN {thing} b ON k.dst = b.id AND b.n = 2 WHERE k.w >= 2""",
    """SELECT a.id, b.id FROM {thing} a JOIN {thing} b ON a.{column} = b.{column}
       WHERE a.n = 1 AND b.n = 2""",
    "SELECT DISTINCT {column} FROM {thing} WHERE {where}",
    "SELECT id FROM {thing} WHERE {where} EXCEPT SELECT id FROM {old}",
    """SELECT t.id, o.{column} FROM {thing} t JOIN {old} o ON t.id = o.id
       WHERE NOT (t.{column} <=> o.{column})""",
    """WITH x AS (SELECT * FROM {thing} WHERE {where})
       SELECT count(*) FROM x a JOIN x b ON a.n = b.n""",
    "SELECT id, row_number() OVER (PARTITION BY n ORDER BY {column}, id) FROM {thing}",
    "SELECT count(*) FROM (SELECT 1 FROM {thing} WHERE {where} LIMIT {limit})",
    "SELECT id FROM {thing} WHERE n = (SELECT max(n) FROM {old} WHERE {where})",
)


def things(number: int, first: int = 0, seed: int = 1) -> list[dict[str, Any]]:
    """Rows with every value above in some row, and a fifth of them null."""
    pick = random.Random(seed + first)
    made = []
    for place in range(first, first + number):
        row = {key: pick.choice(pool) for key, pool in _VALUES.items()}
        for key in row:
            if pick.random() < 0.2:
                row[key] = None
        made.append({"name": f"t{place:03}", "n": place % 5, **row})
    return made


def links(names: list[str], number: int, seed: int = 2) -> list[dict[str, Any]]:
    """Edges between things, some of them twice."""
    pick = random.Random(seed)
    return [
        {
            "id": f"l{place:03}",
            "src": pick.choice(names),
            "dst": pick.choice(names),
            "w": pick.choice([None, 1, 2, 3, 4]),
        }
        for place in range(number)
    ]


def spark_rows(rows: list[dict[str, Any]], columns: str) -> list[tuple[Any, ...]]:
    """The rows as Spark takes them for these columns."""
    from decimal import Decimal

    def value(row: dict[str, Any], name: str) -> Any:
        found = row.get("name") if name == "id" and "id" not in row else row[name]
        return Decimal(found) if name == "ul" and found is not None else found

    names = StructType.fromDDL(columns).names
    return [tuple(value(row, name) for name in names) for row in rows]


def condition(pick: random.Random, depth: int = 2) -> str:
    """A condition on things."""
    shape = pick.random()
    if depth and shape < 0.45:
        left, right = condition(pick, depth - 1), condition(pick, depth - 1)
        joined = f"({left} {pick.choice(['AND', 'OR'])} {right})"
        return f"NOT {joined}" if pick.random() < 0.25 else joined
    if shape < 0.6:
        return f"({pick.choice(_FUNCTIONS)})"
    column = pick.choice(list(_LITERALS))
    return f"({_on(pick, column)})"


def _on(pick: random.Random, column: str) -> str:
    literal = pick.choice(_LITERALS[column])
    shape = pick.random()
    if column in ("s", "id", "e") and shape < 0.3:
        negated = pick.choice(["", "NOT "])
        return f"{column} {negated}LIKE '{pick.choice(_LIKES)}'"
    if shape < 0.1:
        return f"{column} IS {pick.choice(['', 'NOT '])}NULL"
    if shape < 0.25:
        chosen = pick.sample(_LITERALS[column], min(3, len(_LITERALS[column])))
        chosen += ["NULL"] * (pick.random() < 0.2)
        return f"{column} {pick.choice(['', 'NOT '])}IN ({', '.join(chosen)})"
    if shape < 0.35:
        return f"{column} BETWEEN {literal} AND {pick.choice(_LITERALS[column])}"
    comparison = pick.choice(_COMPARISONS)
    flipped = pick.random() < 0.25
    return f"{literal} {comparison} {column}" if flipped else f"{column} {comparison} {literal}"


def queries(seed: int) -> Iterator[str]:
    """Whole queries, without end: joins, groups, limits in order, offsets, set operations, time."""
    pick = random.Random(seed)
    while True:
        where = condition(pick)
        column = pick.choice(list(_LITERALS))
        other = pick.choice(list(_LITERALS))
        direction = pick.choice(["ASC", "DESC"])
        nulls = pick.choice(["", " NULLS FIRST", " NULLS LAST"])
        limit, offset = pick.choice([0, 1, 5, 1000]), pick.choice([0, 1, 7, 500])
        order = f"ORDER BY {column} {direction}{nulls}, id LIMIT {limit}"
        k = {"where": where, "column": column, "other": other, "order": order}
        for shape in pick.sample(_SHAPES, 6):
            names = {name: f"{{{name}}}" for name in ("thing", "old", "link")}
            yield shape.format(**k, **names, limit=limit, offset=offset)
