"""JSON values of one property become an Arrow column, or the rows that do not fit are named.

A column is converted at once; only when that fails are its values looked at one by one. The engine
turns a value of the wrong JSON type into null, wraps integers, and makes 0.0 of an item that is no
number; here each of these is a fault. Otherwise what fits is what the engine takes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from types import NoneType
from typing import Any, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.jsonl.times import dates, times
from omnigraph_spark.schema.arrow import arrow_type
from omnigraph_spark.schema.model import PropertyType, Scalar

Values = Sequence[Any]
_Build = Callable[[Values], "pa.Array[Any]"]

#: What building a column from values raises when one of them does not fit.
_UNFIT = (ValueError, OverflowError, pa.ArrowTypeError)
_BASE64 = "base64:"
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.")
_SHOWN = 60
_LISTS: frozenset[type] = frozenset({list, NoneType})
#: Bytes or an address: a column may have both, so it is as Lance writes it.
_BLOB_TYPE = cast(pa.StructType, arrow_type(PropertyType(Scalar.BLOB)))


@dataclass(frozen=True)
class Fault:
    """A row of a column whose value does not fit."""

    row: int
    found: str
    expected: str


class UnfitError(Exception):
    """Some values of a column do not fit its type."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(faults)
        self.faults = faults


@dataclass(frozen=True)
class Conversion:
    """How JSON values become a column of one type."""

    #: The JSON types that can fit; Python's own, so a boolean is not a number.
    accepts: frozenset[type]
    expected: str
    build: _Build
    nullable: bool = True
    #: Of a list: how its items are converted, and how many there must be.
    items: Conversion | None = None
    length: int | None = None

    def column(self, values: Values) -> pa.Array[Any]:
        """Convert the values of a column, null where there is none; or raise `UnfitError`."""
        try:
            return self.checked(values)
        except _UNFIT as error:
            raise UnfitError(list(self._faults(values))) from error

    def checked(self, values: Values) -> pa.Array[Any]:
        """Convert the values of a column, or raise whatever shows that one does not fit."""
        kinds = set(map(type, values))
        if not kinds <= self.accepts or (not self.nullable and NoneType in kinds):
            raise ValueError("a value of another JSON type")
        return self.build(values)

    def _faults(self, values: Values) -> Iterator[Fault]:
        for row, value in enumerate(values):
            if not self._fits(value):
                yield Fault(row, self._found(value), self.expected)

    def _found(self, value: Any) -> str:
        """Say what was found; of a list only what is wrong with it, since lists are long."""
        if self.items is None or not isinstance(value, list):
            return shown(value)
        if self.length not in (None, len(value)):
            return f"{len(value)} items"
        wrong = next(n for n, item in enumerate(value) if not self.items._fits(item))
        return f"{shown(value[wrong])} as item {wrong + 1}"

    def _fits(self, value: Any) -> bool:
        try:
            self.checked([value])
        except _UNFIT:
            return False
        return True


def conversion_of(kind: PropertyType) -> Conversion:
    """Return how values of a property are converted."""
    if kind.dimension is not None:
        return _vector(kind.dimension, kind.nullable)
    if kind.list:
        return _list(kind)
    accepts, expected, build = _SCALARS[kind.scalar]
    return Conversion(frozenset({*accepts, NoneType}), expected, build, kind.nullable)


