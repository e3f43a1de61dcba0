"""Given arrays as stored arrays: exactly, or the rows that do not fit are named, never changed.

A caster is chosen once for a column, by its Arrow type; then it runs on batches. The usual case is
one Arrow kernel or none: which rows are to blame is only asked when the kernel refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.schema.arrow import arrow_type
from omnigraph_spark.schema.model import PropertyType, Scalar

#: As text, because arrays can only be subscripted by type checkers.
AnyArray: TypeAlias = "pa.Array[Any]"


@dataclass(frozen=True)
class Broken:
    """Rows of one column that break one rule; the mask has no nulls."""

    rule: str
    message: str
    rows: pa.BooleanArray


@dataclass(frozen=True)
class Cast:
    """An array in its stored type, null in the rows that did not fit."""

    values: AnyArray
    broken: tuple[Broken, ...] = ()


Caster = Callable[[AnyArray], Cast]

_INTEGERS: dict[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(1 << 31), (1 << 31) - 1),
    Scalar.I64: (-(1 << 63), (1 << 63) - 1),
    Scalar.U32: (0, (1 << 32) - 1),
    Scalar.U64: (0, (1 << 64) - 1),
}
#: Up to here every integer has a float of its own.
_EXACT_FLOATS: dict[Scalar, int] = {Scalar.F32: 1 << 24, Scalar.F64: 1 << 53}
_TICKS = {"us": 1_000, "ns": 1_000_000}


def scalar_caster(given: pa.DataType, scalar: Scalar) -> Caster | None:
    """Return how single values of a type become a scalar, None when they cannot."""
    if pa.types.is_null(given):
        return partial(nulls, target=arrow_type(PropertyType(scalar)))
    if pa.types.is_dictionary(given):
        return _then(_decoded, scalar_caster(given.value_type, scalar))
    if pa.types.is_run_end_encoded(given):
        return _then(_expanded, scalar_caster(given.value_type, scalar))
    target = arrow_type(PropertyType(scalar))
    if scalar is Scalar.STRING and _is_text(given):
        return partial(_texts, target=target)
    if given == target:
        return Cast
    if scalar in _INTEGERS:
        return _integer_caster(given, scalar)
    if scalar in _EXACT_FLOATS:
        return _float_caster(given, scalar)
    if scalar is Scalar.DATETIME and pa.types.is_timestamp(given):
        return _instants
    return None


def _integer_caster(given: pa.DataType, scalar: Scalar) -> Caster | None:
    # Spark has no unsigned integers: what holds a U64 there is a decimal without a fraction.
    decimal = scalar is Scalar.U64 and pa.types.is_decimal(given) and given.scale == 0
    if not decimal and not pa.types.is_integer(given):
        return None
    low, high = _INTEGERS[scalar]
    return partial(_integers, target=arrow_type(PropertyType(scalar)), low=low, high=high)


def _float_caster(given: pa.DataType, scalar: Scalar) -> Caster | None:
    target = arrow_type(PropertyType(scalar))
    if pa.types.is_integer(given):
        return partial(
            _integers, target=target, low=-_EXACT_FLOATS[scalar], high=_EXACT_FLOATS[scalar]
        )
    if pa.types.is_float64(given):
        return _narrow_floats
    return partial(_narrow, target=target) if pa.types.is_floating(given) else None


def _then(first: Callable[[AnyArray], AnyArray], caster: Caster | None) -> Caster | None:
    return None if caster is None else partial(_chained, first=first, caster=caster)


def _chained(array: AnyArray, first: Callable[[AnyArray], AnyArray], caster: Caster) -> Cast:
    return caster(first(array))


def _decoded(array: AnyArray) -> AnyArray:
    return cast("pa.DictionaryArray[Any, Any]", array).dictionary_decode()


def _expanded(array: AnyArray) -> AnyArray:
    # The stubs of pyarrow do not have it.
    return cast(AnyArray, pc.call_function("run_end_decode", [array]))


def nulls(array: AnyArray, target: Any) -> Cast:
    """Cast an array without a type of its own, in which every row is null."""
    return Cast(pa.nulls(len(array), target))


def _narrow(array: AnyArray, target: pa.DataType) -> Cast:
    return Cast(narrowed(array, target))


def narrowed(array: AnyArray, target: pa.DataType) -> AnyArray:
    """Cast where only one thing can go wrong: more text in one batch than 32 bits can address."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(
            f"a batch with {array.nbytes} bytes in one column ({error})",
            "give smaller batches",
        ) from error


