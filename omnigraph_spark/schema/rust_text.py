"""How the engine's serializer writes: JSON and floats, byte for byte.

The schema hash is taken over these bytes, so Python's own writers do not do: they print some floats
differently. Digits are the same on both sides (shortest that read back), only the notation differs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any


def json_text(value: Any, *, pretty: bool = False) -> str:
    """Write a JSON value, on one line or with two blanks of indent.

    >>> json_text({"a": [1, 1e-06, None], "b": []})
    '{"a":[1,1e-6,null],"b":[]}'
    """
    return "".join(_pieces(value, "\n" if pretty else "", ": " if pretty else ":"))


def _pieces(value: Any, line: str, colon: str) -> Iterator[str]:
    inner = f"{line}  " if line else ""
    if isinstance(value, float):
        yield json_float(value)
    elif isinstance(value, dict) and value:
        for number, (key, item) in enumerate(value.items()):
            yield f"{',' if number else '{'}{inner}{_plain(key)}{colon}"
            yield from _pieces(item, inner, colon)
        yield f"{line}}}"
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield f"{',' if number else '['}{inner}"
            yield from _pieces(item, inner, colon)
        yield f"{line}]"
    else:
        yield _plain(value)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def json_float(value: float) -> str:
    """Write a float as the engine's JSON has it; what is not finite becomes null.

    >>> [json_float(x) for x in (1.0, 1e-05, 1.2e-06, 1e16, -0.0, float("inf"))]
    ['1.0', '0.00001', '1.2e-6', '1e+16', '-0.0', 'null']
    """
    if not math.isfinite(value):
        return "null"
    point = Decimal(repr(value)).adjusted() + 1  # digits before the decimal point
    return plain_float(value) if value == 0 or -5 < point <= 16 else _exponent(value, plus="+")


def debug_float(value: float) -> str:
    """Write a float as Rust's debug form has it: the sort key of ranges contains it.

    >>> [debug_float(x) for x in (1.0, 1e-05, 1e16)]
    ['1.0', '1e-5', '1e16']
    """
    text = repr(value)
    return _exponent(value, plus="") if "e" in text else text


def plain_float(value: float) -> str:
    """Write a finite float without an exponent; the schema language has none.

    >>> plain_float(1.5e17)
    '150000000000000000.0'
    """
    text = f"{Decimal(repr(value)):f}"
    return text if "." in text else f"{text}.0"


def _exponent(value: float, *, plus: str) -> str:
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    significant = "".join(map(str, digits)).rstrip("0")
    power = len(digits) + int(exponent) - 1
    fraction = f".{significant[1:]}" if len(significant) > 1 else ""
    mark = "" if power < 0 else plus
    return f"{'-' if sign else ''}{significant[0]}{fraction}e{mark}{power}"
