"""The id of every row: from the key, as given, or new; and how a row is named in a message.

A key forms the id by its plain text, as in the engine. A float or a point in time has no single
plain text (the engine keeps what was typed), so with such a key the id is given as well, and has to
be one way to write the key.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark import clock
from omnigraph_spark.schema.model import Scalar
from omnigraph_spark.writing.intake.casts import AnyArray, Broken, any_of

_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
_TIME_LETTERS, _RANDOM_BYTES, _LETTERS = 10, 10, 26

#: Keys whose text Arrow writes as the engine does.
_PLAIN = frozenset(
    {Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64}
)


@dataclass(frozen=True)
class Ids:
    """Ids of one batch as far as they are known, null where one has to be made."""

    known: AnyArray
    broken: tuple[Broken, ...] = ()


def forms_id(scalar: Scalar) -> bool:
    """Tell whether a key of this type says what the id is."""
    return scalar in _PLAIN


def ids_of_key(key: AnyArray, scalar: Scalar, given: AnyArray | None) -> Ids:
    """Return the ids of rows with a key; given ids have to agree with it."""
    plain = key.cast(pa.string()) if forms_id(scalar) else pa.nulls(len(key), pa.string())
    if given is None:
        return Ids(plain)
    differs = any_of([pc.not_equal(given, plain)], len(key))
    if not forms_id(scalar):
        differs = any_of([given.is_valid()], len(key))
    if scalar in _SPELLINGS and pc.any(differs).as_py():
        differs = _spelled_otherwise(key, given, differs, _SPELLINGS[scalar])
    known = pc.coalesce(given, plain)
    if not pc.any(differs).as_py():
        return Ids(known)
    return Ids(known, (Broken("id", "the id is not the key", differs),))


def _spelled_otherwise(
    key: AnyArray, given: AnyArray, rows: pa.BooleanArray, means: Callable[[str, Any], bool]
) -> pa.BooleanArray:
    """Leave those rows whose id is not a way to write the key; one by one, such keys are rare."""
    numbers = _as_numbers(key).filter(rows).to_pylist()
    texts = given.filter(rows).to_pylist()
    wrong = [
        value is not None and not means(str(text), value)
        for text, value in zip(texts, numbers, strict=True)
    ]
    answers: Any = pc.replace_with_mask(rows, rows, pa.array(wrong, pa.bool_()))
    return cast(pa.BooleanArray, answers)


def _as_numbers(key: AnyArray) -> AnyArray:
    if pa.types.is_date64(key.type):
        return key.view(pa.int64())
    return key.view(pa.int32()) if pa.types.is_date32(key.type) else key


_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ].*)?", re.ASCII | re.DOTALL)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _means_date(text: str, days: int) -> bool:
    found = _DAY.fullmatch(text)
    try:
        return found is not None and dt.date(*map(int, found.groups())) == _EPOCH.date() + (
            dt.timedelta(days)
        )
    except (ValueError, OverflowError):
        return False


def _means_datetime(text: str, milliseconds: int) -> bool:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1) == milliseconds


def _means_double(text: str, number: float) -> bool:
    try:
        return float(text) == number
    except ValueError:
        return False


def _means_float(text: str, number: float) -> bool:
    try:
        return float(np.float32(text)) == number
    except ValueError:
        return False


_SPELLINGS: dict[Scalar, Callable[[str, Any], bool]] = {
    Scalar.DATE: _means_date,
    Scalar.DATETIME: _means_datetime,
    Scalar.F64: _means_double,
    Scalar.F32: _means_float,
}


def completed(known: AnyArray) -> AnyArray:
    """Return the ids with a new ULID in place of each null."""
    if not known.null_count:
        return known
    made = new_ids(known.null_count)
    if known.null_count == len(known):
        return made
    return cast(AnyArray, pc.replace_with_mask(known, known.is_null(), made))


def new_ids(count: int) -> pa.StringArray:
    """Return that many fresh ULIDs: 48 bits of now, 80 random bits, in 26 letters."""
    drawn = np.frombuffer(os.urandom(count * _RANDOM_BYTES), np.uint8)
    # Five bytes are eight letters of five bits.
    fives = drawn.reshape(count * 2, 5).astype(np.uint64)
    numbers = fives @ (np.uint64(1) << np.arange(32, -1, -8, dtype=np.uint64))
    places = (numbers[:, None] >> np.arange(35, -1, -5, dtype=np.uint64)) & np.uint64(31)
    now = np.uint64(clock.now_us() // 1_000)
    time = (now >> np.arange(5 * (_TIME_LETTERS - 1), -1, -5, dtype=np.uint64)) & np.uint64(31)
    letters = np.empty((count, _LETTERS), np.uint8)
    letters[:, :_TIME_LETTERS] = _ALPHABET[time]
    letters[:, _TIME_LETTERS:] = _ALPHABET[places].reshape(count, _LETTERS - _TIME_LETTERS)
    ends = np.arange(0, (count + 1) * _LETTERS, _LETTERS, dtype=np.int32)
    buffers = [None, pa.py_buffer(ends.data), pa.py_buffer(letters.data)]
    return cast(pa.StringArray, pa.Array.from_buffers(pa.string(), count, buffers))


def labels(known: AnyArray, ends: tuple[AnyArray, AnyArray] | None, first_row: int) -> AnyArray:
    """Name every row: by its id, by its ends, or by its place among the rows of this task."""
    places = pa.array(range(first_row, first_row + len(known)), pa.int64()).cast(pa.string())
    join: Any = pc.binary_join_element_wise
    numbered = join("row", places, " ")
    if ends is None:
        return cast(AnyArray, pc.coalesce(known, numbered))
    return cast(AnyArray, pc.coalesce(known, join(*ends, " -> "), numbered))