def _texts(array: AnyArray, target: pa.DataType) -> Cast:
    """Take texts that are valid UTF-8, which nobody checked before: Spark holds any bytes as text.

    Stored, a single other one would make its column unreadable, here and to the engine.
    """
    values = array if array.type == target else narrowed(array, target)
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        wrong = [text is not None and not _is_utf8(text) for text in _bytes_of(values)]
        rows = pa.array(wrong, pa.bool_())
        if not pc.any(rows).as_py():
            raise
        return Cast(without(values, rows), (Broken("text", "the text is not valid UTF-8", rows),))
    return Cast(values)


def _bytes_of(texts: AnyArray) -> list[bytes | None]:
    found: list[bytes | None] = texts.cast(pa.binary()).to_pylist()
    return found


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _integers(array: AnyArray, target: pa.DataType, low: int, high: int) -> Cast:
    try:
        return Cast(array.cast(target))
    except pa.ArrowInvalid:
        outside = _outside(array, low, high)
        kept = without(array, outside)
        message = f"the value is not between {low} and {high}, the limits of the type"
        return Cast(kept.cast(target), (Broken("overflow", message, outside),))


def _outside(array: AnyArray, low: int, high: int) -> pa.BooleanArray:
    limits = ((low, pc.less), (high, pc.greater))
    masks = [
        compare(array, scalar) for limit, compare in limits if (scalar := _limit(limit, array))
    ]
    return any_of(masks, len(array))


def _limit(value: int, array: AnyArray) -> pa.Scalar[Any] | None:
    try:
        number = Decimal(value) if pa.types.is_decimal(array.type) else value
        return cast("pa.Scalar[Any]", pa.scalar(number, array.type))
    except (pa.ArrowInvalid, OverflowError):
        # The given type does not reach that far.
        return None


def _narrow_floats(array: AnyArray) -> Cast:
    values = array.cast(pa.float32())
    # The cast makes infinity of what is too large, without a word.
    infinite = pc.is_inf(values)
    if not pc.any(infinite).as_py():
        return Cast(values)
    outside = any_of([pc.and_(infinite, pc.is_finite(array))], len(array))
    message = "the value is too large for a 32-bit float"
    return Cast(without(values, outside), _if_any(Broken("overflow", message, outside)))


def _instants(array: AnyArray) -> Cast:
    """Cut timestamps to milliseconds, downwards; a cast would round, or drop the time of day."""
    unit = cast("pa.TimestampType[Any, Any]", array.type).unit
    if unit == "s":
        return _seconds(array)
    numbers = array.view(pa.int64())
    if unit in _TICKS:
        ticks = pa.scalar(_TICKS[unit], pa.int64())
        cut = pc.divide(numbers, ticks)
        # Division cuts towards zero, which is upwards before 1970.
        before = pc.less(numbers, pc.multiply(cut, ticks)).cast(pa.int64())
        numbers = pc.subtract(cut, before)
    return Cast(numbers.view(pa.date64()))


def _seconds(array: AnyArray) -> Cast:
    numbers = array.view(pa.int64())
    most = ((1 << 63) - 1) // 1_000
    outside = _outside(numbers, -most, most)
    message = "the time is too far away for milliseconds in 64 bits"
    broken = _if_any(Broken("overflow", message, outside))
    kept = without(numbers, outside) if broken else numbers
    return Cast(pc.multiply(kept, pa.scalar(1_000, pa.int64())).view(pa.date64()), broken)


def any_of(masks: list[Any], length: int) -> pa.BooleanArray:
    """Return the rows that any of the masks marks; null marks nothing."""
    rows: Any = pa.repeat(pa.scalar(False), length)
    for mask in masks:
        rows = pc.or_(rows, pc.fill_null(mask, False))
    return cast(pa.BooleanArray, rows)


def without(array: AnyArray, rows: pa.BooleanArray) -> AnyArray:
    """Return an array with nulls in these rows."""
    places = pa.array(range(len(array)), pa.int64())
    return array.take(pc.if_else(rows, pa.scalar(None, pa.int64()), places))


def _if_any(broken: Broken) -> tuple[Broken, ...]:
    return (broken,) if pc.any(broken.rows).as_py() else ()


def _is_text(given: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(given)
        or pa.types.is_large_string(given)
        or pa.types.is_string_view(given)
    )
