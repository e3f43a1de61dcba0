"""Rows of many kinds, as the engine's JSON and as Arrow: what one refuses the other has to refuse.

A group is a property `x` with its rules and the values it is tried with. Where we refuse what the
engine takes, the value is listed as stricter, under its reason; nothing is refused by the engine
and taken by us.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.helpers.pattern_cases import MATCHES

#: Stands for a property that is not given at all.
ABSENT = object()

_TEXTS = pa.string()
_LIST = pa.list_


@dataclass(frozen=True)
class Group:
    """Values for a property `x`, all under one rule."""

    rule: str
    type: str
    arrow: pa.DataType
    values: list[Any]
    #: Values that only we refuse, by the reason.
    stricter: dict[str, list[Any]] = field(default_factory=dict)
    constraint: str = ""
    edge: bool = False

    def declaration(self, name: str) -> str:
        """Return the type with this property."""
        if self.edge:
            return f"edge {name}: End -> End {{ x: {self.type} {self.constraint} }}"
        return f"node {name} {{ name: String @key  x: {self.type} {self.constraint} }}"


def _check_groups() -> list[Group]:
    groups = []
    for pattern, (yes, no) in MATCHES.items():
        text = pattern.replace("\\", "\\\\").replace('"', '\\"')
        # A load for each that does not match takes the time; the first two say most.
        values = [*yes, *no[:2], None]
        groups.append(Group("check", "String?", _TEXTS, values, constraint=f'@check(x, "{text}")'))
    return groups


_GOOD = {
    "String": (_TEXTS, ["", "a", "é"]),
    "enum(a, b)": (_TEXTS, ["a", "b"]),
    "Bool": (pa.bool_(), [True, False]),
    "I32": (pa.int64(), [0, -1]),
    "I64": (pa.int64(), [0, 2**53 + 1]),
    "U32": (pa.int64(), [0, 1]),
    "U64": (pa.uint64(), [0, 2**64 - 1]),
    "F32": (pa.float64(), [0.0, 0.1]),
    "F64": (pa.float64(), [-0.0, 1e300]),
    "Date": (pa.date32(), [0, -1]),
    "DateTime": (pa.timestamp("ms"), [0, -1]),
    "Vector(2)": (_LIST(pa.float64()), [[1.0, 2.0]]),
    "[I32]": (_LIST(pa.int64()), [[], [1]]),
}
_ODD_TEXTS = ["", "A", "a ", " a", "ä", "a\n", "ab", "aa", "b-", "null", "a\0", "a", "b_1", "C-2"]
_NUMBERS = [-7, -6, -5, -4, -1, 0, 1, 2, 3, 9, 10, 11, 12, 100, None]
_FLOATS = [-0.1, -1e-300, -0.0, 0.0, 1e-300, 0.1, 0.5, 0.999999, 1.0, 1.000001]
_ITEMS: list[Any] = [
    [],
    [0],
    [1, 2, 3],
    [2**31 - 1, -(2**31)],
    None,
    [0] * 20,
    [None],
    [1, None],
    [None, 1, 2],
]
_WRONG_KIND = "a value of another kind becomes null"

GROUPS: list[Group] = [
    *(
        Group("required", kind, arrow, [*values, None, ABSENT])
        for kind, (arrow, values) in _GOOD.items()
    ),
    *(
        Group("required", f"{kind}?", arrow, [*values, None])
        for kind, (arrow, values) in _GOOD.items()
    ),
    Group("enum", "enum(a, b_1, C-2)", _TEXTS, _ODD_TEXTS),
    Group("enum", "enum(a, b_1, C-2)?", _TEXTS, [*_ODD_TEXTS, None]),
    Group("enum", "enum(a, b_1, C-2)?", _TEXTS, [*_ODD_TEXTS, None], edge=True),
    Group("range", "I32?", pa.int64(), _NUMBERS, constraint="@range(x, -5..10)"),
    Group("range", "I64?", pa.int64(), _NUMBERS, constraint="@range(x, -5.5..9.5)"),
    Group("range", "U32?", pa.int64(), [0, 1, 2, 3, 10, None], constraint="@range(x, 2..)"),
    Group("range", "F64?", pa.float64(), [*_FLOATS, None], constraint="@range(x, 0.0..1.0)"),
    Group("range", "F64?", pa.float64(), [*_FLOATS, 1e308], constraint="@range(x, 0..1)"),
    Group("range", "F32?", pa.float64(), [0.1, 0.09, 0.11, 0.2], constraint="@range(x, 0.1..)"),
    Group("range", "F32?", pa.float64(), [0.1, 0.3, 0.29, 0.31], constraint="@range(x, 0.1..0.3)"),
    Group("range", "[I32]?", _LIST(pa.int64()), [[0], [100], None], constraint="@range(x, 0..1)"),
    Group(
        "range",
        "I64?",
        pa.int64(),
        [2**53, 2**53 + 2, -(2**53), 0],
        {"large integers are compared as floats": [2**53 + 1]},
        constraint="@range(x, -9007199254740992..9007199254740992)",
    ),
    Group(
        "range",
        "U64?",
        pa.uint64(),
        [2**62, 2**63, 2**64 - 1],
        constraint="@range(x, 0..4611686018427387904)",
    ),
    *_check_groups(),
    Group(
        "vector",
        "Vector(3)?",
        _LIST(pa.float64()),
        [
            None,
            *([float(number)] * 3 for number in (0, 1, -1, 0.1, 1e-45, 1e-50, 3.4028234e38, -0.0)),
            *([0.5] * length for length in (0, 1, 2, 4, 5, 6, 7, 8, 30)),
            *([place / 8, 1.0, -place / 3] for place in range(10)),
            *([place / 8] * 2 for place in range(5)),
            *([place / 8] * 4 for place in range(5)),
        ],
        {
            "numbers that are missing become 0": [[1.0, None, 2.0], [None, None, None]],
            "large numbers become infinite": [[1e39, 0.0, 0.0], [0.0, -1e300, 0.0]],
        },
    ),
    Group("vector", "Vector(1)", _LIST(pa.float64()), [[1.5], [], [1.0, 2.0], None, ABSENT]),
    Group(
        "list",
        "[I32]?",
        _LIST(pa.int64()),
        [*_ITEMS, [2**31], [-(2**31) - 1], [0, 2**40], [2**31, 0], [1, 2**62], [-(2**40)]],
    ),
    Group(
        "list",
        "[U32]",
        _LIST(pa.int64()),
        [[], [0], [2**32 - 1], [2**32], [0, 2**40], [2**33, 1], None],
        {"items below zero become null": [[-1], [5, -1]]},
    ),
    Group("list", "[I64]?", _LIST(pa.int64()), [[], [2**63 - 1], [-(2**63)], None]),
    Group("list", "[U64]?", _LIST(pa.uint64()), [[], [2**64 - 1], [0], None]),
    Group("list", "[String]", _LIST(_TEXTS), [[], [""], ["a", "é"], None, ABSENT]),
    Group("list", "[Bool]?", _LIST(pa.bool_()), [[], [True, False, None], None]),
    Group("list", "[F64]?", _LIST(pa.float64()), [[], [0.1, -0.0, None], [1e308], None]),
    Group("list", "[Date]?", _LIST(pa.date32()), [[], [0, -1, 19724], None]),
    Group("list", "[DateTime]?", _LIST(pa.timestamp("ms")), [[], [0, -1, 1_700_000_000_123], None]),
    Group(
        "integer",
        "I32?",
        pa.int64(),
        [0, 1, -1, 2**31 - 1, -(2**31), None, 2**30, -(2**30), 65_536, 127],
        {"integers wrap": [2**31, -(2**31) - 1, 2**32, 2**32 + 1, 2**63 - 1]},
    ),
    Group(
        "integer",
        "I64?",
        pa.int64(),
        [0, 2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, None, 1, -1],
    ),
    Group(
        "integer",
        "I64?",
        pa.uint64(),
        [0, 2**63 - 1, 2**32, 7],
        {"integers beyond 64 bits with a sign become null": [2**63, 2**64 - 1]},
    ),
    Group(
        "integer",
        "U32?",
        pa.int64(),
        [0, 1, 2**32 - 1, 2**31, 65_535, None],
        {
            "integers wrap": [2**32, 2**32 + 1, 2**40],
            "integers below zero become null": [-1, -(2**31)],
        },
    ),
    Group(
        "integer",
        "U64?",
        pa.uint64(),
        [0, 2**64 - 1, 2**63, 2**53 + 1, None],
    ),
    Group(
        "integer",
        "U64?",
        pa.int64(),
        [0, 2**63 - 1],
        {"integers below zero become null": [-1, -(2**63)]},
    ),
    Group("integer", "I32", pa.int64(), [5], {"integers wrap": [2**31, 2**33]}),
    Group(
        "float",
        "F32?",
        pa.float64(),
        [0.0, -0.0, 0.1, 1e-45, 1e-60, 3.4028234e38, -3.4028234e38, 16777217.0, 1.5, 2.5, None]
        + [place / 7 for place in range(12)],
        {"large numbers become infinite": [1e39, -1e300, 3.5e38]},
    ),
    Group(
        "float",
        "F64?",
        pa.float64(),
        # Few digits: the engine's reader of JSON misses the nearest float of some long ones.
        [0.0, -0.0, 0.1, 5e-324, 1e308, 9007199254740993.0, None]
        + [place * 1e17 for place in range(12)],
    ),
    Group("time", "Date?", pa.date32(), [0, -1, 19724, -719162, 2932896, None]),
    Group(
        "time",
        "DateTime?",
        pa.timestamp("ms"),
        [0, 1, -1, 999, 1000, -1000, -1001, 86_399_999, -86_400_001, 1_700_000_000_123, None]
        + [place * 12_345_678_901 for place in range(-12, 13)],
    ),
    # Kinds that do not fit at all: an error of ours before any row is read.
    Group("kind", "I32?", _TEXTS, [], {_WRONG_KIND: ["1", "x"]}),
    Group("kind", "I64?", pa.float64(), [], {_WRONG_KIND: [1.5, 2.0]}),
    Group("kind", "String?", pa.int64(), [], {_WRONG_KIND: [5]}),
    Group("kind", "Bool?", pa.int64(), [], {_WRONG_KIND: [1]}),
    Group("kind", "F64?", _TEXTS, [], {_WRONG_KIND: ["1.5"]}),
    Group("kind", "Vector(2)?", _TEXTS, [], {_WRONG_KIND: ["x"]}),
    Group("kind", "[I32]?", _LIST(_TEXTS), [], {_WRONG_KIND: [["1"]]}),
    Group("kind", "[String]?", _TEXTS, ["a"]),
    Group("kind", "Date?", _TEXTS, ["yesterday"], {"text is read as a date": ["2024-01-02"]}),
    Group(
        "kind", "DateTime?", _TEXTS, ["soon"], {"text is read as a time": ["2024-01-02T03:04:05"]}
    ),
]