def shown(value: Any) -> str:
    """Write a JSON value for a message, not all of it if it is long."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _plain(arrow: pa.DataType) -> _Build:
    return lambda values: pa.array(values, arrow)


def _float64(values: Values) -> pa.Array[Any]:
    # Arrow refuses integers that a float cannot hold exactly; the engine takes the nearest float.
    return pa.array([v if v is None else float(v) for v in values], pa.float64())


def _float32(values: Values) -> pa.Array[Any]:
    array = _float64(values).cast(pa.float32(), safe=False)
    if pc.any(pc.is_inf(array)).as_py():
        raise ValueError("too large")
    return array


def _blob(values: Values) -> pa.Array[Any]:
    data, uris = [], []
    for value in values:
        inline = value is not None and value.startswith(_BASE64)
        data.append(_bytes_of(value[len(_BASE64) :]) if inline else None)
        uris.append(None if inline or value is None else _checked_uri(value))
    return pa.StructArray.from_arrays(
        [pa.array(data, pa.large_binary()), pa.array(uris, pa.string())],
        fields=list(_BLOB_TYPE),
        mask=_missing(values),
    )


def _bytes_of(text: str) -> bytes:
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as error:
        raise ValueError(text) from error
    # Bits that no byte uses must be zero: two texts for the same bytes are one too many.
    if text and base64.b64encode(data[-(len(data) % 3 or 3) :]).decode() != text[-4:]:
        raise ValueError(text)
    return data


def _checked_uri(text: str) -> str:
    if not _ABSOLUTE_URI.match(text):
        raise ValueError(text)
    return text


def _vector(dimension: int, nullable: bool) -> Conversion:
    of_items = conversion_of(PropertyType(Scalar.F32))
    zeros = [0.0] * dimension

    def build(values: Values) -> pa.Array[Any]:
        if any(v is not None and len(v) != dimension for v in values):
            raise ValueError("another length")
        items = list(chain.from_iterable(zeros if v is None else v for v in values))
        vectors = pa.FixedSizeListArray.from_arrays(
            of_items.checked(items), dimension, mask=_missing(values)
        )
        return cast("pa.Array[Any]", vectors)

    expected = f"a list of {dimension} numbers{_F32_RANGE}"
    return Conversion(_LISTS, expected, build, nullable, of_items, dimension)


def _list(kind: PropertyType) -> Conversion:
    of_items = conversion_of(PropertyType(kind.scalar, nullable=True))

    def build(values: Values) -> pa.Array[Any]:
        items = of_items.checked(list(chain.from_iterable(v for v in values if v is not None)))
        lengths = (0 if v is None else len(v) for v in values)
        offsets = pa.array(accumulate(lengths, initial=0), pa.int32())
        of_type = pa.list_(pa.field("item", items.type))
        return pa.ListArray.from_arrays(offsets, items, type=of_type, mask=_missing(values))

    expected = f"a list, each item {of_items.expected} or null"
    return Conversion(_LISTS, expected, build, kind.nullable, of_items)


def _missing(values: Values) -> pa.BooleanArray:
    return pa.array([value is None for value in values], pa.bool_())


def _whole(low: int, high: int) -> str:
    return f"a whole number from {low} to {high}"


_F32_RANGE = " of at most 3.4e38"

_SCALARS: dict[Scalar, tuple[tuple[type, ...], str, _Build]] = {
    Scalar.STRING: ((str,), "text", _plain(pa.string())),
    Scalar.BOOL: ((bool,), "true or false", _plain(pa.bool_())),
    Scalar.I32: ((int,), _whole(-(1 << 31), (1 << 31) - 1), _plain(pa.int32())),
    Scalar.I64: ((int,), _whole(-(1 << 63), (1 << 63) - 1), _plain(pa.int64())),
    Scalar.U32: ((int,), _whole(0, (1 << 32) - 1), _plain(pa.uint32())),
    Scalar.U64: ((int,), _whole(0, (1 << 64) - 1), _plain(pa.uint64())),
    Scalar.F32: ((int, float), f"a number{_F32_RANGE}", _float32),
    Scalar.F64: ((int, float), "a number", _float64),
    Scalar.DATE: ((int, str), 'a date such as "2024-01-02", or whole days since 1970', dates),
    Scalar.DATETIME: (
        (int, str),
        'a time such as "2024-01-02T03:04:05Z", or whole milliseconds since 1970',
        times,
    ),
    Scalar.BLOB: ((str,), f'"{_BASE64}" and standard base64, or an absolute URI', _blob),
}
