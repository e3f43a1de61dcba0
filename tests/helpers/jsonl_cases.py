"""Interchange records, good and bad, and how our reading of each compares with the engine's.

The differences are deliberate: `differences_table` prints them for the README.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

SCHEMA = """
node All {
    s: String?  b: Bool?  i: I32?  j: I64?  u: U32?  w: U64?  f: F32?  d: F64?
    day: Date?  at: DateTime?  e: enum(x, y)?  v: Vector(2)?  p: Blob?
    ls: [String]?  lb: [Bool]?  li: [I32]?  lj: [I64]?  lu: [U32]?  lw: [U64]?
    lf: [F32]?  ld: [F64]?  lday: [Date]?  lat: [DateTime]?
}
node Req { s: String  i: I32? }
node Key { name: String @key  n: I32? }
node NumKey { num: I32 @key }
edge Link: Key -> Key { weight: F32?  since: Date? }
"""

#: What edges of the cases end at.
NODES = '{"type":"Key","data":{"name":"A"}}{"type":"Key","data":{"name":"B"}}'


class Outcome(StrEnum):
    """How we compare with the engine."""

    SAME = "both load it, with equal rows"
    REFUSED = "both refuse it"
    STRICTER = "the engine loads it, we refuse it"
    WIDER = "the engine refuses it, we load it"
    OTHER = "both load it, with different rows"


@dataclass(frozen=True)
class Case:
    """One input, and what becomes of it; `rule` says why where we differ."""

    text: str
    outcome: Outcome
    rule: str = ""
    #: The engine stores what it then cannot export.
    unexportable: bool = False


_WRONG_TYPE = "a value of the wrong JSON type becomes null"
_WRONG_ITEM = "an item of the wrong JSON type becomes null"
_WRAPS = "an integer out of range wraps"
_INFINITE = "a number too large for F32 becomes infinity"
_JUNK = "a date with trailing characters is read without them"
_IGNORED = "unknown properties are ignored"
_IGNORED_FIELD = "unknown fields of a record are ignored"
_IGNORED_DATA = "`data` that is not an object is ignored"
_IGNORED_ID = "an `id` that is not text is ignored"
_IGNORED_TYPE = "a `type` that is not text is ignored where there is an `edge`"
_ZERO = "an item of a vector that is not a number becomes 0.0"

_VALUES: dict[Outcome, dict[str, list[str]]] = {
    Outcome.SAME: {
        "s": [
            '"a"', "null", '""', r'"\u0000\u001f\b\f\/\"\\"', r'"\ud83d\ude00 é ☃"', '"\u2028\x7f"',
        ],
        "b": ["true", "false"],
        "i": ["1", "-1", "2147483647", "-2147483648"],
        "j": ["9223372036854775807", "-9223372036854775808"],
        "u": ["0", "4294967295"],
        "w": ["18446744073709551615"],
        "f": [
            "1", "0.1", "1e-50", "16777217", "3.4028235e38", "-0.0", "1e-7", "18446744073709551615",
        ],
        "d": ["1", "1e308", "5e-324", "9007199254740993", "18446744073709551616", "-0.0", "1e16"],
        "day": [
            '"2024-01-02"', '"2024-1-2"', '"20240102"', '"2024-01-02T03:04:05"',
            '"2024-01-02T23:04:05-05:00"', '"2024-01-02 23:59:60"', '"0000-01-01"', '"-0001-01-01"',
            '"+10000-01-01"', '"+262142-12-31"', "0", "-1", "2147483647",
        ],
        "at": [
            '"2024-01-02"', '"2024-1-2"', '"2024-01-02T03:04:05"', '"2024-01-02 03:04:05"',
            '"2024-01-02t03:04:05z"', '"2024-01-02T03:04:05.1Z"', '"2024-01-02T03:04:05.999999999"',
            '"2024-01-02T03:04:05.12345678901234+01:30"', '"2024-01-02T03:04:05+02"',
            '"2024-01-02T03:04:05 -0200"', '"2024-01-02T03:04:05+01:99"', '"2024-01-02T030405Z"',
            '"2024-01-02T23:59:60.5"', '"2024-01-02T03:04:05Europe/Berlin"',
            '"2024-07-02T03:04:05 US/Pacific"', '"1969-12-31T23:59:59.9999Z"',
            '"0000-01-01T00:00:00+23:00"', '"9999-12-31T23:59:59-23:00"',
            "0", "-1", "253402300800000", "8210266876799999",
        ],
        "e": ['"x"'],
        "v": ["[1,2.5]", "[-0.0,1e-7]", "null"],
        "p": ['"base64:AAECAwQF/w=="', '"base64:aGVsbG8gd29ybGQ="', "null"],
        "ls": ['["a",null,"b"]', "[]", "null"],
        "lb": ["[true,null,false]"],
        "li": ["[1,-2147483648,null]", "[null]"],
        "lj": ["[9223372036854775807]"],
        "lu": ["[4294967295]"],
        "lw": ["[18446744073709551615,0]"],
        "lf": ["[1,2.5]"],
        "ld": ["[1e308,null,-0.0]"],
        "lday": ['["2024-02-29",0,null]'],
        "lat": ['["2024-01-01T00:00:00.123456Z",1,null]'],
    },
    Outcome.REFUSED: {
        "s": [r'"\ud800"'],
        "f": ["1e400", "NaN"],
        "day": [
            '"2024-02-30"', '" 2024-01-02"', '"2024-01-02 "', '"10000-01-01"', '"2024"', '""',
            '"2024-01-02T03:04"', '"2024-01-02T24:00:00"', '"+262143-01-01"', "2147483648",
        ],
        "at": [
            '"bad"', '"2024-01-02T03:04"', '"2024-01-02T24:00:00"', '"2024-01-02T03:04:05."',
            '"2024-01-02T03:04:05 Z"', '"2024-01-02T03:04:05+24:00"', '"2024-01-02T03:04:05+1"',
            '"2024-01-02T03:04:05 europe/berlin"', '"2024-03-31T02:30:00 Europe/Berlin"',
            '"2024-10-27T02:30:00 Europe/Berlin"', '"2024-01-02T030405+02:00"', '"1700000000123"',
        ],
        "e": ['"z"', '"X"'],
        "v": ["[1]", "[1,2,3]"],
        "p": [
            '"base64:AAE"', '"base64:A A="', r'"base64:AAE=\n"', '"base64:-_8="', '"base64:AAF="',
            '"relative/path"', '""', "5", '"http://example.com/a"',
        ],
        "ls": ['"a"', "{}"],
        "li": ["[4294967297]"],
        "lu": ["[4294967296]"],
        "lday": ['["bad"]', "[99999999999]"],
        "lat": ['["bad"]'],
    },
}  # fmt: skip

_STRICTER: dict[str, dict[str, list[str]]] = {
    _WRONG_TYPE: {
        "s": ["1", "true", "[]", "{}"], "b": ['"true"', "1"], "i": ["1.0", '"1"', "true"],
        "j": ["9223372036854775808", "1e2"], "u": ["-1"], "w": ["18446744073709551616"],
        "f": ['"1"'], "d": ["true"], "day": ["1.5", "true", "[]"], "at": ["1.5", "true"],
        "e": ["1"], "v": ['"[1,2]"', "{}"],
    },
    _WRAPS: {"i": ["2147483648", "4294967297"], "u": ["4294967296"]},
    _WRONG_ITEM: {
        "ls": ['["a",1]', '[["a"]]'], "lb": ["[true,1]"], "li": ['[1,"1"]', "[1.0]"],
        "lj": ["[9223372036854775808]"], "lu": ["[-1]"], "lf": ['["1"]'], "lday": ["[1.5]"],
        "lat": ["[true]"],
    },
    _ZERO: {"v": ['[1,"a"]', "[1,null]", "[true,1]"]},
    _JUNK: {"day": ['"2024-01-2x"', '"2024-1-2 "'], "at": ['"2024-1-2xx"']},
}  # fmt: skip


def _records() -> Iterator[Case]:
    """Records as a whole: their shape, names, ids, ends."""
    same, refused, stricter = Outcome.SAME, Outcome.REFUSED, Outcome.STRICTER
    link = '"edge":"Link","from":"A","to":"B"'
    yield Case('{"type":"All","data":{"id":"one"}}{"type":"All","data":{"id":"two"}}', same)
    yield Case('{\n "type":\t"All",\r\n "data": {\n  "id": "pretty"\n }\n}\n\n', same)
    yield Case('{"type":"All"}', same)
    yield Case('{"type":"All","data":null}', same)
    yield Case('{"type":"Req","data":{"s":"x","id":null}}', same)
    yield Case('{"type":"Req","data":{"s":"x","id":"r1"}}', same)
    yield Case('{"type":"Key","data":{"name":"D","id":"D","n":4}}', same)
    yield Case('{"type":"Key","data":{"name":"E1","name":"E2"}}', same)
    yield Case('{"type":null,"edge":"Link","from":"A","to":"B","data":{"id":"l0"}}', same)
    yield Case(f"{{{link}}}", same)
    yield Case('{"edge":"LINK","from":"A","to":"B","data":{"id":"l1","weight":1}}', same)
    yield Case('{"edge":"link","to":"B","from":"A","data":{"id":"l2","since":"2020-05-05"}}', same)
    for text in (
        "[]", "1", '"x"', "null", "{}", '{"type":5,"data":{}}', '{"type":"Nope","data":{}}',
        '{"type":"all","data":{}}', '{"TYPE":"All"}', '{"edge":"Nope","from":"A","to":"B"}',
        '{"edge":"Link","to":"B"}', '{"edge":"Link","from":"A"}',
        '{"edge":"Link","src":"A","dst":"B"}', '{"edge":"Link","from":1,"to":"B"}',
        '{"edge":"Link","from":null,"to":"B"}', '{"edge":5,"from":"A","to":"B"}',
        '{"type":"Key"}', '{"type":"Key","data":{"name":5}}',
        '{"type":"Key","data":{"name":"E","id":"F"}}', '{"type":"Req"}',
        '{"type":"Req","data":{"s":5}}', '{"type":"Req","data":{"s":null}}',
        '{"type":"NumKey","data":{"num":"5"}}', '{"type":"All"} garbage',
        '{"type":"All"},{"type":"All"}', '{"type":"All"', "{'type':'All'}",
        '// comment\n{"type":"All"}', '\ufeff{"type":"All"}', '{"type":"All"}\u00a0',
        '{"type":"All"}\x0c', '{"type":"All","data":{"s":"\x01"}}',
        r'{"type":"All","data":{"s":"\x"}}',
    ):  # fmt: skip
        yield Case(text, refused)
    yield Case('{"type":"Req","data":{"s":"x","zzz":1}}', stricter, _IGNORED)
    yield Case(f'{{{link},"data":{{"src":"B"}}}}', stricter, _IGNORED)
    yield Case('{"type":"All","extra":1}', stricter, _IGNORED_FIELD)
    yield Case(f'{{{link},"id":"top"}}', stricter, _IGNORED_FIELD)
    yield Case(f'{{"type":"All",{link}}}', stricter, _IGNORED_FIELD)
    yield Case('{"type":"All","data":[]}', stricter, _IGNORED_DATA)
    yield Case(f'{{{link},"data":"x"}}', stricter, _IGNORED_DATA)
    yield Case('{"type":"Req","data":{"s":"x","id":5}}', stricter, _IGNORED_ID)
    yield Case('{"type":"Key","data":{"name":"E","id":5}}', stricter, _IGNORED_ID)
    yield Case(f'{{"type":5,{link}}}', stricter, _IGNORED_TYPE)


def _ours() -> Iterator[Case]:
    """What we load and the engine does not, or not as it is written."""
    number = "a node whose key is not text cannot be loaded"
    yield Case('{"type":"NumKey","data":{"num":5}}', Outcome.WIDER, number)
    far = "a time in a year above 9999 or below 0, as the engine exports it, cannot be loaded"
    yield Case(_value("at", '"+10000-01-01T00:00:00"', "w1"), Outcome.WIDER, far)
    yield Case(_value("at", '"-0001-12-31T01:00:00.5"', "w2"), Outcome.WIDER, far)
    float_ = "a float of more than 15 digits is often read with another last digit"
    yield Case(_value("d", "10928588.983213553", "o1"), Outcome.OTHER, float_)
    yield Case(_value("d", "-1.8226019816232835e-66", "o2"), Outcome.OTHER, float_)
    yield Case(_value("d", "-0", "o3"), Outcome.OTHER, "the integer -0 is read as the float -0.0")
    null = "the integer -0 is no integer and becomes null"
    yield Case(_value("i", "-0", "o4"), Outcome.OTHER, null)
    yield Case(_value("f", "1e39", "i1"), Outcome.STRICTER, _INFINITE, unexportable=True)
    yield Case(_value("lf", "[-1e39]", "i2"), Outcome.STRICTER, _INFINITE, unexportable=True)
    yield Case(_value("v", "[1e39,0]", "i3"), Outcome.STRICTER, _INFINITE, unexportable=True)


def _value(name: str, json: str, id_: str) -> str:
    return f'{{"type":"All","data":{{"id":"{id_}","{name}":{json}}}}}'


def cases() -> list[Case]:
    """Every case; no two of them make rows of the same id."""
    by_rule = [(outcome, "", values) for outcome, values in _VALUES.items()]
    by_rule += [(Outcome.STRICTER, rule, values) for rule, values in _STRICTER.items()]
    values = [
        (outcome, rule, name, json)
        for outcome, rule, texts in by_rule
        for name in texts
        for json in texts[name]
    ]
    made = [
        Case(_value(name, json, f"v{number}"), outcome, rule)
        for number, (outcome, rule, name, json) in enumerate(values)
    ]
    return [*made, *_records(), *_ours()]


#: What we do where the engine does something else.
_WE = {
    Outcome.STRICTER: "An error names line, type, property, what was found and what would work",
    Outcome.WIDER: "It is loaded",
    Outcome.OTHER: "It is read exactly as it is written, `-0` as 0",
}


def differences_table() -> str:
    """Print the differences as tables by what we do: what the engine does, an example."""
    tables: dict[Outcome, dict[str, str]] = {outcome: {} for outcome in _WE}
    for case in cases():
        if case.rule:
            tables[case.outcome].setdefault(case.rule, case.text)
    return "\n\n".join(differences(_WE[outcome], of) for outcome, of in tables.items())


def differences(we: str, examples: Mapping[str, str]) -> str:
    """Print one table of what the engine does where `we` do something else."""
    lines = [f"| {theirs} | `{example}` |" for theirs, example in examples.items()]
    head = ["| the engine 0.8 | for example |", "|---|---|"]
    return "\n".join([f"{we}, where", "", *head, *lines])
